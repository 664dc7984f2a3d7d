"""What a call of the suite keeps of its runs, and what it takes from there; the runs are stand-ins."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from suite_runs import stand_in, starts, whole, write_run

from creditlab import compare
from creditlab.suites import record
from creditlab.suites.plan import PlannedRun, plan
from creditlab.suites.record import make_record, read_record, record_path, write_record
from creditlab.suites.request import Request, read_request
from creditlab.suites.runner import LocalRunner
from creditlab.tracking.writing import WriteError


def words(root: Path, *more: str, updates: int = 2) -> list[str]:
    return [
        "methods=[grpo,rloo]", "seeds=0", "experiment=quick", f"training.updates={updates}", "last=1",
        f"run_root={root}", *more,
    ]  # fmt: skip


def planned(root: Path, *more: str, updates: int = 2) -> list[PlannedRun]:
    request = read_request(words(root, *more, updates=updates))
    assert isinstance(request, Request)
    return plan(request.suite, request.overrides, request.run_root)


def records_of(root: Path) -> Path:
    return root / "comparisons" / "default" / "records"


@pytest.fixture
def stood_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[PlannedRun], list[str]]], None]:
    """Lets the suite start these commands instead of runs."""

    def use(command: Callable[[PlannedRun], list[str]]) -> None:
        monkeypatch.setattr(compare, "_runner", lambda request: LocalRunner(request.out, request.parallel, command))

    return use


def no_run(run: PlannedRun) -> list[str]:
    pytest.fail(f"{run.label} was started")


def test_a_run_leaves_its_record_as_soon_as_it_is_over(tmp_path: Path, stood_in: Any) -> None:
    """The second one starts when the first one is over; what is written at the end is not there yet."""
    first, second = planned(tmp_path)
    kept: list[bool] = []

    def command(run: PlannedRun) -> list[str]:
        if run.folder == second.folder:
            kept.append(record_path(records_of(tmp_path), first).exists())
        return stand_in(run)

    stood_in(command)
    assert compare.main(words(tmp_path)) == 0
    assert kept == [True]
    assert read_record(records_of(tmp_path), second) is not None


def test_a_command_that_is_interrupted_ends_in_order_with_the_signals_as_before(
    tmp_path: Path, stood_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both signals come while the first run is being started; the second one is not begun."""
    asked: list[PlannedRun] = []

    def command(run: PlannedRun) -> list[str]:
        asked.append(run)
        for number in (signal.SIGINT, signal.SIGTERM):
            os.kill(os.getpid(), number)
        return stand_in(run)

    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    stood_in(command)
    assert compare.main(words(tmp_path)) == 130
    assert capsys.readouterr().err == "creditlab: interrupted with 0 of 2 runs finished; the same command goes on\n"
    assert len(asked) == 1
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_record_that_cannot_be_written_ends_no_run_and_is_told_of(
    tmp_path: Path, stood_in: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = planned(tmp_path)
    write_json = record.write_json

    def full(path: Path, *rest: Any) -> None:
        if path.name == record_path(path.parent, first).name:
            raise WriteError(f"cannot write {path}: No space left on device; free space and call the suite again")
        write_json(path, *rest)

    monkeypatch.setattr(record, "write_json", full)
    stood_in(lambda run: stand_in(run, *(["slow"] if run.folder == second.folder else [])))
    assert compare.main(words(tmp_path, "parallel=2")) == 1
    assert [len(starts(run)) for run in (first, second)] == [1, 1]  # both came to their end
    shown = capsys.readouterr()
    assert f"no record: {first.label}: cannot write" in " ".join(shown.out.split())
    assert "1 of 2 runs have no record in" in shown.err
    assert read_record(records_of(tmp_path), second) is not None
    found = json.loads((tmp_path / "comparisons" / "default" / "comparison.json").read_text())
    assert [pairing["seeds"] for pairing in found["pairing"]] == [[0]]  # it takes part all the same


@pytest.mark.parametrize("lines", ['{"step": 0}\n', "{}\n{}\n"], ids=["part", "damaged"])
def test_a_run_of_which_only_the_record_is_whole_counts_as_finished(tmp_path: Path, stood_in: Any, lines: str) -> None:
    for run in planned(tmp_path):
        write_run(run, whole(run), configuration_hash=run.hash)
        write_record(records_of(tmp_path), run, make_record(run))
        (run.folder / "metrics.jsonl").write_text(lines)
    stood_in(no_run)
    assert compare.main(words(tmp_path)) == 0
    found = json.loads((tmp_path / "comparisons" / "default" / "comparison.json").read_text())
    assert [pairing["seeds"] for pairing in found["pairing"]] == [[0]]


def test_a_shorter_plan_leaves_the_record_of_a_longer_run(tmp_path: Path, stood_in: Any) -> None:
    longer = planned(tmp_path, updates=4)
    for run in longer:
        write_run(run, whole(run), configuration_hash=run.hash)
    stood_in(no_run)
    assert compare.main(words(tmp_path)) == 0
    for run in longer:
        kept = read_record(records_of(tmp_path), run)
        assert kept is not None
        assert [point["step"] for point in kept["evaluations"]] == sorted(run.schedule)


def test_a_changed_record_is_refused_by_name_and_stays(
    tmp_path: Path, stood_in: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = planned(tmp_path)
    for run in (first, second):
        write_run(run, whole(run), configuration_hash=run.hash)
        write_record(records_of(tmp_path), run, make_record(run))
    path = record_path(records_of(tmp_path), second)
    changed = path.read_text().replace('"val/success_rate": 0.5', '"val/success_rate": 0.9', 1)
    path.write_text(changed)
    stood_in(no_run)
    assert compare.main(words(tmp_path)) == 1
    assert f"failed: {second.label}: {path} is not as it was written" in capsys.readouterr().out
    assert path.read_text() == changed
