"""What a method reports about its credit, beside the credit itself."""

from __future__ import annotations

from typing import Final

import numpy as np

from creditlab.credit.segments import Bools, Floats, Ints, count
from creditlab.rollouts import Rows

_SIZES: Final = {"1": 1, "2": 2, "3_4": 4, "5_8": 8, "9_16": 16}
"""Classes of sizes of comparison groups by name, each with the largest size in it."""
_LARGER: Final = "17_up"


def credit_diagnostics(rows: Rows, advantages: Floats, sizes: Ints) -> dict[str, float]:
    """Shares over trained decisions and task groups, from advantages [N] and sizes of their comparison groups [N].

    A task group is informative when the returns of its trajectories differ. Trained decisions are counted in all and by the
    size of their comparison group, under `group_sizes/`, so that updates can be pooled.
    """
    trained = rows.trainable
    if not trained.any():
        return {}
    informative, compared = informative_groups(rows), sizes[trained]
    return {
        "singleton_rate": float(np.count_nonzero(compared <= 1) / len(compared)),
        "group_size": float(np.mean(compared)),
        "zero_fraction": float(np.count_nonzero((advantages == 0) & trained) / len(compared)),
        "informative_groups": float(np.mean(informative)),
        "zero_variance_groups": int(np.sum(~informative)),
        "trained_decisions": len(compared),
        **_by_size(compared),
    }


def _by_size(sizes: Ints) -> dict[str, int]:
    """Number of entries in every class of sizes; one that met no other has size 1 or 0."""
    found = np.bincount(np.searchsorted(list(_SIZES.values()), sizes), minlength=len(_SIZES) + 1)
    return {f"group_sizes/{name}": int(number) for name, number in zip((*_SIZES, _LARGER), found, strict=True)}


def task_group_sizes(rows: Rows) -> Ints:
    """Number of trajectories with trained decisions in the task group of each decision [N]."""
    present = count(rows.trajectory, len(rows.length), rows.trainable) > 0
    return count(rows.trajectory_group, rows.groups, present)[rows.group]


def informative_groups(rows: Rows) -> Bools:
    """Whether the returns of the trajectories with trained decisions differ, per task group [P]."""
    present = np.flatnonzero(count(rows.trajectory, len(rows.length), rows.trainable))
    returns, group = rows.episode_return[present], rows.trajectory_group[present]
    low, high = np.full(rows.groups, np.inf), np.full(rows.groups, -np.inf)
    np.minimum.at(low, group, returns)
    np.maximum.at(high, group, returns)
    return np.asarray(high > low)
