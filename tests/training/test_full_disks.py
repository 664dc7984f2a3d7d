"""Disks and folders that really cannot be written: the file is named, nothing half-made stays, and the run can go on."""

from __future__ import annotations

import os
import resource
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corridor import quick_job
from past_runs import records, store_of, watch_endings, without_figures

from creditlab.config import Job
from creditlab.registry import ConfigError
from creditlab.rollouts.store import RolloutStore
from creditlab.tracking import Summary
from creditlab.tracking.jsonl import JsonlListener
from creditlab.training import session as session_module
from creditlab.training.checkpoint import CheckpointStore
from creditlab.training.demonstrations import WarmStartCache
from creditlab.training.session import train

ROOM = 100
"""Bytes that fit into a file of a disk that is all but full."""
OPTIONS = ("training.updates=2", "checkpoint.rollouts_every=1", "warm_start.steps=5")
NOBODY = 65534


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    return watch_endings(monkeypatch)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Job:
    job = quick_job(tmp_path_factory.mktemp("undisturbed"), *OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        assert train(job) == 0
    return job


@contextmanager
def no_room() -> Iterator[None]:
    """Within it the operating system lets no file grow beyond ROOM."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (ROOM, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def full_in(patch: pytest.MonkeyPatch, owner: Any, name: str, call: int) -> None:
    """Leaves no room on the disk during one call of a function, counted from 0."""
    original: Callable[..., Any] = getattr(owner, name)
    calls: list[int] = []

    def wrapped(*given: Any, **options: Any) -> Any:
        calls.append(len(calls))
        if calls[-1] != call:
            return original(*given, **options)
        with no_room():
            return original(*given, **options)

    patch.setattr(owner, name, wrapped)


STAGES: dict[str, tuple[Any, str, int, str]] = {
    "warm start": (WarmStartCache, "store", 0, "cache/"),
    "configuration": (session_module, "write_json", 0, "config.json"),
    "manifest": (session_module, "write_json", 1, "manifest.json"),
    "first metrics": (JsonlListener, "_log", 0, "metrics.jsonl"),
    "later metrics": (JsonlListener, "_log", 2, "metrics.jsonl"),
    "rollouts": (RolloutStore, "save", 1, "rollouts/update-000002.parquet"),
    "checkpoint": (CheckpointStore, "save", 0, "checkpoints/update-000002"),
}


@pytest.mark.parametrize("stage", STAGES)
def test_a_disk_without_room_ends_the_run_in_one_line_and_it_goes_on_with_room(
    stage: str, tmp_path: Path, endings: list[Summary], undisturbed: Job
) -> None:
    owner, name, call, file = STAGES[stage]
    job = quick_job(tmp_path, *OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        full_in(patch, owner, name, call)
        assert train(job) == 1
    [ending] = [e for e in endings if e.message]
    assert ending.status == "failed"
    assert ending.message.startswith(f"cannot write {tmp_path if stage == 'warm start' else job.folder}/{file}")
    assert "File too large" in ending.message
    assert "; free space and " in ending.message
    assert lying_about(tmp_path) == []
    assert store_of(job).updates() == []
    assert train(replace(job, settings=replace(job.settings, resume="auto"))) == 0
    assert records(job) == records(undisturbed)
    assert lying_about(tmp_path) == []


def lying_about(folder: Path) -> list[Path]:
    """What an interrupted write left."""
    return [path for path in folder.rglob("*") if path.name.startswith(".") or path.name.endswith(".tmp")]


@pytest.fixture
def unprivileged() -> Iterator[Path]:
    """A folder that everybody may write, and no rights beyond it, for permissions do not bind the superuser."""
    user = os.geteuid()
    folder = Path(tempfile.mkdtemp())  # pytest's own folders are closed to others
    folder.chmod(0o777)
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield folder
    finally:
        os.seteuid(user)
        shutil.rmtree(folder)


def closed(folder: Path) -> Path:
    folder.mkdir()
    folder.chmod(0o555)
    return folder


def test_folders_that_may_not_be_written_are_refused_before_the_start(unprivileged: Path) -> None:
    root = closed(unprivileged / "closed")
    with pytest.raises(ConfigError, match=rf"cannot write the run folder {root}/runs/.*: Permission denied; choose another"):
        train(quick_job(unprivileged, *OPTIONS, f"run_root={root / 'runs'}"))
    with pytest.raises(
        ConfigError, match=rf"warm_start\.cache: cannot write {root}: Permission denied; set warm_start\.cache"
    ):
        train(quick_job(unprivileged, *OPTIONS, f"warm_start.cache={root}"))


@pytest.mark.parametrize("resume", ["auto", True])
def test_a_run_that_may_no_longer_be_written_is_not_continued_and_says_so(
    resume: Any, unprivileged: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its configuration is written before anybody listens."""
    job = quick_job(unprivileged, *OPTIONS)
    assert train(job) == 0
    job.folder.chmod(0o555)
    capsys.readouterr()
    assert train(replace(job, settings=replace(job.settings, resume=resume))) == 1
    path = job.folder / "config.json"
    line = f"creditlab: cannot write {path}: Permission denied; make it writable and continue with resume=true\n"
    assert capsys.readouterr() == ("", line)


def test_a_disk_that_is_full_before_anybody_listens_is_told_of(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = quick_job(tmp_path, *OPTIONS)
    with pytest.MonkeyPatch.context() as patch:
        full_in(patch, session_module, "write_json", 0)
        assert train(job) == 1
    path = job.folder / "config.json"
    line = f"creditlab: cannot write {path}: File too large; free space and start the run again\n"
    assert capsys.readouterr() == ("", line)


def test_a_folder_that_is_closed_during_the_run_ends_it_in_one_line(
    unprivileged: Path, monkeypatch: pytest.MonkeyPatch, endings: list[Summary]
) -> None:
    original = CheckpointStore.save

    def save(store: CheckpointStore, *given: Any) -> Path:
        closed(store.folder)
        return original(store, *given)

    monkeypatch.setattr(CheckpointStore, "save", save)
    job = quick_job(unprivileged, *OPTIONS)
    assert train(job) == 1
    path = store_of(job).path(2)
    assert endings[0].message == f"cannot write {path}: Permission denied; make it writable and continue with resume=true"
