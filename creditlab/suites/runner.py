"""Starts what is left of a suite, one run after the other or several at a time, and survives those that fail."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from creditlab.plaintext import reason
from creditlab.suites.board import Board, State, Status
from creditlab.suites.plan import PlannedRun
from creditlab.suites.processes import Command, RunProcess, log_path, train_command
from creditlab.suites.standing import in_use, warm

TICK = 0.25
"""Seconds between two looks at the processes."""
LOOK = 1.0
"""Seconds between two looks at the runs' metrics."""


@dataclass
class Active:
    """A slot at work: a process of ours, or the folder of a run that another process holds."""

    status: Status
    process: RunProcess | None


class LocalRunner:
    """Runs each in its own process on this machine, at most `parallel` at a time.

    Runs that share a warm start do not make it twice: the others of its kind start when the first one has it. A run that
    another process is at work on is waited for, and counts among the parallel ones.
    """

    def __init__(self, folder: Path, parallel: int = 1, command: Command = train_command) -> None:
        self._folder, self._parallel, self._command = folder, parallel, command
        self._warm: set[str] = set()

    def run(self, statuses: Sequence[Status], board: Board, stop: Sequence[int]) -> None:
        """Works until every run is finished or failed, or until something is in `stop`.

        Then the runs at work are asked to end in order, and a second signal ends them at once.
        """
        queue = [status for status in statuses if status.state is State.WAITING]
        active: list[Active] = []
        looked = time.monotonic()
        try:
            while (queue or active) and not stop:
                self._fill(queue, active, board)
                self._reap(queue, active, board)
                if time.monotonic() - looked >= LOOK:
                    board.refresh()
                    looked = time.monotonic()
                time.sleep(TICK)
            self._end(active, board, stop)
        except BaseException:
            for slot in active:
                if slot.process:
                    slot.process.kill()
            raise

    def _fill(self, queue: list[Status], active: list[Active], board: Board) -> None:
        for status in tuple(queue):
            if len(active) >= self._parallel:
                return
            if self._waits_for_start(status.run, active):
                continue
            queue.remove(status)
            if in_use(status.run.folder):
                board.become(status, State.ELSEWHERE)
                active.append(Active(status, None))
                continue
            log = log_path(self._folder, status.run)
            try:
                process = RunProcess.start(status.run, log, self._command(status.run))
            except OSError as error:  # a full disk, say: the runs at work go on
                board.become(
                    status, State.FAILED, f"it was not started, with its log {log}: {error.strerror or reason(error)}"
                )
                continue
            active.append(Active(status, process))
            board.become(status, State.RUNNING)

    def _waits_for_start(self, run: PlannedRun, active: Sequence[Active]) -> bool:
        """Whether a run at work is just making the warm start that this one needs."""
        for slot in active:
            if warm(slot.status.run):
                self._warm.add(slot.status.run.start)
        return run.start not in self._warm and any(slot.status.run.start == run.start for slot in active)

    def _reap(self, queue: list[Status], active: list[Active], board: Board) -> None:
        for slot in tuple(active):
            status, process = slot.status, slot.process
            if process is None:
                if in_use(status.run.folder):
                    continue
                active.remove(slot)
                settle(status, board, "")
                if status.state is not State.FINISHED:
                    board.become(status, State.WAITING)
                    queue.insert(0, status)
                continue
            code = process.poll()
            if code is None:
                continue
            active.remove(slot)
            if code and in_use(status.run.folder):  # another process was faster
                board.become(status, State.ELSEWHERE)
                active.append(Active(status, None))
                continue
            settle(status, board, f"{process.last_words()}; {process.log} has the rest")

    def _end(self, active: Sequence[Active], board: Board, stop: Sequence[int]) -> None:
        """Ends the processes that are at work, in order and, after a second signal, at once."""
        own = [(slot.status, slot.process) for slot in active if slot.process]
        for _, process in own:
            process.end()
        if own:
            board.say(f"ending {len(own)} run{'s' * (len(own) != 1)} after the update in progress; again to end at once")
        while any(process.poll() is None for _, process in own) and len(stop) < 2:
            time.sleep(TICK)
        for status, process in own:
            if process.poll() is None:
                process.kill()
            settle(status, board, "", State.INTERRUPTED)


def settle(status: Status, board: Board, why: str, otherwise: State = State.FAILED) -> None:
    """Judges a run by what lies in its folder: finished, or else failed with the reason."""
    status.message = ""
    status.look()
    if status.at.finished:
        board.become(status, State.FINISHED)
    elif why or otherwise is not State.FAILED:
        board.become(status, otherwise, status.message or why)
