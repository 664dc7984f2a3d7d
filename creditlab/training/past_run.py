"""A run read back from its folder: its configuration, its models and what it logged."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditlab import strict_json
from creditlab.options import ConfigError, did_you_mean
from creditlab.tracking.jsonl import STEP, read
from creditlab.tracking.metrics import VAL_SUCCESS
from creditlab.training.checkpoint import Checkpoint, CheckpointStore
from creditlab.training.demonstrations import cache_root
from creditlab.training.manifest import read_manifest
from creditlab.training.progress import Progress

WARM_START, LAST, BEST = "warm_start", "last", "best"
"""Names of a model beside the number of an update."""

COMPONENTS = ("env", "model", "engine", "learner")
SECTIONS = ("prompt", "rollout", "training", "evaluation", "warm_start")
"""What the configuration of a run must have for its models to be played."""


@dataclass(frozen=True)
class Chosen:
    """One of the models that a run has made."""

    folder: Path
    """In Hugging Face format."""
    update: int
    """Updates it has seen; 0 is the warm start."""

    @property
    def label(self) -> str:
        """Its name in the run."""
        return f"update-{self.update:06d}" if self.update else WARM_START


@dataclass(frozen=True)
class PastRun:
    """A run that has begun, finished or not."""

    folder: Path
    config: Mapping[str, Any]
    """Its resolved configuration."""
    manifest: Mapping[str, Any]
    """What it was made with; empty where the file is missing."""

    def model(self, which: str, cache: str | None, report: Callable[[str], None]) -> Chosen:
        """The model named `last`, `best`, `warm_start` or by the number of an update.

        For `last` a damaged checkpoint is reported and the one before it taken; `cache` is the folder of warm starts. Raises
        ConfigError where there is no such model, with those that there are.
        """
        if which == WARM_START:
            return Chosen(self._warm_start(cache), 0)
        checkpoint = self._checkpoint(which, report)
        return Chosen(checkpoint.path / "model", checkpoint.update)

    def logged_success(self, update: int) -> float | None:
        """Held-out success that the run itself logged after an update; none where it did not evaluate there."""
        records = read(self.folder / "metrics.jsonl")
        return next((r[VAL_SUCCESS] for r in records if r[STEP] == update and VAL_SUCCESS in r), None)

    def _checkpoint(self, which: str, report: Callable[[str], None]) -> Checkpoint:
        store = CheckpointStore(self.folder / "checkpoints", keep=1)
        there = store.updates()
        if not there:
            raise ConfigError(
                f"{self.folder} holds no checkpoint yet; checkpoint={WARM_START} takes the model the run began with"
            )
        if which.isascii() and which.isdigit():
            return _read(store, int(which), there)
        if which not in (LAST, BEST):
            near = did_you_mean(which, (LAST, BEST, WARM_START))
            names = f"{LAST}, {BEST}, {WARM_START} or the number of an update"
            raise ConfigError(f"checkpoint={which} is none of {names}{near}; {_those(there)}")
        last = store.latest(report)
        if last is None:
            raise ConfigError(f"no checkpoint in {store.folder} can be read")
        return last if which == LAST else _read(store, _best(last), there)

    def _warm_start(self, cache: str | None) -> Path:
        facts = self.manifest.get("warm_start", {})
        if "path" in facts:  # a pretrained model that was taken as it is
            return Path(facts["path"])
        if "hash" not in facts:
            raise ConfigError(f"{self.folder / 'manifest.json'} does not say from which warm start the run began")
        folder = cache_root(cache) / str(facts["hash"])
        if not folder.is_dir():
            gone = f"the run's warm start {facts['hash']} is no longer in {folder.parent}"
            raise ConfigError(f"{gone}; warm_start.cache= names another folder")
        return folder


def open_run(folder: Path) -> PastRun:
    """The run in a folder; raises ConfigError where there is none, with the nearest name or those of the runs in it."""
    if not folder.is_dir():
        beside = [path.name for path in folder.parent.glob("*/") if (path / "config.json").is_file()]
        near = did_you_mean(folder.name, beside)
        raise ConfigError(f"run={folder}: there is no such folder{near}")
    path = folder / "config.json"
    if not path.is_file():
        inside = sorted(p.parent.name for p in folder.glob("*/config.json"))
        hint = f"; it holds {', '.join(inside[:3])}{', …' if inside[3:] else ''}: name one of them" if inside else ""
        raise ConfigError(f"run={folder} is no run folder, for it has no config.json{hint}")
    try:
        config = strict_json.parse(path.read_bytes())
    except (OSError, ValueError):
        raise ConfigError(
            f"{path} is damaged: put back a copy of it; model.path= evaluates a checkpoint without it"
        ) from None
    if problem := _problem(config):
        raise ConfigError(
            f"{path} is not the configuration of a run, for {problem}; a folder with a model goes into model.path="
        )
    manifest = folder / "manifest.json"
    return PastRun(folder, config, read_manifest(manifest) if manifest.exists() else {})


def _problem(config: Any) -> str | None:
    """What keeps plain data from being the resolved configuration of a run; None where nothing does."""
    if not isinstance(config, dict):
        return "it holds no keys"
    for key in (*COMPONENTS, *SECTIONS):
        if not isinstance(config.get(key), dict):
            return f"it lacks the section {key!r}" if key not in config else f"{key!r} is no section of keys"
    for key in COMPONENTS:
        if not isinstance(config[key].get("name"), str):
            return f"{key!r} has no name"
    return None


def _best(last: Checkpoint) -> int:
    """The update with the highest held-out success so far."""
    best = Progress(**last.state["progress"]).best
    if best is None:
        raise ConfigError(
            f"checkpoint={BEST}: the run was not evaluated after an update yet; checkpoint={LAST} takes the newest"
        )
    return best


def _read(store: CheckpointStore, update: int, there: list[int]) -> Checkpoint:
    """The checkpoint of one update and no other, for that is what was asked for."""
    if update not in there:
        raise ConfigError(f"{store.folder} has no checkpoint of update {update}; {_those(there)}")
    try:
        return store.read(update)
    except ValueError as error:
        raise ConfigError(f"{error}; {_those(there)}") from None


def _those(there: list[int]) -> str:
    return f"there are checkpoints of update {', '.join(map(str, there))}"
