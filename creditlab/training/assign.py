"""Credit of a batch: shaping, then the method, then the added auxiliary losses, each called at arm's length.

A component of scope `update` uses statistics of the whole update. It stays pure: on several ranks it is given the rows of
all of them, in the order in which one rank would have them, and each rank keeps the credit of its own.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from creditlab.config import Job, credit_parts
from creditlab.credit.types import AuxiliaryLoss, Credit, LossView
from creditlab.hookspecs import PROJECT
from creditlab.learner.distributed import gather_bytes, rank, world_size
from creditlab.learner.sequences import Scored
from creditlab.registry import registry
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.rollouts.table import to_groups, to_table
from creditlab.rollouts.together import dealt
from creditlab.training.failure import TrainingFailedError

T = TypeVar("T")


def assign(job: Job, batch: RolloutBatch) -> tuple[Rows, Credit]:
    """Rows, shaped where asked, and credit; raises TrainingFailedError naming the component that failed and how.

    `batch` is what `scope_of_credit` gave: this rank's groups, or those of all ranks.
    """
    rows = Rows.from_batch(batch)
    if not len(rows):  # a rank without groups, or whose trajectories all failed: a method may count on one decision
        return rows, Credit(np.zeros(0))
    if job.shaping is not None:
        rows = rows.with_rewards(_call(job.shaping, rows, batch.update, lambda reward: _column(reward, rows, "reward")))
    credit: Credit = _call(job.method, rows, batch.update, lambda answer: _checked(answer, rows))
    for auxiliary in job.aux:
        loss, diagnostics = _call(auxiliary, rows, batch.update, lambda answer: answer)
        credit = replace(credit, auxiliary=(*credit.auxiliary, loss), diagnostics={**credit.diagnostics, **diagnostics})
    return rows, credit


def scope_of_credit(job: Job, batch: RolloutBatch) -> RolloutBatch:
    """The groups that credit is computed on: this rank's, or those of all ranks where a component's scope is the update.

    Collective in the second case.
    """
    if world_size() == 1 or all(getattr(part, "scope", "group") == "group" for part in credit_parts(job)):
        return batch
    sink = pa.BufferOutputStream()
    table = to_table(batch)
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    parts = [to_groups(pa.ipc.open_stream(data).read_all()) for data in gather_bytes(sink.getvalue().to_pybytes())]
    return replace(batch, groups=tuple(dealt(parts)))


def own_part(rows: Rows, credit: Credit, batch: RolloutBatch) -> tuple[Rows, Credit]:
    """Rows and credit of this rank's groups, of those of all ranks; numbers about the whole update are left to the first."""
    names = {group.id for group in batch.groups}
    if names == set(rows.group_names):
        return rows, credit
    mine = np.flatnonzero(np.isin(rows.group, [i for i, name in enumerate(rows.group_names) if name in names]))
    own = Rows.from_batch(batch).with_rewards(rows.reward[mine])
    losses = tuple(_OfRank(loss, mine, _renumbered(loss.pairs, mine)) for loss in credit.auxiliary)
    return own, Credit(credit.advantages[mine], losses, credit.diagnostics if rank() == 0 else {})


@dataclass(frozen=True)
class _OfRank:
    """An auxiliary loss over the rows of all ranks, as one rank's micro-batches meet it."""

    loss: AuxiliaryLoss
    mine: NDArray[np.int64]
    """Place of every row of this rank among those of all, ascending."""
    pairs: NDArray[np.int64]

    @property
    def name(self) -> str:
        return self.loss.name

    @property
    def weight(self) -> float:
        return self.loss.weight

    def __call__(self, view: LossView) -> torch.Tensor:
        return self.loss(Scored(self.mine[view.rows], view.logp, view.old_logp, view.mask, view.step_rows))


def _renumbered(pairs: NDArray[np.int64], mine: NDArray[np.int64]) -> NDArray[np.int64]:
    """The pairs whose rows are both this rank's, in its own numbers."""
    return np.searchsorted(mine, pairs[np.isin(pairs, mine).all(axis=1)])


def _call(component: Any, rows: Rows, update: int, check: Callable[[Any], T]) -> T:
    """The checked answer of a component; whatever it raises ends the run under its name."""
    try:
        return check(component(rows))
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        name = f"{getattr(component, 'axis', 'component')}={getattr(component, 'name', type(component).__name__)}"
        raise TrainingFailedError(f"{name} failed in update {update}: {kind}{error}{_place(component, error)}") from error


def _place(component: Any, error: BaseException) -> str:
    """File and line of the innermost frame of plug-in code, the component's or another's; empty without one."""
    classes = [type(component), *(found.cls for found in registry().components.values())]
    packages = {cls.__module__.partition(".")[0] for cls in classes} - {PROJECT}
    frames = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).partition(".")[0] in packages
    ]
    return f" ({frames[-1]})" if frames else ""


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
