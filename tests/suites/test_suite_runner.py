"""Runs are started, watched, ended and judged; what they do is a stand-in's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from rich.console import Console
from suite_runs import line, planned, soon, stand_in, starts, whole, write_run

from creditlab.suites.board import Board, State, Status
from creditlab.suites.plan import PlannedRun
from creditlab.suites.runner import LocalRunner
from creditlab.suites.standing import in_use


def go(
    tmp_path: Path, runs: Sequence[PlannedRun], parallel: int = 1, conduct: str = "", stop: Sequence[int] = ()
) -> tuple[list[Status], str]:
    """The runs after a local runner is done with them, and what the display said; `conduct` is that of the first one."""
    statuses = [Status(run) for run in runs]
    for status in statuses:
        status.look()
        status.state = State.FINISHED if status.at.finished else State.WAITING
    console = Console(width=200, record=True, quiet=False, file=(tmp_path / "display").open("w"))
    runner = LocalRunner(
        tmp_path / "out", parallel, lambda run: stand_in(run, *([conduct] if conduct and run is runs[0] else []))
    )
    with Board(statuses, console) as board:
        runner.run(statuses, board, stop)
    return statuses, console.export_text()


def once_at_work(run: PlannedRun, act: Callable[[], None]) -> None:
    """Acts as soon as the run has written a line, beside the test."""

    def wait_and_act() -> None:
        if soon((run.folder / "metrics.jsonl").exists):
            act()

    threading.Thread(target=wait_and_act, daemon=True).start()


def test_a_run_that_fails_is_reported_and_the_others_go_on(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo"), planned(tmp_path, "rloo")]
    statuses, shown = go(tmp_path, runs, conduct="crash")
    assert [status.state for status in statuses] == [State.FAILED, State.FINISHED, State.FINISHED]
    log = tmp_path / "out" / "logs" / f"{runs[0].folder.name}.log"
    assert statuses[0].message == f"RuntimeError: the engine is �[31mgone; {log} has the rest"
    assert "corridor · grpo · seed 0: failed: RuntimeError: the engine is" in shown
    assert "much was said before" in log.read_text()


def test_a_second_call_picks_up_the_failed_run_where_it_was_and_repeats_no_other(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo")]
    go(tmp_path, runs, conduct="crash")
    assert [len(starts(run)) for run in runs] == [0, 1]
    statuses, _ = go(tmp_path, runs)
    assert {status.state for status in statuses} == {State.FINISHED}
    assert [len(starts(run)) for run in runs] == [1, 1]
    lines = (runs[0].folder / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(text)["step"] for text in lines] == [0, 1, 2, 3, 4]  # 0 and 1 are those of the first call


def test_no_more_than_the_wanted_number_work_at_a_time_and_that_many_do(tmp_path: Path) -> None:
    runs = [planned(tmp_path, f"m{index}", updates=2, env={"name": f"e{index}"}) for index in range(4)]
    go(tmp_path, runs, parallel=2, conduct="meet")
    times = [starts(run)[0] for run in runs]
    busy = [sum(begin <= at < end for begin, end in times) for at, _ in times]
    assert max(busy) == 2


def test_runs_that_share_a_warm_start_wait_until_the_first_one_has_it(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo"), planned(tmp_path, "rloo")]
    go(tmp_path, runs, parallel=3)
    ready = json.loads((runs[0].folder / "manifest.json").read_text())["ready"]
    assert all(starts(run)[0][0] >= ready for run in runs[1:])


def test_a_run_of_another_warm_start_waits_for_nobody(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo", warm_start={"seed": 1})]
    assert runs[0].start != runs[1].start
    go(tmp_path, runs, parallel=2, conduct="meet")
    assert starts(runs[1])[0][0] < starts(runs[0])[0][1]


def test_a_signal_ends_the_runs_in_order_and_starts_no_more(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo", updates=40), planned(tmp_path, "mcgpo")]
    stop: list[int] = []
    once_at_work(runs[0], lambda: stop.append(signal.SIGTERM))
    statuses, shown = go(tmp_path, runs, conduct="slow", stop=stop)
    assert [status.state for status in statuses] == [State.INTERRUPTED, State.WAITING]
    assert "ending 1 run after the update in progress" in shown
    assert not in_use(runs[0].folder)
    assert not runs[1].folder.exists()


def test_a_run_that_another_process_holds_is_waited_for_and_not_repeated(tmp_path: Path) -> None:
    run = planned(tmp_path, "grpo")
    other = subprocess.Popen(stand_in(run, "slow"))
    try:
        assert soon(lambda: in_use(run.folder))
        statuses, shown = go(tmp_path, [run])
        assert other.wait(timeout=30) == 0
    finally:
        other.kill()
    assert statuses[0].state is State.FINISHED
    assert len(starts(run)) == 1
    assert "at work in another process" in shown
    assert not (tmp_path / "out" / "logs").exists()  # no process of ours


def test_a_run_whose_other_process_dies_is_taken_over(tmp_path: Path) -> None:
    run = planned(tmp_path, "grpo")
    other = subprocess.Popen(stand_in(run, "slow"))
    assert soon(lambda: in_use(run.folder))
    threading.Timer(0.8, other.kill).start()
    statuses, _ = go(tmp_path, [run])
    other.wait()
    assert statuses[0].state is State.FINISHED
    assert len(starts(run)) == 1


def test_a_run_killed_by_a_signal_says_which(tmp_path: Path) -> None:
    run = planned(tmp_path, "grpo", updates=40)

    def kill() -> None:
        processes = subprocess.run(["pgrep", "-f", str(run.folder)], capture_output=True, text=True, check=True).stdout
        for number in processes.split():
            os.kill(int(number), signal.SIGKILL)

    once_at_work(run, kill)
    statuses, _ = go(tmp_path, [run], conduct="slow")
    assert statuses[0].state is State.FAILED
    assert statuses[0].message.startswith("ended by SIGKILL")


def test_the_display_counts_updates_success_and_the_time_that_is_left(tmp_path: Path) -> None:
    run = planned(tmp_path, updates=4)
    write_run(run, [line(0, evaluated=True), line(1, evaluated=False), line(2, evaluated=True, success=0.625)])
    status = Status(run, State.RUNNING)
    status.look()
    # two updates took 2 · 2 s and one evaluation 1 s: 2.5 s each, two are left
    assert status.progress == "update 2/4, success 62.5 %, 5.0 s left"
    assert not status.at.finished
    # at the last update, before its evaluation: the success is that of an earlier one, and updates are no more to come
    later = [line(step, evaluated=False) for step in (3, 4)]
    write_run(run, [line(0, evaluated=True), line(1, evaluated=False), line(2, evaluated=True, success=0.625), *later])
    status.look()
    assert status.progress == "update 4/4, success 62.5 % after update 2"
    write_run(run, whole(run))
    status.look()
    assert status.at.finished


@pytest.mark.parametrize("height", [12, 60])
def test_a_terminal_too_short_for_all_runs_shows_those_at_work(tmp_path: Path, height: int) -> None:
    statuses = [Status(planned(tmp_path, f"m{index}")) for index in range(20)]
    for status in statuses[:15]:
        status.state = State.FINISHED
    statuses[17].state = State.RUNNING
    with (tmp_path / "terminal").open("w") as file:
        console = Console(width=120, height=height, force_terminal=True, record=True, file=file)
        with Board(statuses, console) as board:
            board.refresh()
        shown = (tmp_path / "terminal").read_text()
    assert "15 of 20 runs finished" in shown
    assert "m17" in shown
    assert ("m1 " in shown) == (height == 60)
    assert ("and 14 more" in shown) == (height == 12)
