"""Hydra's launchers really start the runs, which are stand-ins; those that are not installed are skipped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console
from suite_runs import planned, stand_in, starts

from creditlab.options import ConfigError
from creditlab.suites.board import Board, State, Status
from creditlab.suites.hydra_runner import HydraRunner, check_launcher
from creditlab.suites.plan import PlannedRun
from creditlab.suites.processes import Command
from creditlab.suites.standing import in_use
from creditlab.tracking.writing import WriteError


def go(
    tmp_path: Path, launcher: str, runs: Sequence[PlannedRun], conduct: str = "", stop: Sequence[int] = ()
) -> tuple[list[Status], str]:
    """The runs after a launcher is done with them, and what the display said; `conduct` is that of the first one."""
    try:
        check_launcher(launcher, ())
    except ConfigError as error:
        pytest.skip(str(error))
    statuses = [Status(run) for run in runs]
    with (tmp_path / "display").open("w") as file:
        console = Console(width=200, record=True, file=file)
        runner = HydraRunner(
            tmp_path / "out", launcher, (), 2, lambda run: stand_in(run, *([conduct] if conduct and run is runs[0] else []))
        )
        with Board(statuses, console) as board:
            runner.run(statuses, board, stop)
    return statuses, console.export_text()


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["joblib", "submitit_local"])
def test_a_launcher_runs_all_of_them_and_a_failure_concerns_one(tmp_path: Path, launcher: str) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo"), planned(tmp_path, "rloo")]
    statuses, shown = go(tmp_path, launcher, runs, conduct="crash")
    assert [status.state for status in statuses] == [State.FAILED, State.FINISHED, State.FINISHED]
    assert statuses[0].message.startswith("RuntimeError: the engine is")
    assert "warm start: corridor · grpo · seed 0" in shown  # made once, by a run of no updates, before the others start
    log = (tmp_path / "out" / "logs" / f"{runs[0].folder.name}.log").read_text()
    assert [line.endswith("training.updates=0") for line in log.splitlines() if line.startswith("$ ")] == [True, False]
    assert [len(starts(run)) for run in runs] == [1, 1, 1]  # that of the warm start, and one of each other run


@pytest.fixture
def lists(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The lists of jobs that were handed to a launcher, which starts none of them."""
    found: list[Path] = []

    def arguments(runner: HydraRunner, jobs: Path, count: int) -> list[str]:
        found.append(jobs)
        return [sys.executable, "-c", ""]

    monkeypatch.setattr(HydraRunner, "_arguments", arguments)
    return found


def hand_over(tmp_path: Path, runs: Sequence[PlannedRun], command: Command) -> list[Status]:
    statuses = [Status(run) for run in runs]
    with (tmp_path / "display").open("w") as file, Board(statuses, Console(file=file)) as board:
        HydraRunner(tmp_path / "out", "submitit", command=command).run(statuses, board, [])
    return statuses


def test_a_later_call_leaves_the_list_of_jobs_that_are_still_queued(tmp_path: Path, lists: list[Path]) -> None:
    runs = [planned(tmp_path, name) for name in ("grpo", "mcgpo")]
    hand_over(tmp_path, runs[:1], stand_in)
    first = lists[0].read_bytes()
    hand_over(tmp_path, runs[1:], stand_in)
    assert lists[0].read_bytes() == first
    commands = [[job["command"] for job in json.loads(path.read_text())["runs"]] for path in lists]
    assert commands == [[stand_in(run)] for run in runs]
    hand_over(tmp_path, runs[:1], stand_in)
    assert lists[2] == lists[0]  # the same jobs need no further file


def test_a_run_that_another_process_took_is_waited_for(tmp_path: Path, lists: list[Path]) -> None:
    others: list[subprocess.Popen[bytes]] = []

    def taken(run: PlannedRun) -> list[str]:
        others.append(subprocess.Popen(stand_in(run, "slow")))
        while not in_use(run.folder):
            time.sleep(0.02)
        return []

    [status] = hand_over(tmp_path, [planned(tmp_path, "grpo")], taken)
    assert others[0].wait(timeout=30) == 0
    assert (status.state, len(starts(status.run))) == (State.FINISHED, 1)


def test_without_its_warm_start_nothing_more_is_handed_over_and_old_words_are_not_repeated(
    tmp_path: Path, lists: list[Path]
) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo")]
    log = tmp_path / "out" / "logs" / f"{runs[0].folder.name}.log"
    log.parent.mkdir(parents=True)
    log.write_text("interrupted, in an earlier call\n")
    first, second = hand_over(tmp_path, runs, stand_in)
    assert [status.state for status in (first, second)] == [State.FAILED, State.FAILED]
    assert first.message == "the launcher did not start it"
    assert second.message == "its warm start was not made, see corridor · grpo · seed 0"
    assert len(lists) == 1


@pytest.mark.parametrize(("in_the_way", "reason"), [("file", "File exists"), ("folder", "Is a directory")])
def test_a_log_of_the_launcher_that_cannot_be_written_ends_the_command_with_one_reason(
    tmp_path: Path, lists: list[Path], in_the_way: str, reason: str
) -> None:
    logs = tmp_path / "out" / "logs"
    if in_the_way == "file":
        logs.parent.mkdir()
        logs.write_text("")
    else:
        (logs / "launcher.log").mkdir(parents=True)
    with pytest.raises(WriteError) as error:
        hand_over(tmp_path, [planned(tmp_path, "grpo")], stand_in)
    remedy = "remove what is in its place and call the command again"
    assert str(error.value) == f"cannot write {logs / 'launcher.log'}: {reason}; {remedy}"
    assert not lists, "the launcher was started without a log"


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("hydra.launcher.bogus=1", r"Key 'bogus' not in .*; options of launcher=joblib, below hydra.launcher: .*n_jobs"),
        ("hydra.launcher.n_jobs=many", "Value 'many' of type 'str' could not be converted to Integer"),
        ("hydra.launcher.n_jobs=[1", "hydra.launcher.n_jobs=.1: "),
        ("+hydra.launcher._target_=os.system", "what a launcher is made of cannot be set"),
        ("hydra.launcher._target_=os.system", "what a launcher is made of cannot be set"),
    ],
)
def test_options_that_a_launcher_does_not_have_are_refused_before_it_starts(option: str, complaint: str) -> None:
    pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    check_launcher("joblib", ["hydra.launcher.n_jobs=2"])
    with pytest.raises(ConfigError, match=complaint) as refused:
        check_launcher("joblib", [option])
    assert "\n" not in str(refused.value)


@pytest.mark.slow
def test_a_signal_ends_the_runs_of_joblib_in_order(tmp_path: Path) -> None:
    run = planned(tmp_path, "grpo", updates=40)
    stop: list[int] = []

    def tell() -> None:
        while not in_use(run.folder):
            time.sleep(0.05)
        stop.append(signal.SIGTERM)

    threading.Thread(target=tell, daemon=True).start()
    statuses, _ = go(tmp_path, "joblib", [run], conduct="slow", stop=stop)
    assert statuses[0].state is State.INTERRUPTED
    assert not in_use(run.folder)
    assert statuses[0].at.update < 40
