"""Credit of a batch: shaping, then the method, then the added auxiliary losses, each called at arm's length."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from creditlab.config import Job
from creditlab.credit.types import Credit
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.training.failure import TrainingFailedError

T = TypeVar("T")


def assign(job: Job, batch: RolloutBatch) -> tuple[Rows, Credit]:
    """Rows, shaped where asked, and credit; raises TrainingFailedError naming the component that failed and how."""
    rows = Rows.from_batch(batch)
    if job.shaping is not None:
        rows = rows.with_rewards(_call(job.shaping, rows, batch.update, lambda reward: _column(reward, rows, "reward")))
    credit: Credit = _call(job.method, rows, batch.update, lambda answer: _checked(answer, rows))
    for auxiliary in job.aux:
        loss, diagnostics = _call(auxiliary, rows, batch.update, lambda answer: answer)
        credit = replace(credit, auxiliary=(*credit.auxiliary, loss), diagnostics={**credit.diagnostics, **diagnostics})
    return rows, credit


def _call(component: Any, rows: Rows, update: int, check: Callable[[Any], T]) -> T:
    """The checked answer of a component; whatever it raises ends the run under its name."""
    try:
        return check(component(rows))
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        name = f"{getattr(component, 'axis', 'component')}={getattr(component, 'name', type(component).__name__)}"
        raise TrainingFailedError(f"{name} failed in update {update}: {kind}{error}") from error


def _checked(answer: Any, rows: Rows) -> Credit:
    if not isinstance(answer, Credit):
        raise TypeError(f"it returned {type(answer).__name__} instead of a Credit")
    return replace(answer, advantages=_column(answer.advantages, rows, "advantage"))


def _column(values: Any, rows: Rows, what: str) -> Any:
    """One real number per decision, finite also in the learner's float32; else ValueError naming the decision."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiu":
        raise ValueError(f"{what}s must be real numbers, got an array of {array.dtype}")
    if array.shape != (len(rows),):
        raise ValueError(f"expected one {what} per decision: {len(rows)} rows, got shape {array.shape}")
    array = array.astype(np.float64)
    bad = np.flatnonzero(~(np.abs(array) <= np.finfo(np.float32).max))
    if bad.size:
        raise ValueError(f"{what} is {array[bad[0]]} at {rows.describe(int(bad[0]))}; it must be finite")
    return array
