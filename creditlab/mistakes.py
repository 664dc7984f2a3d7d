"""Explains what is wrong with a command line, in one sentence: what exists, or the nearest valid key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.global_hydra import GlobalHydra
from hydra.core.object_type import ObjectType
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, OverrideParseException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import MarkedYAMLError  # type: ignore[import-untyped]

from creditlab.config import CHOSEN, TOP_LEVEL, compose_config, hydra_session
from creditlab.hookspecs import AXES, GROUPS
from creditlab.options import ConfigError, clipped, shown, unknown_key
from creditlab.registry import BASE, registry

FILE_GROUPS = ("experiment", "preset", "tuning")
"""Config groups that hold files instead of components."""
CHOICES = (*GROUPS, *FILE_GROUPS)
_REQUIRED = ("method", *CHOSEN)
_NO_KEY = (
    r"Could not override '(?P<key>[^']+)'",
    r"Could not delete from config\. '(?P<key>[^']+)' does not exist",
    r"Could not delete '(?P<key>[^']+)'",
)
_TAKEN = r"An item is already at '(?P<key>[^']+)'"
_NO_CHOICE = r"Could not (?:find|load) '(?P<group>\w+)(?:@[\w.]+)?/(?P<name>[^']*)'"


def check_overrides(overrides: Sequence[str]) -> None:
    """Refuses what Hydra lets pass: a component given twice, a list of them, and an optional file that does not exist."""
    seen: dict[str, str] = {}
    for override in _parsed(overrides):
        group, key, value, text = str(override.key_or_group), _key(override), override.value(), str(override.input_line)
        if override.is_sweep_override():
            raise ConfigError(_several(text))
        if group not in CHOICES:
            continue
        names = value if isinstance(value, list) else [value]
        if isinstance(value, dict) or (isinstance(value, list) and group not in ("aux", "experiment")):
            raise ConfigError(_one_name(override))
        if key in seen or len(names) > len(set(names)):
            raise ConfigError(f"{key} is given twice: {f'{seen.get(key, str())} {text}'.strip()}; keep one")
        seen[key] = text
        unknown = [str(name) for name in names if name is not None and str(name) not in _names(group)]
        if unknown:
            raise ConfigError(_unknown_choice(group, unknown[0]))


def explain(error: Exception, arguments: Sequence[str]) -> str:
    """One clear message, of a length to read, for an error of composition or validation."""
    return clipped(_reason(error, arguments))


def _reason(error: Exception, arguments: Sequence[str]) -> str:
    if isinstance(error, RecursionError):
        return f"cannot read {clipped(' '.join(arguments))!r}: it is nested too deeply"
    if isinstance(error, MarkedYAMLError) and error.problem_mark:
        where = f"{error.problem_mark.name}, line {error.problem_mark.line + 1}"
        return f"{where} is no valid YAML: {error.problem or error.context}"
    if isinstance(error, OverrideParseException):
        return _malformed(error.override)
    if isinstance(error, ConfigError):
        return f"{error}{_brought(str(error), arguments)}"
    text = "\n".join(str(e) for e in _chain(error))
    choice = re.search(_NO_CHOICE, text)
    if choice:
        return _unknown_choice(choice["group"], choice["name"])
    for override in _parsed(arguments):
        group, key, value = str(override.key_or_group), _key(override), override.value()
        if not group:
            return _malformed(str(override.input_line))
        if group not in CHOICES:
            continue
        if "Config group override must be a string" in text and not isinstance(value, (str, list, type(None))):
            return _one_name(override) if override.is_sweep_override() else _unknown_choice(group, str(value))
        if f"Multiple values for {group}." in text:
            return f"{key} has a value already; write {key}={value}, without the +"
        if "Got NoneType" in text and value is None:
            return _null(override)
        if "_${env}'" in text and group in _REQUIRED and (not isinstance(value, str) or "${" in value):
            return _one_name(override)
    taken = re.search(_TAKEN, text)
    if taken:
        return f"{taken['key']} has a value already; write it without the +"
    several = re.search(r"Ambiguous value for argument '(?P<override>[^']+)'", text)
    if several:
        return _several(several["override"])
    absent = next((found["key"] for pattern in _NO_KEY if (found := re.search(pattern, text))), None)
    if absent:
        full = next((str(e.full_key) for e in _chain(error) if getattr(e, "full_key", None)), "")
        return _unknown(full if full.startswith(f"{absent}.") else absent, arguments)
    message = " ".join(str(error).split()) or type(error).__name__
    named = any(_key(override) in message for override in _parsed(arguments))
    return message if named or not arguments else f"{message}; given: {' '.join(arguments)}"


def _brought(message: str, arguments: Sequence[str]) -> str:
    """Where an unknown key comes from that the user did not write: the experiment without which it is gone."""
    unknown = re.match(r"unknown key '([^']+)'", message)
    experiments = [argument for argument in arguments if argument.lstrip("+").startswith("experiment=")]
    if not unknown or not experiments or any(unknown[1] == _key(override) for override in _parsed(arguments)):
        return ""
    try:
        with_it = _keys_of(arguments)
        without = _keys_of([argument for argument in arguments if argument not in experiments])
    except (HydraException, OmegaConfBaseException, ValueError):
        return ""
    section = unknown[1].rpartition(".")[0]
    brought = sorted(key for key in with_it - without if key.rpartition(".")[0] == section)
    if unknown[1] not in brought:
        return ""
    return f"; it comes from {' '.join(experiments)}: leave that out, or add {' '.join(f'~{key}' for key in brought)}"


def _parsed(arguments: Sequence[str]) -> Iterator[Override]:
    """The overrides among command-line arguments; what cannot be read is Hydra's to refuse."""
    parser = OverridesParser.create()
    for argument in arguments:
        if not argument.startswith("-"):
            try:
                yield parser.parse_override(argument)
            except HydraException:
                continue


def _key(override: Override) -> str:
    return override.get_key_element().lstrip("+~")


def _chain(error: BaseException) -> list[Any]:
    """The error and what led to it."""
    led = error.__cause__ or error.__context__
    return [error, *(_chain(led) if led else ())]


def _malformed(override: str) -> str:
    return (
        f"cannot read {override!r}: write key=value, and quote a value that holds spaces, commas or brackets, "
        "such as 'name=\"a b\"'"
    )


def _several(override: str) -> str:
    return f"{override!r} gives several values: add -m to run each of them, or write [a,b] for a list"


def _names(group: str) -> list[str]:
    """What can be chosen in a config group: components and files, those in folders below it as `folder/name`."""
    if GlobalHydra.instance().is_initialized():  # its search path may be longer than the shipped one
        return _options(GlobalHydra.instance().config_loader(), group)
    with hydra_session() as loader:
        return _options(loader, group)


def _options(loader: ConfigLoader, group: str) -> list[str]:
    folders = loader.get_group_options(group, ObjectType.GROUP)
    below = [f"{folder}/{name}" for folder in folders for name in _options(loader, f"{group}/{folder}")]
    return [*loader.get_group_options(group), *below]


def _unknown_choice(group: str, name: str) -> str:
    if group in FILE_GROUPS:
        return f"unknown {group} {name!r}; available: {', '.join(_names(group)) or 'none'}"
    return registry().unknown(group, name)


def _one_name(override: Override) -> str:
    available = ", ".join(_names(str(override.key_or_group)))
    return f"{_key(override)} takes one name, got {override.input_line!r}; available: {available}"


def _null(override: Override) -> str:
    group, key = str(override.key_or_group), _key(override)
    if group == "aux":
        return "aux cannot be null; write aux=[] for no auxiliary loss"
    if group not in (*_REQUIRED, *AXES):
        return f"{key} cannot be null; write ~{key} to have none"
    default = ", or leave it out for the default of the method" if group in AXES else ""
    return f"{key} cannot be null; choose one of: {', '.join(registry().names(group))}{default}"


def _unknown(key: str, arguments: Sequence[str]) -> str:
    """The message for a key that is in no configuration: composes again without the overrides that name it."""
    rest = [a for a in arguments if not a.startswith("-") and a.split("=", 1)[0].lstrip("+~") != key]
    try:
        cfg, choices = compose_config(rest)
    except (HydraException, OmegaConfBaseException, ValueError):
        cfg, choices = compose_config([])
    if (key.split(".")[0] == BASE and not cfg.get(BASE)) or key.startswith(f"method.{BASE}"):
        wrapped = f"method@{BASE}=<name> chooses the wrapped method, its keys are {BASE}.<key>"
        return f"unknown key {key!r}: beside a wrapper {wrapped}"
    if "@" in key:
        nested = [choice for choice in choices if choice.partition("@")[0] in GROUPS and "@" in choice]
        _, kind, name, *_ = [*re.split(r"[@.]", key), "", ""]
        hint = f"; aux=[{name}] adds it" if kind == "aux" and name in registry().names("aux") else ""
        return unknown_key("", key, nested) + hint
    node: Any = OmegaConf.to_container(cfg)
    everywhere = [*_flat(node)]
    done: list[str] = []
    for step in key.split("."):
        if not isinstance(node, Mapping):
            return f"unknown key {key!r}: {'.'.join(done)} is a value ({shown(node)}), not a section"
        if step not in node:
            break
        node = node[step]
        done.append(step)
    if ".".join(done) == key:
        return f"{key} is there, with the value {shown(node)}; to remove it write ~{key}"
    # a component's name is no option of it: it is chosen as a whole
    valid = {*node} - {"name"} if done else {*TOP_LEVEL, "experiment", "preset"}
    return unknown_key(".".join(done), ".".join(key.split(".")[len(done) :]), valid, everywhere)


def _keys_of(overrides: Sequence[str]) -> set[str]:
    """The full keys of the configuration that overrides compose; raises Hydra's and OmegaConf's own errors."""
    composed: Any = OmegaConf.to_container(compose_config(overrides)[0])
    return set(_flat(composed))


def _flat(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The full keys of all options, without sections and components' names."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        elif not prefix or key != "name":
            yield f"{prefix}{key}"
