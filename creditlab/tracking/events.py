"""The events of a run and those who listen to them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from creditlab.tracking.writing import WriteError

Metrics = Mapping[str, float]


@dataclass(frozen=True)
class Run:
    """What a listener may know about a run before it starts."""

    name: str
    folder: Path
    config: Mapping[str, Any]
    """The resolved configuration, plain values only."""
    manifest: Mapping[str, Any]
    """Versions, panel hash, conventions, revision."""
    seed: int
    updates: int
    """Updates after which the run is complete."""
    group: str = ""
    job_type: str = "train"
    tags: tuple[str, ...] = ()
    resumed: int | None = None
    """Update of the checkpoint that the run continues from; None for a fresh run."""


@dataclass(frozen=True)
class Summary:
    """How a run ended."""

    status: Literal["finished", "interrupted", "failed"]
    metrics: Metrics = field(default_factory=dict)
    """Final scalars, beside those that follow from the evaluations; `timing_s/*` are sums over the run."""
    paths: Mapping[str, Path] = field(default_factory=dict)
    """What the run left behind, label to path (`curve`, `checkpoints`, `rollouts`)."""
    message: str = ""
    """One line for the user, such as how to resume."""
    before: float = 0.0
    """Seconds of the sittings before this one, a part of `timing_s/total`."""


class Listener:
    """Base of all listeners: every method does nothing unless overridden.

    A listener that raises is reported once and hears nothing more; it never stops the training, unless with a WriteError.
    """

    def on_start(self, run: Run) -> Iterable[str] | None:
        """The run begins or resumes; may return warnings for the other listeners."""

    def on_update(self, step: int, metrics: Metrics) -> None:
        """Update `step` (from 1) is done."""

    def on_evaluation(self, step: int, metrics: Metrics) -> None:
        """The policy after `step` updates was evaluated; 0 is the warm start."""

    def on_event(self, kind: str, message: str) -> None:
        """Something worth telling happened; `kind` is `warning` or a name such as `skipped_update`."""

    def on_progress(self, phase: str, done: int, total: int, info: str) -> None:
        """`done` of `total` units of a phase are finished."""

    def on_finish(self, summary: Summary) -> None:
        """The run ended; the last event."""

    def paths(self) -> Mapping[str, Path]:
        """What this listener leaves behind, label to path, for the summary."""
        return {}


class Tracker:
    """Passes every event of a run to all listeners; without listeners (on ranks other than 0) it does nothing.

    As a context manager it reports a run that ends by an exception as failed; what a ValueError says is for the command to
    tell.
    """

    def __init__(self, listeners: Iterable[Listener] = ()) -> None:
        self.listeners = list(listeners)
        self._step = 0
        self._finished = False

    def start(self, run: Run) -> None:
        """Opens the run for every listener."""
        self._step = run.resumed or 0
        notes: list[str] = []
        self._send(lambda listener: notes.extend(listener.on_start(run) or ()))
        for note in notes:
            self.event("warning", note)

    def update(self, step: int, metrics: Metrics) -> None:
        """Reports update `step`; raises ValueError when steps run backwards."""
        self._advance(step)
        self._send(lambda listener: listener.on_update(step, metrics))

    def evaluation(self, step: int, metrics: Metrics) -> None:
        """Reports an evaluation after `step` updates; raises ValueError when steps run backwards."""
        self._advance(step)
        self._send(lambda listener: listener.on_evaluation(step, metrics))

    def event(self, kind: str, message: str) -> None:
        """Reports a happening, such as a skipped update."""
        self._send(lambda listener: listener.on_event(kind, message))

    def progress(self, phase: str, done: int, total: int, info: str = "") -> None:
        """Reports progress within a phase; cheap enough for every turn or batch."""
        self._send(lambda listener: listener.on_progress(phase, done, total, info))

    def finish(self, summary: Summary) -> None:
        """Ends the run for every listener; a second call does nothing."""
        if self._finished:
            return
        self._finished = True
        paths = dict(summary.paths)
        self._send(lambda listener: paths.update(listener.paths()))
        self._send(lambda listener: listener.on_finish(replace(summary, paths=paths)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        status: Literal["interrupted", "failed"] = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
        told = "" if error is None or isinstance(error, ValueError) else str(error)
        self.finish(Summary(status if error else "finished", message=told))

    def _advance(self, step: int) -> None:
        if step < self._step:
            raise ValueError(f"metrics of step {step} arrive after step {self._step}; steps must not run backwards")
        self._step = step

    def _send(self, call: Callable[[Listener], None]) -> None:
        failures = []
        for listener in tuple(self.listeners):
            try:
                call(listener)
            except WriteError:
                if not self._finished:
                    raise
            except Exception as error:  # whatever a listener does, the training goes on
                self.listeners.remove(listener)
                failures.append(
                    f"tracking: {type(listener).__name__} is switched off, it raised {type(error).__name__}: {error}"
                )
        for failure in failures:
            if self.listeners:
                self.event("warning", failure)
            else:
                warnings.warn(failure, RuntimeWarning, stacklevel=3)
