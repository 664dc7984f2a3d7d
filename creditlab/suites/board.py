"""The one progress display of a suite: a table on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from creditlab.options import ConfigError
from creditlab.plaintext import clean
from creditlab.suites.plan import PlannedRun
from creditlab.suites.standing import NOTHING, Standing, standing
from creditlab.tracking.text import duration, encodable, percent


class State(StrEnum):
    """What a suite does with a run at the moment."""

    FINISHED = "finished"
    WAITING = "waiting"
    RUNNING = "running"
    ELSEWHERE = "at work in another process"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


STYLES = {State.FINISHED: "green", State.RUNNING: "bold", State.FAILED: "red", State.INTERRUPTED: "yellow"}
_PATIENCE = 15.0
"""Seconds between two plain lines about a run that goes on."""
_MARGIN = 6
"""Lines of a terminal that the table leaves free."""


@dataclass
class Status:
    """One line of the display."""

    run: PlannedRun
    state: State = State.WAITING
    at: Standing = NOTHING
    message: str = ""
    """Why it failed, and where to read on."""
    told: float = field(default=0.0, repr=False)
    """When a plain line told of it."""
    told_update: int = field(default=-1, repr=False)

    def look(self) -> None:
        """Reads from the run's folder how far it has come; what is wrong with it is the run's to tell."""
        try:
            self.at = standing(self.run)
        except ConfigError as error:
            self.message = str(error)

    @property
    def progress(self) -> str:
        """Updates done of all, held-out success and the time that is left, whichever are known."""
        if self.at is NOTHING and self.state is State.WAITING:
            return ""
        parts = [f"update {max(0, self.at.update)}/{self.run.updates}"]
        if self.at.success is not None:
            parts.append(f"success {percent(self.at.success)}{self._when}")
        remaining = self.at.remaining(self.run.updates)
        if self.state in (State.RUNNING, State.ELSEWHERE) and remaining:
            parts.append(f"{duration(remaining)} left")
        return ", ".join(parts)

    @property
    def _when(self) -> str:
        """When the success was measured, where that was before the update it stands beside."""
        if self.at.measured in (None, self.at.update):
            return ""
        return f" after update {self.at.measured}" if self.at.measured else " after the warm start"


def say(console: Console, text: str, style: str = "") -> None:
    """One line, with what the console can show of it."""
    console.print(Text(encodable(text, console.encoding), style=style), soft_wrap=True)


class Board:
    """Shows the runs of a suite while they are at work."""

    def __init__(
        self,
        runs: Sequence[Status],
        console: Console,
        finished: Callable[[PlannedRun], None] = lambda run: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`finished` is called with every run as soon as it is over."""
        self.runs, self._console, self._finished, self._clock = runs, console, finished, clock
        self._terminal = console.is_terminal and not console.is_dumb_terminal
        self._live = Live(console=console, auto_refresh=False, transient=True) if self._terminal else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._live:
            self._live.update(self._table(), refresh=True)
            self._live.stop()

    def become(self, status: Status, state: State, message: str = "") -> None:
        """Notes and shows that the state of a run has changed."""
        if status.state is state and status.message == message:
            return
        status.state, status.message = state, message
        text = {State.RUNNING: "started", State.WAITING: "waits"}.get(state, state.value)
        detail = clean(message, 600) if message else status.progress if state is State.FINISHED else ""
        self.say(f"{status.run.label}: {text}{f': {detail}' if detail else ''}", STYLES.get(state, ""))
        status.told = self._clock()
        if state is State.FINISHED:
            self._finished(status.run)

    def refresh(self) -> None:
        """Reads the progress of the runs that are at work and shows it."""
        for status in self.runs:
            if status.state in (State.RUNNING, State.ELSEWHERE):
                status.look()
        if self._live:
            self._live.update(self._table(), refresh=True)
            return
        for status in self.runs:
            moved = status.at.update > status.told_update
            if status.state is State.RUNNING and moved and self._clock() - status.told >= _PATIENCE:
                self.say(f"{status.run.label}: {status.progress}")
                status.told, status.told_update = self._clock(), status.at.update

    def say(self, text: str, style: str = "") -> None:
        """One line, above the table where there is one."""
        say(self._console, text, style)

    def _table(self) -> Table:
        """The runs; where a terminal is too short for all of them, those that matter now and a count of the others."""
        room = max(5, self._console.height - _MARGIN)
        shown = list(self.runs)
        if len(shown) > room:
            rank = {State.RUNNING: 0, State.ELSEWHERE: 0, State.FAILED: 1, State.WAITING: 2}
            order = sorted(range(len(shown)), key=lambda i: rank.get(self.runs[i].state, 3))
            shown = [self.runs[i] for i in sorted(order[:room])]
        finished = sum(status.state is State.FINISHED for status in self.runs)
        table = Table(title=f"{finished} of {len(self.runs)} runs finished", title_justify="left")
        for heading in ("setting", "entry", "seed", "", "progress"):
            table.add_column(heading, overflow="fold")
        for status in shown:
            run = status.run
            cells = (run.setting, run.entry.name, str(run.seed), status.state.value, status.progress)
            style = STYLES.get(status.state, "")
            table.add_row(*(Text(encodable(cell, self._console.encoding), style=style) for cell in cells))
        if len(shown) < len(self.runs):
            table.caption = f"and {len(self.runs) - len(shown)} more"
        return table
