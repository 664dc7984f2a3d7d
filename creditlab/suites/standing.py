"""Where a run stands, from what lies in its folder."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from creditlab.options import ConfigError
from creditlab.suites.plan import PlannedRun
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import STEP, read

_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)


@dataclass(frozen=True)
class Standing:
    """How far a run has come."""

    update: int
    """Its last update; 0 after the warm start alone, -1 before."""
    finished: bool
    """Whether every scheduled evaluation up to the last update is there, which is all that a comparison reads."""
    success: float | None
    """The newest held-out success, a share."""
    seconds: float | None
    """Mean wall-clock seconds of an update, evaluations included; None before the first one."""
    measured: int | None = None
    """Update after which that success was measured; None where it is the last one."""

    def remaining(self, updates: int) -> float | None:
        """Expected seconds up to the last update."""
        return None if self.seconds is None else self.seconds * max(0, updates - self.update)


NOTHING = Standing(-1, False, None, None)


def standing(run: PlannedRun) -> Standing:
    """Where a run stands; raises ConfigError where its folder cannot serve it.

    That is so when its metrics are damaged, or when it was trained beyond the last update of the plan without an evaluation
    there. A longer run that was evaluated there counts as finished: up to there it is the same run.
    """
    try:
        records = read(run.folder / "metrics.jsonl")
    except ValueError as error:
        raise ConfigError(f"{run.label}: {error}") from None
    if not records:
        return NOTHING
    last = int(records[-1][STEP])
    missing = run.schedule - evaluated(records)
    if missing and last > run.updates:
        raise ConfigError(
            f"{run.label}: {run.folder} was trained up to update {last} and lacks the evaluation after update "
            f"{max(missing)}; set training.updates to a number at which it was evaluated, or remove the folder"
        )
    newest = next((record for record in reversed(records) if m.VAL_SUCCESS in record), None)
    if newest is None:
        return Standing(last, not missing, None, _seconds(records))
    return Standing(last, not missing, newest[m.VAL_SUCCESS], _seconds(records), int(newest[STEP]))


def evaluated(records: Sequence[Mapping[str, float]]) -> set[int]:
    """Updates after which the run was evaluated."""
    return {int(record[STEP]) for record in records if m.VAL_SUCCESS in record}


def warm(run: PlannedRun) -> bool:
    """Whether the run has its warm start: its manifest is written as soon as that is there."""
    return (run.folder / "manifest.json").exists()


def in_use(folder: Path) -> bool:
    """Whether a process is at work in a run folder, which it then holds a lock on."""
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # no such folder
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that two who look do not see each other
    except OSError as error:
        return error.errno in _TAKEN
    finally:
        os.close(handle)
    return False


def _seconds(records: Sequence[Mapping[str, float]]) -> float | None:
    trained = [record for record in records if record[STEP] > 0]
    spent = sum(record.get(m.TIME_STEP, 0.0) + record.get(m.TIME_EVALUATION, 0.0) for record in trained)
    return spent / len(trained) if trained else None
