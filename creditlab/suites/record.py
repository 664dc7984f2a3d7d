"""The record of a run: all that a comparison needs of it in one small file, which can be kept under version control."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from creditlab import strict_json
from creditlab.options import ConfigError
from creditlab.suites.plan import PlannedRun
from creditlab.suites.standing import evaluated
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import STEP, read
from creditlab.training.manifest import read_manifest, write_json

FORMAT = 2
SEAL = "sha256"
_KEYS = {"format", "run", "configuration_hash", "seed", "config", "manifest", "evaluations", "credit", SEAL}
_DIGITS = 6
"""Significant digits of the credit diagnostics."""
_OF_THE_MACHINE = ("run_root", "resume", "overwrite", "tracking", "warm_start.cache", "env.cache")
"""Settings that say where a run lay and how it was watched, not what it computed."""


def record_path(folder: Path, run: PlannedRun) -> Path:
    """The file of a run's record, named like its run folder."""
    return folder / f"{run.folder.name}.json"


def make_record(run: PlannedRun) -> dict[str, Any]:
    """The record of a finished run, from its folder: the whole run, which may be longer than the plan.

    Raises ConfigError where the folder's files are damaged, or where they are those of another configuration.
    """
    path = run.folder / "config.json"
    try:
        records = read(run.folder / "metrics.jsonl")
        config = strict_json.parse(path.read_bytes())
    except (OSError, ValueError) as error:
        raise ConfigError(f"{run.label}: {error}; remove {run.folder} to have the run made again") from None
    manifest = read_manifest(run.folder / "manifest.json")
    made = manifest.get("configuration_hash")
    if made != run.hash:
        raise ConfigError(f"{run.label}: {run.folder} holds configuration {made}, not {run.hash}")
    missing = run.schedule - evaluated(records)
    if missing:
        raise ConfigError(f"{run.label}: {run.folder} lacks the evaluation after update {min(missing)}")
    return sealed(
        {
            "format": FORMAT,
            "run": run.folder.name,
            "configuration_hash": run.hash,
            "seed": run.seed,
            "config": _portable(config),
            "manifest": manifest,
            "evaluations": _evaluations(records),
            "credit": _columns([record for record in records if record[STEP] > 0]),
        }
    )


def record_of(folder: Path, run: PlannedRun) -> dict[str, Any]:
    """The record of a run from its folder or, where that is damaged, the one that is kept; raises ConfigError for neither."""
    try:
        return make_record(run)
    except ConfigError:
        kept = read_record(folder, run)
        if kept is None:
            raise
        return kept


def write_record(folder: Path, run: PlannedRun, record: dict[str, Any]) -> None:
    """Keeps a record, whole or not at all, unless the one that is there reaches further.

    Raises ConfigError where that one was changed or is another run's, and WriteError.
    """
    there = _load(folder, run)
    if there and (there == record or _reach(there) > _reach(record)):
        return
    write_json(record_path(folder, run), record, "call the suite again")


def read_record(folder: Path, run: PlannedRun) -> dict[str, Any] | None:
    """The record of a planned run; None where there is none, or one that ends before the plan does.

    Raises ConfigError for a record that is damaged, was changed by hand, or belongs to another run or version.
    """
    record = _load(folder, run)
    return record if record and run.schedule <= {int(point[STEP]) for point in record["evaluations"]} else None


def _load(folder: Path, run: PlannedRun) -> dict[str, Any] | None:
    path = record_path(folder, run)
    try:
        record = strict_json.parse(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path} is no record of a run: {error}; remove it or put back a copy") from None
    if not isinstance(record, dict) or set(record) != _KEYS or record["format"] != FORMAT or not _whole(record):
        raise ConfigError(f"{path} is no record of a run in format {FORMAT}; remove it or put back a copy")
    if record[SEAL] != _digest(record):
        raise ConfigError(f"{path} is not as it was written; put back a copy, or remove it to have the run made again")
    if (record["configuration_hash"], record["seed"]) != (run.hash, run.seed):
        raise ConfigError(f"{path} is the record of another run; remove it")
    return record


def _whole(record: Mapping[str, Any]) -> bool:
    """Whether a record holds what is read of it: its hash says that it is as it was written, not who wrote it."""
    sections = [record[key] for key in ("config", "manifest", "credit")]
    if not all(isinstance(section, dict) for section in sections):
        return False
    made, columns, points = record["manifest"], record["credit"].values(), record["evaluations"]
    if not all(isinstance(made.get(key), dict) for key in ("panel", "environment", "warm_start")):
        return False
    if not isinstance(made.get("sittings", []), list):
        return False
    if not all(isinstance(column, list) for column in columns) or not isinstance(points, list) or not points:
        return False
    if not all(isinstance(point, dict) and isinstance(point.get("metrics"), dict) for point in points):
        return False
    steps = [point.get(STEP) for point in points]
    rising = all(type(step) is int for step in steps) and steps == sorted(set(steps))
    return rising and all(m.VAL_SUCCESS in point["metrics"] for point in points)


def _reach(record: Mapping[str, Any]) -> int:
    """The last update after which the run was evaluated."""
    return int(record["evaluations"][-1][STEP])


def manifest_hash(record: Mapping[str, Any]) -> str:
    """Hash of the manifest with which a run was made."""
    return hashlib.sha256(json.dumps(record["manifest"], sort_keys=True).encode()).hexdigest()


def sealed(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record with the hash of its content."""
    plain: dict[str, Any] = json.loads(json.dumps(record, allow_nan=False))
    return {**plain, SEAL: _digest(plain)}


def _digest(record: Mapping[str, Any]) -> str:
    content = {key: value for key, value in record.items() if key != SEAL}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _portable(config: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without the settings of the machine."""
    kept = {key: dict(value) if isinstance(value, Mapping) else value for key, value in config.items()}
    for name in _OF_THE_MACHINE:
        section, _, key = name.partition(".")
        if not key:
            kept.pop(section, None)
        elif isinstance(kept.get(section), dict):
            kept[section].pop(key, None)
    return kept


def _evaluations(records: Sequence[Mapping[str, float]]) -> list[dict[str, Any]]:
    """Every evaluation with what was spent before it, also those that ended an earlier, shorter plan."""
    found, seconds, transitions = [], 0.0, 0.0
    for record in records:
        seconds += record.get(m.TIME_STEP, 0.0)
        transitions = record.get(m.TRANSITIONS, transitions)
        if m.VAL_SUCCESS in record:
            values = {name: _finite(value) for name, value in record.items() if name.startswith("val/")}
            found.append(
                {STEP: int(record[STEP]), "transitions": int(transitions), "seconds": round(seconds, 3), "metrics": values}
            )
    return found


def _columns(records: Sequence[Mapping[str, float]]) -> dict[str, list[float | None]]:
    """The credit diagnostics, one value per update; null where an update has none."""
    names = sorted({name for record in records for name in record if name.startswith(m.CREDIT_PREFIX)})
    return {
        name.removeprefix(m.CREDIT_PREFIX): [_rounded(record.get(name, math.nan)) for record in records] for name in names
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _rounded(value: float) -> float | None:
    return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
