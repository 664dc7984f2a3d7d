"""The times that a run tells at its end are those of all its sittings, and each part is counted where it was spent."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corridor import quick_job
from past_runs import store_of, watch_endings, without_figures

from creditlab.config import Job
from creditlab.tracking import Summary
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import read
from creditlab.training.session import train

PARTS = (m.TIME_WARM_START, m.TIME_ROLLOUTS, m.TIME_CREDIT, m.TIME_LEARNER, m.TIME_EVALUATION)
"""They do not overlap."""


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    without_figures(monkeypatch)
    return watch_endings(monkeypatch)


def sit(job: Job, updates: int, endings: list[Summary], resume: Any = "auto") -> tuple[Summary, float]:
    """Trains up to an update; returns what was told at the end and the seconds that it took."""
    training = replace(job.settings.training, updates=updates)
    began = time.perf_counter()
    endings.clear()
    assert train(replace(job, settings=replace(job.settings, resume=resume, training=training))) == 0
    return endings[0], time.perf_counter() - began


def kept(job: Job, update: int) -> float:
    """The total in a checkpoint."""
    state = json.loads((store_of(job).path(update) / "state.json").read_bytes())
    total: float = state["progress"]["seconds"][m.TIME_TOTAL]
    return total


def test_totals_and_parts_are_sums_over_the_sittings(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path)
    first, took = sit(job, 2, endings)
    assert first.before == 0.0
    assert sum(first.metrics[part] for part in PARTS) < first.metrics[m.TIME_TOTAL] < took
    second, took = sit(job, 4, endings)
    assert second.before == kept(job, 2) < first.metrics[m.TIME_TOTAL]
    assert 0 < second.metrics[m.TIME_TOTAL] - second.before < took
    assert second.before < kept(job, 4) < second.metrics[m.TIME_TOTAL]
    assert sum(second.metrics[part] for part in PARTS) < second.metrics[m.TIME_TOTAL]
    assert all(second.metrics[part] > first.metrics[part] for part in PARTS[1:])
    again, took = sit(job, 4, endings)  # finished already
    assert again.before == kept(job, 4)
    assert again.metrics[m.TIME_TOTAL] - again.before < took
    steps = read(job.folder / "metrics.jsonl")
    assert [step for step in steps if m.TIME_TOTAL in step] == []
    assert second.metrics[m.TIME_ROLLOUTS] == pytest.approx(sum(step.get(m.TIME_ROLLOUTS, 0.0) for step in steps))


def test_a_later_sitting_spends_nothing_on_the_warm_start_unless_it_is_the_reference(
    tmp_path: Path, endings: list[Summary]
) -> None:
    job = quick_job(tmp_path)
    first, _ = sit(job, 1, endings)
    second, _ = sit(job, 2, endings)
    assert second.metrics[m.TIME_WARM_START] == first.metrics[m.TIME_WARM_START]
    [start] = [step for step in read(job.folder / "metrics.jsonl") if m.TIME_WARM_START in step]
    assert start["step"] == 0
    assert start[m.TIME_WARM_START] == first.metrics[m.TIME_WARM_START]
    anchored = quick_job(tmp_path, "learner.kl=0.01")
    first, _ = sit(anchored, 1, endings)
    second, _ = sit(anchored, 2, endings)
    assert second.metrics[m.TIME_WARM_START] > first.metrics[m.TIME_WARM_START]
