"""Faults around a run: disks that cannot be written, damaged manifests, signals while preparing, prompts that are cut."""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corridor import Corridor, quick_job
from past_runs import events, records, store_of, watch_endings, without_figures
from safetensors import SafetensorError

from creditlab.cli import run_hydra
from creditlab.config import Job
from creditlab.policy.engine import TransformersGenerator
from creditlab.registry import ConfigError
from creditlab.tracking import Summary, Tracker
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import JsonlListener
from creditlab.training import session as session_module
from creditlab.training.session import Progress, Session, train

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
NO_START = ("training.updates=2", "warm_start.steps=0")


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    return watch_endings(monkeypatch)


def resumed(job: Job, updates: int = 2) -> Job:
    training = replace(job.settings.training, updates=updates)
    return replace(job, settings=replace(job.settings, resume=True, training=training))


def failing(error: Exception) -> Callable[..., Any]:
    def fail(*arguments: Any, **options: Any) -> Any:
        raise error

    return fail


def test_a_cache_that_cannot_be_written_is_noticed_before_the_imitation(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("in the way")
    env = Corridor()
    with pytest.raises(ConfigError, match=rf"warm_start\.cache: cannot write {tmp_path}/cache: File exists; set warm_start"):
        train(quick_job(tmp_path, env=env))
    assert env.made == 0  # nothing was demonstrated


FULL_DISKS = {
    "weights": ("transformers.PreTrainedModel.save_pretrained", SafetensorError("I/O error: No space left on device")),
    "tokenizer": ("transformers.PreTrainedTokenizerFast.save_pretrained", Exception("No space left on device (os error 28)")),
    "moments": ("creditlab.learner.state.save_file", FULL),
}


@pytest.mark.parametrize("part", FULL_DISKS)
def test_a_full_disk_while_a_checkpoint_is_written(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endings: list[Summary]
) -> None:
    job = quick_job(tmp_path, *NO_START)
    original = session_module.Session._save
    target, error = FULL_DISKS[part]

    def save(session: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target, failing(error))
            original(session)

    monkeypatch.setattr(session_module.Session, "_save", save)
    assert train(job) == 1
    path = store_of(job).path(2)
    assert endings[0].status == "failed"
    assert endings[0].message.startswith(f"cannot write {path}: ")
    assert "No space left on device" in endings[0].message
    assert endings[0].message.endswith("; free space and continue with resume=true")
    assert list((job.folder / "checkpoints").iterdir()) == []


def test_a_full_disk_while_rollouts_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endings: list[Summary]
) -> None:
    monkeypatch.setattr("creditlab.rollouts.store.pq.write_table", failing(FULL))
    job = quick_job(tmp_path, *NO_START, "checkpoint.rollouts_every=1")
    assert train(job) == 1
    path = job.folder / "rollouts" / "update-000001.parquet"
    assert endings[0].message == f"cannot write {path}: No space left on device; free space and continue with resume=true"


def test_a_full_disk_while_metrics_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endings: list[Summary], capsys: pytest.CaptureFixture[str]
) -> None:
    original = JsonlListener.on_update

    def log(listener: JsonlListener, step: int, metrics: Any) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("creditlab.tracking.jsonl.os.fsync", failing(FULL))
            original(listener, step, metrics)

    monkeypatch.setattr(JsonlListener, "on_update", log)
    job = quick_job(tmp_path, *NO_START)
    assert train(job) == 1
    path = job.folder / "metrics.jsonl"
    message = f"cannot write {path}: No space left on device; free space and continue with resume=true"
    assert endings[0].message == message
    assert capsys.readouterr().out == f"{message}\n"  # the console is quiet, yet says why the run has ended


def test_a_full_disk_while_the_warm_start_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endings: list[Summary]
) -> None:
    monkeypatch.setattr("transformers.PreTrainedModel.save_pretrained", failing(FULL))
    assert train(quick_job(tmp_path, *NO_START)) == 1
    assert [e.status for e in endings] == ["failed"]
    assert endings[0].message.startswith(f"cannot write {tmp_path}/cache/")
    assert endings[0].message.endswith(": No space left on device; free space and start the run again")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_termination_while_preparing_is_an_interruption(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handler = signal.getsignal(signal.SIGTERM)

    class Terminated(Corridor):
        def expert(self, task: Any, rng: Any) -> Any:
            os.kill(os.getpid(), signal.SIGTERM)
            return super().expert(task, rng)

    job = quick_job(tmp_path, env=Terminated())
    assert run_hydra(lambda _: train(job), []) == 130
    assert capsys.readouterr().err == "creditlab: interrupted\n"
    assert signal.getsignal(signal.SIGTERM) == handler


def test_a_damaged_manifest_is_refused_and_a_missing_one_told_of(tmp_path: Path) -> None:
    job = quick_job(tmp_path, *NO_START)
    assert train(job) == 0
    path = job.folder / "manifest.json"
    for damaged in ('{"panel": ', "[]", "{}"):
        path.write_text(damaged)
        with pytest.raises(ConfigError, match=rf"{path} is damaged: put back a copy of it, or remove it to resume"):
            train(resumed(job, 3))
    path.unlink()
    assert train(resumed(job, 3)) == 0
    assert "manifest.json is missing; cannot check that the games are the same" in events(job)
    assert path.exists()
    assert [line["step"] for line in records(job)] == [0, 1, 2, 3]


def test_the_best_update_is_one_that_was_trained() -> None:
    assert Progress(evaluations=[[0, 0.5], [2, 0.5], [4, 0.5]]).best == 2
    assert Progress(evaluations=[[0, 0.9], [2, 0.1], [4, 0.3]]).best == 4
    assert Progress(evaluations=[[0, 0.9]]).best is None


def test_the_summary_lists_what_exists(tmp_path: Path, endings: list[Summary]) -> None:
    assert train(quick_job(tmp_path, *NO_START)) == 0
    assert train(quick_job(tmp_path, *NO_START, "checkpoint.rollouts_every=1", "overwrite=true")) == 0
    listed = [sorted(e.paths) for e in endings if e.paths]
    assert listed == [["checkpoints", "manifest"], ["checkpoints", "manifest", "rollouts"]]


@pytest.mark.parametrize("part", ["prompt", "response"])
def test_prompts_or_responses_that_are_all_cut_are_told_of_once(
    part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = TransformersGenerator._cut
    if part == "response":
        monkeypatch.setattr(TransformersGenerator, "_cut", lambda *given: replace(original(*given), cut=True))
    job = quick_job(tmp_path, *NO_START, f"prompt.max_{part}_tokens=3")
    assert train(job) == 0
    told = [event for event in events(job) if "was cut" in event]
    assert told == [f"every {part} of the update was cut to prompt.max_{part}_tokens=3; raise it"]


def test_a_few_cuts_are_counted_and_not_told_of(tmp_path: Path) -> None:
    session = Session(quick_job(tmp_path), Tracker(), None)
    session._warn_of_cuts({"episode/decisions": 8.0, "prompt_length/cut": 7.0, m.CUT_RATIO: 7 / 8})
    assert not session.told
