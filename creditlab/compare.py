"""`python -m creditlab.compare suite=… methods=[…] seeds=[…]`: trains what a comparison lacks, and compares."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from creditlab.analysis import comparison_tables as shown_as
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.curves import LAST_K
from creditlab.analysis.results_csv import read_results
from creditlab.analysis.tables import Table, json_text, latex, markdown
from creditlab.cli import complain, warn_failed_plugins
from creditlab.limits import try_writing
from creditlab.options import ConfigError, did_you_mean
from creditlab.overrides import check_seeds, read_value
from creditlab.stopping import EXIT_FAILED, EXIT_INTERRUPTED, end_when_told, tell
from creditlab.suites.board import Board, State, Status
from creditlab.suites.collect import FinishedRun, curve_of
from creditlab.suites.differences import differences, differences_table
from creditlab.suites.hydra_runner import LOCAL, HydraRunner, check_launcher
from creditlab.suites.plan import plan
from creditlab.suites.record import make_record, read_record, write_record
from creditlab.suites.runner import LocalRunner
from creditlab.suites.standing import Standing, standing
from creditlab.suites.suite import Suite, find_suite, read_entries, read_suite, shipped_suites, with_entries, with_seeds
from creditlab.tracking import metrics as m
from creditlab.tracking.text import encodable

USAGE = """\
python -m creditlab.compare [suite=…] ['methods=[…]'] ['seeds=[…]'] [parallel=…] [launcher=…] [key=value …]
python -m creditlab.compare table=<results.csv> [baseline=…] [out=…]

Trains every method with every seed, skips the runs that are finished, and compares all of them. The same command goes on
with a suite that was interrupted.

  suite       a shipped suite ({suites}) or a YAML file; default
  methods     entries instead of the suite's, such as [grpo,"mcgpo match=state_only"]
  seeds       seeds instead of the suite's, such as [0,1,2]
  baseline    the entry that the others are compared with; the suite's, else the first one
  parallel    runs at a time on this machine; 1
  launcher    local (default), or joblib, submitit, submitit_local, ray: Hydra's, with options hydra.launcher.<key>=…
  run_root    folder of the run folders; runs
  records     folder with a record of every finished run, which stands for it where the run folder is elsewhere
  out         folder of logs and results; <run_root>/comparisons/<suite>
  last        evaluations in the mean at the end of a run; {last}
  plan        true prints what would be done and stops
  table       a CSV file with the columns method, setting, seed, update, value: compares numbers from elsewhere

Every other key is a setting of all runs, such as env=webshop or training.updates=20.
"""
OWN = (
    "suite", "methods", "seeds", "baseline", "parallel", "launcher", "run_root", "records", "out", "last", "plan", "table",
)  # fmt: skip
"""Keys of this command."""
OF_A_TABLE = ("table", "baseline", "out", "last")
"""Those that go with a table of results."""


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
    last: int


def main(arguments: Sequence[str]) -> int:
    """Runs and compares; returns the exit code: 1 when a run failed, 130 when interrupted, 2 for a mistake."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(USAGE.format(suites=", ".join(shipped_suites()), last=LAST_K))
        return 0
    try:
        request = read_request(arguments)
        if isinstance(request, TableRequest):
            return _compare_table(request, Console(highlight=False))
        return _run_suite(request, Console(highlight=False))
    except ValueError as error:
        return complain(error, arguments)


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
        else:
            own[key] = value
    last = _number("last", own.get("last", str(LAST_K)))
    if "table" in own:
        for key in (*own, *(argument.partition("=")[0] for argument in rest)):
            if key not in OF_A_TABLE:
                raise ConfigError(f"{key} has no effect beside table=; {', '.join(OF_A_TABLE[1:])} go with it")
        out = Path(own["out"]).expanduser() if "out" in own else None
        return TableRequest(Path(own["table"]).expanduser(), own.get("baseline", ""), out, last)
    suite = _suite(own)
    options = tuple(argument for argument in rest if argument.lstrip("+").startswith("hydra.launcher."))
    launcher = own.get("launcher", LOCAL)
    check_launcher(launcher, options)
    run_root = own.get("run_root", "runs")
    out = Path(own.get("out", str(Path(run_root) / "comparisons" / suite.name))).expanduser()
    return Request(
        suite,
        tuple(argument for argument in rest if argument not in options),
        _number("parallel", own.get("parallel", "1")),
        launcher,
        options,
        run_root,
        Path(own["records"]).expanduser() if "records" in own else out / "records",
        out,
        last,
        _flag("plan", own.get("plan", "false")),
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


def _number(key: str, text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise ConfigError(f"{key}={text}: write a whole number from 1 on")
    return int(text)


def _flag(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        raise ConfigError(f"{key}={text}: write true or false")
    return text == "true"


def _run_suite(request: Request, console: Console) -> int:
    """Plans, trains what is missing, and compares; returns the exit code."""
    warn_failed_plugins()
    runs = plan(request.suite, request.overrides, request.run_root)
    statuses = [Status(run) for run in runs]
    found = {id(status): _find(status, request.records) for status in statuses}
    _show_plan(console, request, statuses)
    if request.plan_only:
        return 0
    _check_folders(request)
    with Board(statuses, console) as board, _signals() as stop:
        _runner(request).run(statuses, board, stop)
    finished = []
    for status in statuses:
        if status.state is State.FINISHED:
            record = found[id(status)] or write_record(request.records, status.run, make_record(status.run))
            finished.append(FinishedRun(status.run, record))
    comparison = _compare(request, finished, console)
    return _report(request, statuses, comparison, console, interrupted=bool(stop))


def _find(status: Status, records: Path) -> dict[str, Any] | None:
    """Looks whether a run is finished, in its folder or by its record, and returns the record in the second case.

    A run that cannot be used counts as failed, with the reason; the others go on.
    """
    try:
        status.at = standing(status.run)
        record = None if status.at.finished else read_record(records, status.run)
    except ConfigError as error:
        status.state, status.message = State.FAILED, str(error)
        return None
    if record:
        success = record["evaluations"][-1]["metrics"][m.VAL_SUCCESS]
        status.at = Standing(status.run.updates, True, success, None)
    if status.at.finished:
        status.state = State.FINISHED
    return record


def _runner(request: Request) -> LocalRunner | HydraRunner:
    if request.launcher == LOCAL:
        return LocalRunner(request.out, request.parallel)
    return HydraRunner(request.out, request.launcher, request.launcher_options, request.parallel)


def _show_plan(console: Console, request: Request, statuses: Sequence[Status]) -> None:
    """How many runs there are and what is left to do; every run where that is all that was asked for."""
    finished = sum(status.state is State.FINISHED for status in statuses)
    begun = sum(status.state is State.WAITING and status.at.update > 0 for status in statuses)
    parts = [f"{finished} finished", f"{begun} begun", f"{len(statuses) - finished - begun} to do"]
    _say(console, f"suite {request.suite.name}: {len(statuses)} runs, {', '.join(parts)}")
    for status in statuses:
        if status.state is State.FAILED:
            _say(console, f"{status.run.label}: {status.message}", "red")
    if not request.plan_only:
        return
    grid = Grid("setting", "entry", "seed", "state", "run folder")
    for status in statuses:
        run = status.run
        state = status.progress if status.state is State.WAITING and status.at.update > 0 else status.state.value
        cells = (run.setting, run.entry.name, str(run.seed), state, str(run.folder))
        grid.add_row(*(Text(encodable(cell, console.encoding), overflow="fold") for cell in cells))
    console.print(grid)


def _check_folders(request: Request) -> None:
    """Refuses folders in which nothing can be written, before anything is trained."""
    for key, folder in (("out", request.out), ("records", request.records)):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try_writing(folder)
        except OSError as error:
            raise ConfigError(f"{key}={folder}: cannot write there: {error.strerror}; choose another folder") from None


@contextmanager
def _signals() -> Iterator[list[int]]:
    """Collects interrupt and termination signals, so that the runs at work can be ended in order."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        received.append(signum)

    previous = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _compare(request: Request, finished: Sequence[FinishedRun], console: Console) -> Comparison | None:
    """Compares what is finished, shows the two main tables and writes all of them."""
    curves = [curve_of(run) for run in finished]
    baseline = request.suite.against
    if not any(curve.method == baseline for curve in curves):
        _say(console, f"no comparison yet: no run of the baseline {baseline} is finished", "yellow")
        return None
    comparison = Comparison(curves, baseline, request.last)
    configs = _configs(finished)
    further = [differences_table(setting, by_entry) for setting, by_entry in configs.items()]
    facts = {
        "suite": request.suite.name,
        "runs": [run.facts for run in finished],
        "configuration_differences": {setting: differences(by_entry) for setting, by_entry in configs.items()},
    }
    _write(request.out, comparison, further, facts)
    _show(comparison, console)
    return comparison


def _configs(finished: Sequence[FinishedRun]) -> dict[str, dict[str, Mapping[str, Any]]]:
    """The configuration of every entry by setting, that of its first finished seed."""
    found: dict[str, dict[str, Mapping[str, Any]]] = {}
    for run in finished:
        found.setdefault(run.run.setting, {}).setdefault(run.run.entry.name, run.record["config"])
    return found


def _write(out: Path, comparison: Comparison, further: Sequence[Table], facts: Mapping[str, Any]) -> None:
    """The comparison as JSON, Markdown and LaTeX."""
    every = [*shown_as.tables(comparison), *(table for table in further if table.rows)]
    out.mkdir(parents=True, exist_ok=True)
    (out / "comparison.json").write_text(json_text({**facts, **shown_as.as_record(comparison)}), encoding="utf-8")
    (out / "comparison.md").write_text("\n".join(map(markdown, every)), encoding="utf-8")
    (out / "comparison.tex").write_text("\n".join(map(latex, every)), encoding="utf-8")


def _show(comparison: Comparison, console: Console) -> None:
    for table in (shown_as.results_table(comparison), shown_as.differences_table(comparison)):
        if not table.rows:
            continue
        grid = Grid(title=Text(encodable(table.title, console.encoding)), title_justify="left")
        for index, column in enumerate(table.columns):
            side: Literal["left", "right"] = "left" if index < table.labels else "right"
            grid.add_column(Text(encodable(column, console.encoding)), justify=side, overflow="fold")
        for row in table.rows:
            grid.add_row(*(Text(encodable(cell, console.encoding)) for cell in row))
        console.print(grid)
        for note in table.notes:
            _say(console, f"  {note}")


def _report(
    request: Request, statuses: Sequence[Status], comparison: Comparison | None, console: Console, *, interrupted: bool
) -> int:
    """Says where everything lies, what failed and how to go on; returns the exit code."""
    if comparison:
        _say(console, f"results  {request.out / 'comparison.md'}, .json, .tex")
    _say(console, f"records  {request.records}")
    failed = [status for status in statuses if status.state is State.FAILED]
    for status in failed:
        _say(console, f"failed: {status.run.label}: {status.message}", "red")
    finished = sum(status.state is State.FINISHED for status in statuses)
    if interrupted:
        tell(f"interrupted with {finished} of {len(statuses)} runs finished; the same command goes on")
        return EXIT_INTERRUPTED
    if failed:
        tell(f"{len(failed)} of {len(statuses)} runs failed; the same command tries them again")
        return EXIT_FAILED
    return 0


def _compare_table(request: TableRequest, console: Console) -> int:
    """Compares the curves of a table; returns the exit code."""
    curves = read_results(request.path)
    names = list(dict.fromkeys(curve.method for curve in curves))
    baseline = request.baseline or names[0]
    if baseline not in names:
        raise ConfigError(f"baseline={baseline} is no method of {request.path}{did_you_mean(baseline, names)}")
    comparison = Comparison(curves, baseline, request.last)
    _show(comparison, console)
    if request.out:
        _write(request.out, comparison, (), {"table": str(request.path)})
        _say(console, f"results  {request.out / 'comparison.md'}, .json, .tex")
    return 0


def _say(console: Console, text: str, style: str = "") -> None:
    console.print(Text(encodable(text, console.encoding), style=style), soft_wrap=True)


if __name__ == "__main__":
    end_when_told()
    sys.exit(main(sys.argv[1:]))
