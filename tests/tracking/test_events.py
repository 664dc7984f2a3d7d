"""The tracker: every listener hears every event, and none of them can stop a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from creditlab.tracking import Listener, Metrics, Run, Summary, Tracker, TrackingConfig, default_listeners


class Recorder(Listener):
    """Keeps what it hears."""

    def __init__(self, note: str = "") -> None:
        self.heard: list[Any] = []
        self.note = note

    def on_start(self, run: Run) -> list[str]:
        self.heard.append(("start", run.name))
        return [self.note] if self.note else []

    def on_update(self, step: int, metrics: Metrics) -> None:
        self.heard.append(("update", step, dict(metrics)))

    def on_evaluation(self, step: int, metrics: Metrics) -> None:
        self.heard.append(("evaluation", step, dict(metrics)))

    def on_event(self, kind: str, message: str) -> None:
        self.heard.append(("event", kind, message))

    def on_progress(self, phase: str, done: int, total: int, info: str) -> None:
        self.heard.append(("progress", phase, done, total, info))

    def on_finish(self, summary: Summary) -> None:
        self.heard.append(("finish", summary))

    def paths(self) -> dict[str, Path]:
        return {"record": Path("record")}


class Broken(Listener):
    """Fails at every update."""

    def on_update(self, step: int, metrics: Metrics) -> None:
        raise OSError("no space left")


def make_run(folder: Path, **changes: Any) -> Run:
    values: dict[str, Any] = {"name": "demo", "folder": folder, "config": {}, "manifest": {}, "seed": 0, "updates": 4}
    return Run(**{**values, **changes})


def test_every_listener_hears_every_event(tmp_path: Path) -> None:
    one, two = Recorder(), Recorder()
    tracker = Tracker([one, two])
    tracker.start(make_run(tmp_path))
    tracker.progress("rollouts", 1, 2, "turn 3")
    tracker.update(1, {"episode/success_rate": 0.5})
    tracker.evaluation(1, {"val/success_rate": 0.25})
    tracker.event("skipped_update", "loss is nan")
    tracker.finish(Summary("finished", paths={"curve": Path("curve.png")}))
    assert one.heard == two.heard
    assert one.heard == [
        ("start", "demo"),
        ("progress", "rollouts", 1, 2, "turn 3"),
        ("update", 1, {"episode/success_rate": 0.5}),
        ("evaluation", 1, {"val/success_rate": 0.25}),
        ("event", "skipped_update", "loss is nan"),
        ("finish", Summary("finished", paths={"curve": Path("curve.png"), "record": Path("record")})),
    ]


def test_a_broken_listener_is_reported_once_and_switched_off(tmp_path: Path) -> None:
    recorder = Recorder()
    tracker = Tracker([Broken(), recorder])
    tracker.start(make_run(tmp_path))
    tracker.update(1, {})
    tracker.update(2, {})
    warnings = [entry for entry in recorder.heard if entry[0] == "event"]
    assert warnings == [("event", "warning", "tracking: Broken is switched off, it raised OSError: no space left")]
    assert [entry[1] for entry in recorder.heard if entry[0] == "update"] == [1, 2]


def test_the_last_listener_to_break_is_a_python_warning(tmp_path: Path) -> None:
    tracker = Tracker([Broken()])
    tracker.start(make_run(tmp_path))
    with pytest.warns(RuntimeWarning, match="no space left"):
        tracker.update(1, {})
    tracker.update(2, {})


def test_warnings_of_the_start_reach_listeners_before_and_after(tmp_path: Path) -> None:
    first, last = Recorder(), Recorder()
    Tracker([first, Recorder(note="no network"), last]).start(make_run(tmp_path))
    assert first.heard[-1] == last.heard[-1] == ("event", "warning", "no network")


def test_steps_do_not_run_backwards(tmp_path: Path) -> None:
    tracker = Tracker()
    tracker.start(make_run(tmp_path, resumed=2))
    with pytest.raises(ValueError, match="step 1 arrive after step 2"):
        tracker.update(1, {})
    tracker.update(3, {})
    tracker.evaluation(3, {})
    with pytest.raises(ValueError, match="step 2 arrive after step 3"):
        tracker.evaluation(2, {})


def test_a_run_that_ends_by_an_exception_is_reported_as_failed() -> None:
    recorder = Recorder()
    with pytest.raises(RuntimeError), Tracker([recorder]):
        raise RuntimeError("out of memory")
    (entry,) = recorder.heard
    assert (entry[1].status, entry[1].message) == ("failed", "out of memory")
    with Tracker([recorder]) as tracker:
        tracker.finish(Summary("finished", message="done"))
    assert [entry[1].message for entry in recorder.heard] == ["out of memory", "done"]


def test_the_section_chooses_the_listeners() -> None:
    def names(config: TrackingConfig) -> list[str]:
        return [type(one).__name__ for one in default_listeners(config)]

    assert names(TrackingConfig()) == ["JsonlListener", "ConsoleListener", "WandbListener"]
    assert names(TrackingConfig(wandb="disabled", console="quiet")) == ["JsonlListener", "ConsoleListener"]


@pytest.mark.parametrize(("field", "value"), [("every", 0), ("wandb_timeout", 0.0)])
def test_options_out_of_range_are_refused(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=rf"tracking\.{field} is {value}"):
        TrackingConfig(**{field: value})
