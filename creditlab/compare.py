"""`python -m creditlab.compare suite=… methods=[…] seeds=[…]`: trains what a comparison lacks, and compares."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.comparison_tables import budget_table
from creditlab.analysis.curves import LAST_K, Curve
from creditlab.analysis.results_csv import read_results
from creditlab.cli import complain, warn_failed_plugins
from creditlab.limits import try_writing
from creditlab.options import ConfigError, did_you_mean
from creditlab.stopping import EXIT_FAILED, EXIT_INTERRUPTED, handling, run_command, tell
from creditlab.suites.board import Board, State, Status, say
from creditlab.suites.collect import FinishedRun, curve_of
from creditlab.suites.hydra_runner import LOCAL, HydraRunner
from creditlab.suites.plan import PlannedRun, plan
from creditlab.suites.record import read_record, record_of, write_record
from creditlab.suites.request import Request, TableRequest, read_request
from creditlab.suites.results import facts_of, show, track, write, write_suite
from creditlab.suites.runner import LocalRunner
from creditlab.suites.standing import Standing
from creditlab.suites.suite import shipped_suites
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import STEP
from creditlab.tracking.text import encodable
from creditlab.tracking.writing import WriteError

USAGE = """\
python -m creditlab.compare [suite=…] ['methods=[…]'] ['seeds=[…]'] [parallel=…] [launcher=…] [key=value …]
python -m creditlab.compare table=<results.csv> [baseline=…] [last=…] [episodes=…] [digits=…] [out=…]

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
  episodes    of a table: the episodes that each value is the rate of, to which rounded values are restored
  digits      of a table: decimals of the numbers that are shown; 2

Every other key is a setting of all runs, such as env=webshop or training.updates=20.
"""

Collected = tuple[FinishedRun, Curve]


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
    except WriteError as error:
        tell(str(error))
        return EXIT_FAILED


def _run_suite(request: Request, console: Console) -> int:
    """Plans, trains what is missing, and compares; returns the exit code."""
    warn_failed_plugins()
    runs = plan(request.suite, request.overrides, request.run_root)
    statuses = [Status(run) for run in runs]
    records = {index: _find(status, request.records) for index, status in enumerate(statuses)}
    _show_plan(console, request, statuses)
    if request.plan_only:
        return 0
    _check_folders(out=request.out, records=request.records)
    stop: list[int] = []  # the signals that came, upon which the runs at work are ended in order
    noting = handling(lambda signum, frame: stop.append(signum))
    with Board(statuses, console, lambda run: _keep(request, run)) as board, noting:
        _runner(request).run(statuses, board, stop)
    found = _collect(request, statuses, records)
    files = _compare(request, statuses, found, console, interrupted=bool(stop))
    return _report(request, statuses, files, console, interrupted=bool(stop))


def _keep(request: Request, run: PlannedRun) -> None:
    """Writes the record of a run that is over, so that it outlives the command; what is wrong with it is told at the end."""
    with suppress(ConfigError, WriteError, OSError):
        write_record(request.records, run, record_of(request.records, run))


def _find(status: Status, records: Path) -> dict[str, Any] | None:
    """Looks whether a run is finished, in its folder or by its record, and returns the record in the second case.

    A run that neither can serve counts as failed, with the reason; the others go on.
    """
    status.look()
    if status.at.finished:
        status.state = State.FINISHED
        return None
    try:
        record = read_record(records, status.run)
    except ConfigError as error:
        status.state, status.message = State.FAILED, status.message or str(error)
        return None
    if record:
        [last] = [point for point in record["evaluations"] if point[STEP] == status.run.updates]
        status.at = Standing(status.run.updates, True, last["metrics"][m.VAL_SUCCESS], None)
        status.state, status.message = State.FINISHED, ""
    elif status.message:
        status.state = State.FAILED
    return record


def _runner(request: Request) -> LocalRunner | HydraRunner:
    if request.launcher == LOCAL:
        return LocalRunner(request.out, request.parallel)
    return HydraRunner(request.out, request.launcher, request.launcher_options, request.parallel)


def _show_plan(console: Console, request: Request, statuses: Sequence[Status]) -> None:
    """How many runs there are and what is left to do; every run where that is all that was asked for."""
    finished = sum(status.state is State.FINISHED for status in statuses)
    begun = sum(status.state is State.WAITING and status.at.update > 0 for status in statuses)
    new = sum(status.state is State.WAITING and status.at.update <= 0 for status in statuses)
    parts = f"{finished} finished, {begun} begun, {new} to do"
    say(console, f"suite {request.suite.name}: {len(statuses)} runs, {parts}")
    for status in statuses:
        if status.state is State.FAILED:
            say(console, f"{status.run.label}: {status.message}", "red")
    if not request.plan_only:
        return
    grid = Grid("setting", "entry", "seed", "state", "run folder")
    for status in statuses:
        run = status.run
        state = status.progress if status.state is State.WAITING and status.at.update > 0 else status.state.value
        cells = (run.setting, run.entry.name, str(run.seed), state, str(run.folder))
        grid.add_row(*(Text(encodable(cell, console.encoding), overflow="fold") for cell in cells))
    console.print(grid)


def _check_folders(**folders: Path) -> None:
    """Refuses folders, given by their keys, in which nothing can be written, before anything is trained or shown."""
    for key, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            try_writing(folder)
        except OSError as error:
            raise ConfigError(f"{key}={folder}: cannot write there: {error.strerror}; choose another folder") from None


def _collect(request: Request, statuses: Sequence[Status], records: Mapping[int, dict[str, Any] | None]) -> list[Collected]:
    """The finished runs with their curves; one that cannot be read counts as failed."""
    found = []
    for index, status in enumerate(statuses):
        if status.state is not State.FINISHED:
            continue
        try:
            finished = FinishedRun(status.run, records[index] or record_of(request.records, status.run))
            curve = curve_of(finished)
            if not records[index]:
                _store(request.records, status, finished)
            found.append((finished, curve))
        except ConfigError as error:
            status.state, status.message = State.FAILED, str(error)
    return found


def _store(records: Path, status: Status, finished: FinishedRun) -> None:
    """Keeps the record of a finished run; one without takes part all the same, and the reason is told."""
    try:
        write_record(records, status.run, dict(finished.record))
    except WriteError as error:
        status.message = str(error)


def _compare(
    request: Request, statuses: Sequence[Status], found: Sequence[Collected], console: Console, *, interrupted: bool
) -> list[Path]:
    """Compares what is finished, shows the two main tables, and writes and tracks the report; returns its files."""
    baseline = request.suite.against
    if not any(curve.method == baseline for _, curve in found):
        say(console, f"no comparison yet: no run of the baseline {baseline} is finished", "yellow")
        return []
    comparison = Comparison([curve for _, curve in found], baseline, request.last)
    unfinished = [status for status in statuses if status.state is not State.FINISHED]
    finished = [run for run, _ in found]
    # before it is written: a full disk must not keep back what took hours
    show(comparison, console, facts=facts_of(finished, unfinished))
    files = write_suite(request.out, request.suite.name, finished, comparison, unfinished)
    if not interrupted:
        for warning in track(request.out, [status.run for status in statuses], comparison, files):
            say(console, warning, "yellow")
    return files


def _report(
    request: Request, statuses: Sequence[Status], files: Sequence[Path], console: Console, *, interrupted: bool
) -> int:
    """Says where everything lies, what failed and how to go on; returns the exit code."""
    _say_files(request.out, files, console)
    say(console, f"records  {request.records}")
    failed = [status for status in statuses if status.state is State.FAILED]
    for status in failed:
        say(console, f"failed: {status.run.label}: {status.message}", "red")
    unkept = [status for status in statuses if status.state is State.FINISHED and status.message]
    for status in unkept:
        say(console, f"no record: {status.run.label}: {status.message}", "red")
    finished = sum(status.state is State.FINISHED for status in statuses)
    if interrupted:
        tell(f"interrupted with {finished} of {len(statuses)} runs finished; the same command goes on")
        return EXIT_INTERRUPTED
    if failed:
        tell(f"{len(failed)} of {len(statuses)} runs failed; the same command tries them again")
    if unkept:
        tell(f"{len(unkept)} of {len(statuses)} runs have no record in {request.records}")
    return EXIT_FAILED if failed or unkept else 0


def _say_files(out: Path, files: Sequence[Path], console: Console) -> None:
    if files:
        say(console, f"report   {files[0]}")
        say(console, f"results  {out / 'comparison.md'}, .json, .tex, and {out / 'figures'}")


def _compare_table(request: TableRequest, console: Console) -> int:
    """Compares the curves of a table; returns the exit code."""
    curves = read_results(request.path, request.episodes)
    names = list(dict.fromkeys(curve.method for curve in curves))
    baseline = request.baseline or names[0]
    if baseline not in names:
        near = did_you_mean(baseline, names)
        raise ConfigError(f"baseline={baseline} is no method of {request.path}{near}; methods: {', '.join(names)}")
    if request.out:
        _check_folders(out=request.out)
    single = all(len(curve.values) == 1 for curve in curves)
    last = request.last or (1 if single else LAST_K)
    comparison = Comparison(curves, baseline, last, request.digits, percent=request.episodes is not None)
    show(comparison, console, [budget_table(comparison)] if any(curve.transitions for curve in curves) else [])
    if single and request.last is None:
        say(console, "every run has one value in the table: it is compared as it stands, last=1")
    facts: dict[str, Any] = {"table": str(request.path)}
    if request.episodes:
        facts["episodes"] = request.episodes
        say(console, f"values are restored to what they were before rounding: counts of {request.episodes} episodes")
    if request.out:
        _say_files(request.out, write(request.out, comparison, facts), console)
    else:
        say(console, "out=<folder> writes the report")
    return 0


if __name__ == "__main__":
    run_command(main)
