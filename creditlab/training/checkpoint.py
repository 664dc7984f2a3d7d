"""Checkpoints: whole or absent, verified when read, the newest n and the best kept."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditlab.config import Job
from creditlab.sealed import seal, sync, unseal

STATE_FILE = "state.json"
FORMAT = 2


@dataclass(frozen=True)
class Checkpoint:
    """A whole checkpoint on disk."""

    path: Path
    update: int
    state: dict[str, Any]


def store_of(job: Job) -> CheckpointStore:
    """The checkpoints of a run."""
    return CheckpointStore(job.folder / "checkpoints", job.settings.checkpoint.keep, f"{job.hash}-s{job.settings.seed}")


class CheckpointStore:
    """The folder `checkpoints/` of a run, with one folder `update-000010` per checkpoint."""

    def __init__(self, folder: Path, keep: int, run: str | None = None) -> None:
        """`run` names the run whose checkpoints these are; those of another one are refused, with None of no one."""
        self.folder, self.keep, self.run = folder, keep, run

    def path(self, update: int) -> Path:
        """The folder of an update's checkpoint."""
        return self.folder / f"update-{update:06d}"

    def save(self, update: int, state: dict[str, Any], write: Callable[[Path], None], best: int | None) -> Path:
        """Writes a checkpoint through `write` into a hidden folder, then moves it into place in one step.

        `state` is plain data; it is sealed together with every file. Older checkpoints beyond `keep` are removed, except
        that of update `best`.
        """
        target = self.path(update)
        work = self.folder / f".writing-{update:06d}"
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir(parents=True)
        try:
            write(work)
            seal(work, STATE_FILE, {"format": FORMAT, "run": self.run, "update": update, **state})
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        if target.exists():
            self._remove(update)
        work.rename(target)
        sync(self.folder)
        self._prune(update, best)
        return target

    def updates(self) -> list[int]:
        """Updates with a checkpoint, ascending, verified or not."""
        names = [p.name.removeprefix("update-") for p in self.folder.glob("update-*") if p.is_dir()]
        return sorted(int(name) for name in names if name.isdigit())

    def read(self, update: int) -> Checkpoint:
        """The verified checkpoint of an update; raises ValueError naming the file that is missing or damaged."""
        path = self.path(update)
        return Checkpoint(path, update, self._read(path, update))

    def latest(self, report: Callable[[str], None], before: float = math.inf) -> Checkpoint | None:
        """The newest whole checkpoint of those before an update.

        A damaged one is reported by name, and the one before it is taken.
        """
        for update in reversed(self.updates()):
            if update >= before:
                continue
            try:
                return self.read(update)
            except ValueError as error:
                report(f"{error}; looking for the checkpoint before it")
        return None

    def discard_after(self, update: int) -> None:
        """Removes later checkpoints and what interrupted writes left; to be called by one rank before it resumes."""
        for later in self.updates():
            if later > update:
                self._remove(later)
        for pattern in (".writing-*", ".removed-*"):
            for leftover in self.folder.glob(pattern):
                shutil.rmtree(leftover, ignore_errors=True)

    def _prune(self, newest: int, best: int | None) -> None:
        kept = {*self.updates()[-self.keep :], newest, best}
        for update in self.updates():
            if update not in kept:
                self._remove(update)

    def _remove(self, update: int) -> None:
        """Takes a checkpoint out of sight in one step, so that what is in sight is whole, and then away."""
        hidden = self.folder / f".removed-{update:06d}"
        shutil.rmtree(hidden, ignore_errors=True)
        with suppress(OSError):  # it is in nobody's way but the disk's
            self.path(update).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _read(self, path: Path, update: int) -> dict[str, Any]:
        """The verified state of a checkpoint; raises ValueError naming what is damaged or does not belong here."""
        try:
            state = unseal(path, STATE_FILE)
        except ValueError as error:
            raise ValueError(f"checkpoint file {error}") from None
        if state.get("format") != FORMAT:
            raise ValueError(f"checkpoint {path} has format {state.get('format')}, not {FORMAT}")
        if state.get("update") != update:
            raise ValueError(f"checkpoint {path} is that of update {state.get('update')}")
        if self.run is not None and state.get("run") != self.run:
            raise ValueError(f"checkpoint {path} belongs to another run ({state.get('run')}, this one is {self.run})")
        return state
