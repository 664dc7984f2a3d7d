"""Checkpoints: whole or absent, verified when read, the newest n and the best kept."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE_FILE = "state.json"
FORMAT = 1


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    update: int
    state: dict[str, Any]


class CheckpointStore:
    """The folder `checkpoints/` of a run, with one folder `update-000010` per checkpoint."""

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder, self.keep = folder, keep

    def path(self, update: int) -> Path:
        """The folder of an update's checkpoint."""
        return self.folder / f"update-{update:06d}"

    def save(self, update: int, state: dict[str, Any], write: Callable[[Path], None], best: int | None) -> Path:
        """Writes a checkpoint through `write` into a hidden folder, then moves it into place in one step.

        `state` is plain data; the hash of every file is added to it. Older checkpoints beyond `keep` are removed, except
        that of update `best`.
        """
        target = self.path(update)
        work = self.folder / f".writing-{update:06d}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            _fill(work, update, state, write)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        old = self.folder / f".replaced-{update:06d}"
        if target.exists():
            target.rename(old)
        work.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        _sync(self.folder)
        self._prune(update, best)
        return target

    def updates(self) -> list[int]:
        """Updates with a checkpoint, ascending, verified or not."""
        names = [p.name.removeprefix("update-") for p in self.folder.glob("update-*") if p.is_dir()]
        return sorted(int(name) for name in names if name.isdigit())

    def latest(self, report: Callable[[str], None]) -> Checkpoint | None:
        """The newest whole checkpoint; a damaged one is reported by name and the one before it is taken."""
        for update in reversed(self.updates()):
            path = self.path(update)
            try:
                return Checkpoint(path, update, _read(path))
            except ValueError as error:
                report(f"{error}; looking for the checkpoint before it")
        return None

    def discard_after(self, update: int) -> None:
        """Removes later checkpoints and what interrupted writes left; to be called by one rank before it resumes."""
        for later in self.updates():
            if later > update:
                shutil.rmtree(self.path(later), ignore_errors=True)
        for pattern in (".writing-*", ".replaced-*"):
            for leftover in self.folder.glob(pattern):
                shutil.rmtree(leftover, ignore_errors=True)

    def _prune(self, newest: int, best: int | None) -> None:
        kept = {*self.updates()[-self.keep :], newest, best}
        for update in self.updates():
            if update not in kept:
                shutil.rmtree(self.path(update), ignore_errors=True)


def _fill(work: Path, update: int, state: dict[str, Any], write: Callable[[Path], None]) -> None:
    """Writes everything of a checkpoint, the hashes last, and flushes it to disk."""
    write(work)
    files = {str(p.relative_to(work)): _sha256(p) for p in sorted(work.rglob("*")) if p.is_file()}
    record = {"format": FORMAT, "update": update, "files": files, **state}
    (work / STATE_FILE).write_text(json.dumps(record, indent=1))
    _sync_tree(work)


def _read(path: Path) -> dict[str, Any]:
    """The verified state of a checkpoint; raises ValueError naming the file that is damaged."""
    try:
        state = json.loads((path / STATE_FILE).read_text())
    except (OSError, ValueError):
        raise ValueError(f"checkpoint {path / STATE_FILE} is missing or not readable") from None
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(
            f"checkpoint {path} has format {state.get('format') if isinstance(state, dict) else None}, not {FORMAT}"
        )
    for name, digest in state["files"].items():
        file = path / name
        if not file.is_file() or _sha256(file) != digest:
            raise ValueError(f"checkpoint file {file} is missing or damaged")
    return state


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_tree(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        _sync(path)
    _sync(folder)


def _sync(path: Path) -> None:
    """Flushes a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
