"""What the command line of `python -m creditlab.compare` asks for: a suite's runs, or a table of results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from creditlab.analysis.curves import LAST_K
from creditlab.limits import user_path
from creditlab.options import ConfigError
from creditlab.overrides import check_seeds, read_value
from creditlab.plaintext import clean
from creditlab.suites.hydra_runner import LOCAL, check_launcher
from creditlab.suites.suite import Suite, find_suite, read_entries, read_suite, with_entries, with_seeds

OWN = (
    "suite", "methods", "seeds", "baseline", "parallel", "launcher", "run_root", "records", "out", "last", "plan", "table",
    "episodes", "digits",
)  # fmt: skip
"""Keys of this command."""
OF_A_TABLE = ("table", "baseline", "out", "last", "episodes", "digits")
"""Those that go with a table of results."""
OF_A_TABLE_ALONE = ("episodes", "digits")
DIGITS = tuple("0123456789")
NAMING = {
    "suite": "a suite",
    "baseline": "an entry",
    "run_root": "a folder",
    "records": "a folder",
    "out": "a folder",
    "table": "a file",
}
"""Keys that must not be empty, with what they name."""
LARGEST = {"parallel": 1_000, "last": 10_000, "episodes": 1_000_000_000}
"""Whole numbers beyond which a key was not meant so."""


@dataclass(frozen=True)
class Request:
    """What is to be compared, and how it is to be run."""

    suite: Suite
    overrides: tuple[str, ...]
    """Settings of all runs."""
    parallel: int
    launcher: str
    launcher_options: tuple[str, ...]
    run_root: str
    records: Path
    out: Path
    last: int
    plan_only: bool


@dataclass(frozen=True)
class TableRequest:
    """A table of results that is to be compared."""

    path: Path
    baseline: str
    out: Path | None
    last: int | None
    """None where nothing was said: then it follows from the table."""
    episodes: int | None
    digits: int


def read_request(arguments: Sequence[str]) -> Request | TableRequest:
    """What the command line asks for; raises ConfigError for what makes no sense."""
    own: dict[str, str] = {}
    rest: list[str] = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if argument.startswith("-") or not (equals or argument.startswith("~")):
            raise ConfigError(f"cannot read {argument!r}: write key=value; --help lists the keys")
        if key not in OWN:
            rest.append(argument)
        elif key in own:
            raise ConfigError(f"{key} is given twice; keep one")
        elif key in NAMING and not value.strip():
            raise ConfigError(f"{key}= is empty; name {NAMING[key]}, or leave {key} out")
        else:
            own[key] = value
    if "table" in own:
        return _table_request(own, rest)
    for key in OF_A_TABLE_ALONE:
        if key in own:
            raise ConfigError(f"{key} has no effect without table=; remove it")
    suite = _suite(own)
    options = tuple(argument for argument in rest if argument.lstrip("+").startswith("hydra.launcher."))
    launcher = own.get("launcher", LOCAL)
    check_launcher(launcher, options)
    run_root = own.get("run_root", "runs")
    _refuse_file("run_root", user_path("run_root", run_root))
    out = user_path("out", own.get("out", str(Path(run_root) / "comparisons" / suite.name)))
    return Request(
        suite,
        tuple(argument for argument in rest if argument not in options),
        _number("parallel", own.get("parallel", "1")),
        launcher,
        options,
        run_root,
        user_path("records", own["records"]) if "records" in own else out / "records",
        out,
        _number("last", own.get("last", str(LAST_K))),
        _flag("plan", own.get("plan", "false")),
    )


def _table_request(own: Mapping[str, str], rest: Sequence[str]) -> TableRequest:
    """What is asked for of a table; raises ConfigError for keys that have to do with runs."""
    for key in (*own, *(argument.partition("=")[0] for argument in rest)):
        if key not in OF_A_TABLE:
            raise ConfigError(f"{key} has no effect beside table=; {', '.join(OF_A_TABLE[1:])} go with it")
    digits = own.get("digits", "2")
    if digits not in DIGITS:
        raise ConfigError(f"digits={digits}: write a number from {DIGITS[0]} to {DIGITS[-1]}")
    return TableRequest(
        user_path("table", own["table"]),
        own.get("baseline", ""),
        user_path("out", own["out"]) if "out" in own else None,
        _number("last", own["last"]) if "last" in own else None,
        _number("episodes", own["episodes"]) if "episodes" in own else None,
        int(digits),
    )


def _suite(own: Mapping[str, str]) -> Suite:
    """The suite with the entries, seeds and baseline of the command line."""
    suite = read_suite(find_suite(own.get("suite", "default")))
    if "methods" in own:
        suite = with_entries(suite, read_entries(read_value("methods", own["methods"])))
    if "seeds" in own:
        wrong = f"seeds={own['seeds']}"
        suite = with_seeds(suite, check_seeds(read_value("seeds", own["seeds"]), wrong))
    return suite.against_entry(own["baseline"]) if "baseline" in own else suite


def _refuse_file(key: str, folder: Path) -> None:
    """Refuses the path of a folder that leads through a file."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not there.is_dir():
        raise ConfigError(f"{key}={folder}: {there} is no folder; choose another one")


def _number(key: str, text: str) -> int:
    most = LARGEST[key]
    if not text.isascii() or not text.isdigit() or len(text) > len(str(most)) or not 1 <= int(text) <= most:
        raise ConfigError(f"{key}={clean(text, 40)}: write a whole number from 1 to {most}")
    return int(text)


def _flag(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigError(f"{key}={text}: write true or false")
    return text == "true"
