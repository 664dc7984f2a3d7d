"""The console: live bars on a terminal, plain lines elsewhere, a table at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from creditlab.plaintext import clean
from creditlab.tracking import metrics as names
from creditlab.tracking.events import Listener, Metrics, Run, Summary
from creditlab.tracking.jsonl import read
from creditlab.tracking.summary import evaluations, summarise
from creditlab.tracking.text import RATE_NOTE, duration, encodable, percent, rate, sparkline

Mode = Literal["auto", "live", "plain", "quiet"]

QUIET_EVENT = "info"
"""Kind of the events that a quiet console leaves out."""

_PHASES: Mapping[str, str] = {
    "warm start": names.TIME_WARM_START,
    "rollouts": names.TIME_ROLLOUTS,
    "credit": names.TIME_CREDIT,
    "learner": names.TIME_LEARNER,
    "evaluation": names.TIME_EVALUATION,
}
_PATIENCE = 10.0
"""Seconds of silence after which a plain console reports the progress within a phase."""


class ConsoleListener(Listener):
    """Tells a person how the run goes; everything that may come from an environment or a model is printed as plain text."""

    def __init__(
        self,
        mode: Mode = "auto",
        every: int = 5,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console or Console(force_terminal={"live": True, "plain": False}.get(mode), highlight=False)
        terminal = self._console.is_terminal and not self._console.is_dumb_terminal
        self._mode: Mode = mode if mode != "auto" else "live" if terminal else "plain"
        self._every = every
        self._clock = clock
        self._began = self._spoke = clock()
        self._updates = 0
        self._records: dict[int, dict[str, float]] = {}
        self._spent = dict.fromkeys(_PHASES, 0.0)
        self._bars: _Bars | None = None

    def on_start(self, run: Run) -> None:
        self._updates = run.updates
        if run.resumed is not None:
            earlier = read(run.folder / "metrics.jsonl")
            self._records = {int(r["step"]): r for r in earlier if r["step"] <= run.resumed}
        where = f", resumes after update {run.resumed}" if run.resumed is not None else ""
        self._say(f"{run.name}: {run.updates} updates, seed {run.seed}{where}", style="bold")
        self._say(f"folder {run.folder}")
        if self._mode == "live":
            self._bars = _Bars(self._console, run.updates, run.resumed or 0)
            self._bars.start()

    def on_update(self, step: int, metrics: Metrics) -> None:
        self._add(step, metrics)
        line = _update_line(metrics)
        if self._bars is not None:
            self._bars.show(step, line)
        elif step == self._updates or step % self._every == 0:
            self._say(f"update {step}/{self._updates}  {line}")

    def on_evaluation(self, step: int, metrics: Metrics) -> None:
        self._add(step, metrics)
        if names.VAL_SUCCESS not in metrics:
            return
        curve = [success for _, success, _ in evaluations(list(self._records.values()))]
        label = "warm start" if step == 0 else f"evaluation after {step}"
        self._say(f"{label}  {_evaluation_line(metrics)}  {self._drawn(curve)}", style="green")

    def on_event(self, kind: str, message: str) -> None:
        if kind == QUIET_EVENT:
            self._say(clean(message))
        else:
            self._say(f"{clean(kind)}: {clean(message)}", style="yellow", always=True)

    def on_progress(self, phase: str, done: int, total: int, info: str) -> None:
        if self._bars is not None:
            self._bars.phase(clean(phase), done, total, clean(info, limit=60))
        elif self._clock() - self._spoke >= _PATIENCE:
            self._say(f"  {clean(phase)} {done}/{total}  {clean(info)}".rstrip())

    def on_finish(self, summary: Summary) -> None:
        if self._bars is not None:
            self._bars.stop()
        if self._mode == "quiet":
            if summary.status == "failed" and summary.message:
                self._say(clean(summary.message), always=True)
            return
        total = summary.metrics.get(names.TIME_TOTAL, self._clock() - self._began)
        spent = {phase: summary.metrics.get(key, self._spent[phase]) for phase, key in _PHASES.items()}
        earlier = f", {duration(total)} with the sittings before" if summary.before else ""
        self._say(f"{summary.status} in {duration(total - summary.before)}{earlier}", style="bold")
        rows = _result_rows([self._records[step] for step in sorted(self._records)])
        self._table(("held-out success", ""), rows)
        if rows:
            self._say(RATE_NOTE)
        self._table(("time", "", "share"), _time_rows(spent, total))
        width = max((len(label) for label in summary.paths), default=0)
        for label, path in summary.paths.items():
            self._say(f"{label:<{width}}  {path}")
        if summary.message:
            self._say(clean(summary.message))

    def _add(self, step: int, metrics: Metrics) -> None:
        self._records.setdefault(step, {"step": step}).update(metrics)
        for phase, key in _PHASES.items():
            self._spent[phase] += metrics.get(key, 0.0)

    def _say(self, text: str, style: str = "", always: bool = False) -> None:
        if self._mode == "quiet" and not always:
            return
        self._console.print(Text(self._printable(text), style=style), soft_wrap=True)
        self._spoke = self._clock()

    def _table(self, header: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
        if not rows:
            return
        table = Table(*header)
        for row in rows:
            table.add_row(*(Text(self._printable(cell)) for cell in row))
        self._console.print(table)

    def _printable(self, text: str) -> str:
        """What the stream can show of the text; a listener must not fail over a sign."""
        return encodable(text, self._console.encoding)

    def _drawn(self, curve: list[float]) -> str:
        return sparkline(curve) if self._console.encoding.startswith("utf") else ""


class _Bars(Progress):
    """A bar over the updates, a bar over the phase within one, and a line with the latest numbers."""

    def __init__(self, console: Console, updates: int, done: int) -> None:
        self._status = Text()
        self._phase_name = ""
        super().__init__(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[info]}", markup=False),
            console=console,
            refresh_per_second=4,
        )
        self._update_task = self.add_task("updates", total=updates, completed=done, info="")
        self._phase_task: TaskID = self.add_task("", total=None, visible=False, info="")

    def show(self, step: int, line: str) -> None:
        """Marks update `step` as done and shows its numbers."""
        self.update(self._update_task, completed=step)
        self.update(self._phase_task, visible=False)
        self._status.plain = line

    def phase(self, name: str, done: int, total: int, info: str) -> None:
        """Moves the bar of the phase, from the start when the phase is another one."""
        if name != self._phase_name:
            self._phase_name = name
            self.reset(self._phase_task)
        self.update(self._phase_task, description=name, completed=done, total=total, info=info, visible=True)

    def get_renderables(self) -> Iterable[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield self._status


def _update_line(metrics: Metrics) -> str:
    """Success, reward, the loss that was minimised and where the time went, whichever are there."""
    parts = []
    if names.SUCCESS_RATE in metrics:
        parts.append(f"success {percent(metrics[names.SUCCESS_RATE])}")
    if names.REWARD in metrics:
        parts.append(f"reward {metrics[names.REWARD]:.2f}")
    if names.LOSS in metrics:
        parts.append(f"loss {metrics[names.LOSS]:+.4f}")
    environment = metrics.get(names.TIME_ENVIRONMENT, 0.0)
    seconds = {
        "env": environment,
        "generation": metrics.get(names.TIME_ROLLOUTS, 0.0) - environment,
        "training": metrics.get(names.TIME_LEARNER, 0.0),
    }
    if total := sum(seconds.values()):
        parts.append(f"{total:.1f} s: " + ", ".join(f"{name} {100 * s / total:.0f} %" for name, s in seconds.items()))
    return "  ".join(parts)


def _evaluation_line(metrics: Metrics) -> str:
    line = f"success {_success(metrics)}"
    if names.VAL_TURNS in metrics:
        line += f"  turns {metrics[names.VAL_TURNS]:.1f}"
    if names.VAL_INEFFECTIVE in metrics:
        line += f"  commands without effect {percent(metrics[names.VAL_INEFFECTIVE])}"
    return line


def _success(metrics: Metrics) -> str:
    """Held-out success with what is known of its error, in percent."""
    return rate(metrics[names.VAL_SUCCESS], metrics.get(names.VAL_SUCCESS_SE), metrics.get(names.VAL_EPISODES, 0))


def _result_rows(records: list[dict[str, float]]) -> list[tuple[str, ...]]:
    """Warm start, the last three evaluations, their mean, the best and the gain, whichever there are."""
    curve = [record for record in records if names.VAL_SUCCESS in record]
    trained = [record for record in curve if record["step"] > 0]
    result = summarise(records)
    rows: list[tuple[str, ...]] = [("warm start", _success(record)) for record in curve if record["step"] == 0]
    rows += [(f"after update {record['step']:.0f}", _success(record)) for record in trained[-3:]]
    if trained:
        rows.append((f"mean of the last {len(trained[-3:])}", percent(result["last_three"])))
        rows.append((f"best, after update {result['best_step']:.0f}", percent(result["best"])))
    if "gain" in result:
        rows.append(("gain over the warm start", f"{100 * result['gain']:+.1f} points"))
    return rows


def _time_rows(spent: Mapping[str, float], total: float) -> list[tuple[str, ...]]:
    """Seconds of each phase and its share of the total; none when nothing was timed."""
    timed = sum(spent.values())
    if not timed:
        return []
    # phases before the listener's own clock began can exceed it
    whole = max(total, timed)
    return [(phase, duration(s), percent(s / whole)) for phase, s in {**spent, "other": whole - timed}.items()]
