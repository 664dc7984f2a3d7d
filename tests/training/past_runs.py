"""Runs in the corridor and what they left, for the tests of sessions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from corridor import quick_job

from creditlab.config import Job
from creditlab.tracking import Summary, Tracker
from creditlab.tracking.jsonl import read
from creditlab.training import session as session_module
from creditlab.training.checkpoint import store_of
from creditlab.training.session import Session, train


def without_figures(patch: pytest.MonkeyPatch) -> None:
    """Drawing takes seconds and has tests of its own."""
    patch.setattr(Session, "_draw", lambda self: None)


def watch_endings(patch: pytest.MonkeyPatch) -> list[Summary]:
    """A list that will hold what the trackers of runs are told at the end."""
    found: list[Summary] = []

    class Watcher(Tracker):
        def finish(self, summary: Summary) -> None:
            found.append(summary)
            super().finish(summary)

    patch.setattr(session_module, "Tracker", Watcher)
    return found


def run_of_four_updates(root: Path) -> Job:
    """A finished run of four updates."""
    job = quick_job(root, "training.updates=4", "checkpoint.rollouts_every=1")
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        assert train(job) == 0
    return job


def records(job: Job) -> list[dict[str, float]]:
    """The metrics without what depends on the clock."""
    lines = read(job.folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith("timing_s/")} for line in lines]


def events(job: Job) -> list[str]:
    """The messages of the run's events."""
    path = job.folder / "events.jsonl"
    return [json.loads(line)["message"] for line in path.read_text().splitlines()] if path.exists() else []


def model_bytes(job: Job, update: int) -> bytes:
    """The weights in a checkpoint."""
    return (store_of(job).path(update) / "model" / "model.safetensors").read_bytes()
