"""What a suite compares: its settings, its entries and its seeds, from a YAML file and the command line."""

from __future__ import annotations

import shlex
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from creditlab.config import config_dir
from creditlab.limits import user_path
from creditlab.options import ConfigError, did_you_mean, shown, validate
from creditlab.overrides import check_seeds
from creditlab.suites.suite_yaml import load

_LONGEST_NAME = 60
SuiteName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=_LONGEST_NAME)]
_KINDS = (".yaml", ".yml")


@dataclass(frozen=True)
class Entry:
    """One entry of a comparison."""

    name: str
    """As tables and figures show it; the method and its overrides where it was given no other."""
    method: str
    overrides: tuple[str, ...] = ()
    """In what it differs from the method's own settings."""


@dataclass(frozen=True)
class Setting:
    """One setting: what the entries are trained and evaluated on."""

    name: str | None
    """None for the name of its environment."""
    overrides: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    """Empty for those of the suite."""
    entries: tuple[str, ...] = ()
    """Names of the entries that take part; empty for all."""


@dataclass(frozen=True)
class Suite:
    """A comparison: every entry with every seed in every setting."""

    name: str
    entries: tuple[Entry, ...]
    seeds: tuple[int, ...]
    settings: tuple[Setting, ...] = (Setting(None),)
    baseline: str = ""
    """Name of the entry that the others are compared with; empty for the first one."""
    overrides: tuple[str, ...] = ()
    """Settings of all runs."""

    def __post_init__(self) -> None:
        if not self.entries:
            raise ConfigError("a suite needs at least one method: methods=[grpo,mcgpo], or entries in its file")
        names = [entry.name for entry in self.entries]
        _refuse_twice("the entry", names)
        _refuse_twice("the setting", [setting.name for setting in self.settings if setting.name])
        if len(self.settings) > 1 and any(setting.name is None for setting in self.settings):
            raise ConfigError("a suite with several settings needs a name for each of them")
        if self.baseline and self.baseline not in names:
            near = did_you_mean(self.baseline, names)
            raise ConfigError(f"baseline {self.baseline!r} is no entry of the suite{near}; entries: {', '.join(names)}")
        for setting in self.settings:
            for name in setting.entries:
                if name not in names:
                    near = did_you_mean(name, names)
                    raise ConfigError(f"setting {setting.name}: {name!r} is no entry of the suite{near}")
        for name in names:
            if all(setting.entries and name not in setting.entries for setting in self.settings):
                raise ConfigError(f"the entry {name!r} takes part in no setting; add it to the entries of one, or remove it")

    @property
    def against(self) -> str:
        """Name of the entry that the others are compared with."""
        return self.baseline or self.entries[0].name

    def against_entry(self, name: str) -> Suite:
        """The suite with another baseline."""
        return replace(self, baseline=name)

    def seeds_of(self, setting: Setting) -> tuple[int, ...]:
        """The seeds of a setting."""
        return setting.seeds or self.seeds

    def entries_of(self, setting: Setting) -> list[Entry]:
        """The entries of a setting, in the suite's order."""
        return [entry for entry in self.entries if not setting.entries or entry.name in setting.entries]


@dataclass(frozen=True)
class SuiteFile:
    """The keys of a suite's file."""

    name: SuiteName | None = None
    """Name of the suite, its group in W&B and its folder; null is the name of the file."""
    settings: list[Any] = field(default_factory=list)
    """What the entries are trained on; none is the default environment."""
    entries: list[Any] = field(default_factory=list)
    """Methods, each with overrides where it has some."""
    seeds: list[Any] = field(default_factory=lambda: [0, 1, 2])
    """Seeds of every entry."""
    baseline: str = ""
    """Entry that the others are compared with; empty is the first one."""
    overrides: list[str] = field(default_factory=list)
    """Settings of all runs, as on the command line."""


@dataclass(frozen=True)
class SettingKeys:
    """The keys of a setting in a suite's file."""

    name: SuiteName | None = None
    """Its name in the report."""
    overrides: list[str] = field(default_factory=list)
    """What makes it, such as `env=webshop`."""
    seeds: list[Any] = field(default_factory=list)
    """Its seeds, where they are others than the suite's."""
    entries: list[str] = field(default_factory=list)
    """Names of the entries that take part, where not all do."""


@dataclass(frozen=True)
class EntryKeys:
    """The keys of an entry in a suite's file."""

    method: str = ""
    """The method."""
    name: str = ""
    """Its name in the report; empty is the method and its overrides."""
    overrides: list[str] = field(default_factory=list)
    """In what it differs from the method's own settings."""


def shipped_suites() -> list[str]:
    """Names of the suites that come with the package."""
    return sorted(path.stem for path in (Path(config_dir()) / "suite").glob("*.yaml"))


def find_suite(name: str) -> Path:
    """The file of a shipped suite, or the file that a path names; raises ConfigError where there is none."""
    if name.endswith(_KINDS):
        path = user_path("suite", name)
        if not path.is_file():
            raise ConfigError(f"suite={name}: there is no such file; shipped suites are {', '.join(shipped_suites())}")
        return path
    if name not in shipped_suites():
        near = did_you_mean(name, shipped_suites())
        available = ", ".join(shipped_suites())
        raise ConfigError(f"unknown suite {name!r}{near}; available: {available}, or the path of a YAML file")
    return Path(config_dir()) / "suite" / f"{name}.yaml"


def read_suite(path: Path) -> Suite:
    """The suite in a YAML file; raises ConfigError that names the file and the key at fault."""
    content = load(path)
    try:
        return _suite(_keys(SuiteFile, content, "the suite"), path.stem)
    except ConfigError as error:
        raise ConfigError(f"suite {path}: {error}") from None


def read_entry(node: Any) -> Entry:
    """An entry from `"method key=value …"` or from its keys in a file; raises ConfigError for anything else."""
    if isinstance(node, Mapping):
        keys = _keys(EntryKeys, node, "an entry")
        method, overrides, name = keys["method"], keys["overrides"], keys["name"]
    else:
        method, overrides, name = *_words(node), ""
    if not method or "=" in method:
        raise ConfigError(f'the entry {shown(node)} begins with no method; write "mcgpo match=state_only"')
    for override in overrides:
        if "=" not in override and not override.startswith("~"):
            raise ConfigError(f"the entry {shown(node)} holds {override!r}, which is not key=value")
    return Entry(_entry_name(name or " ".join([method, *overrides])), method, tuple(overrides))


def read_entries(node: Any) -> tuple[Entry, ...]:
    """One entry or a list of them; raises ConfigError for a list of nothing."""
    return tuple(read_entry(item) for item in (node if isinstance(node, list) else [node]))


def with_entries(suite: Suite, entries: tuple[Entry, ...]) -> Suite:
    """The suite with other entries: all of them in every setting, its baseline where it is still among them."""
    names = [entry.name for entry in entries]
    settings = tuple(replace(setting, entries=()) for setting in suite.settings)
    return replace(suite, entries=entries, settings=settings, baseline=suite.baseline if suite.baseline in names else "")


def with_seeds(suite: Suite, seeds: tuple[int, ...]) -> Suite:
    """The suite with other seeds, the same in every setting."""
    return replace(suite, seeds=seeds, settings=tuple(replace(setting, seeds=()) for setting in suite.settings))


def _entry_name(name: str) -> str:
    """The name, which every table, figure and file of the report can hold."""
    if not name.strip():
        raise ConfigError(f"the name {name!r} of an entry is blank; write a name, or leave it out")
    wrong = next((sign for sign in name if unicodedata.category(sign) in ("Cc", "Cs") and not sign.isspace()), None)
    if wrong is not None:
        raise ConfigError(f"the name {name!r} of an entry holds U+{ord(wrong):04X}, which is no character to show; remove it")
    return name


def _suite(keys: Mapping[str, Any], file_name: str) -> Suite:
    name = keys["name"] or file_name
    if len(name) > _LONGEST_NAME or not name.strip("."):  # `..` would be the folder above
        raise ConfigError(
            f"{shown(name)} is no name for a suite; write name: and at most {_LONGEST_NAME} letters into the file"
        )
    settings = tuple(_setting(node, index) for index, node in enumerate(keys["settings"]))
    return Suite(
        name,
        read_entries(keys["entries"]),
        check_seeds(keys["seeds"], f"seeds: {shown(keys['seeds'])}"),
        settings or (Setting(None),),
        keys["baseline"],
        tuple(keys["overrides"]),
    )


def _setting(node: Any, index: int) -> Setting:
    where = f"settings[{index}]"
    keys = _keys(SettingKeys, node, where)
    seeds = check_seeds(keys["seeds"], f"{where}.seeds: {shown(keys['seeds'])}") if keys["seeds"] else ()
    return Setting(keys["name"], tuple(keys["overrides"]), seeds, tuple(keys["entries"]))


def _keys(cls: type, node: Any, what: str) -> dict[str, Any]:
    if not isinstance(node, Mapping):
        raise ConfigError(f"{what} holds no keys; it is {shown(node)}")
    return validate(cls, node, "" if cls is SuiteFile else what)


def _words(text: Any) -> tuple[str, list[str]]:
    """Method and overrides of an entry in one line."""
    try:
        words = shlex.split(text) if isinstance(text, str) else []
    except ValueError as error:
        raise ConfigError(f"cannot read the entry {text!r}: {error}") from None
    if not words:
        raise ConfigError(f'{shown(text)} is no entry; write a method and what it is run with: "mcgpo match=state_only"')
    return words[0], words[1:]


def _refuse_twice(what: str, names: Sequence[str | None]) -> None:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"{what} {twice!r} appears twice; give each another name")
