"""What a method reports about its credit, beside the credit itself."""

from __future__ import annotations

from typing import Final

import numpy as np

from creditlab.credit.segments import Bools, Floats, Ints, count
from creditlab.rollouts import Rows

_SIZES: Final = {"1": 0, "2": 2, "3_4": 3, "5_8": 5, "9_16": 9, "17_up": 17}
"""Classes of sizes of comparison groups by name, each with the smallest size in it; one that met no other has size 1 or 0."""


def credit_diagnostics(rows: Rows, advantages: Floats, sizes: Ints) -> dict[str, float]:
    """Shares over trained decisions and task groups, from advantages [N] and sizes of their comparison groups [N].

    A task group is informative when the returns of its trajectories differ. Trained decisions are counted in all and by the
    size of their comparison group, under `group_sizes/`, so that updates can be pooled.
    """
    trained = rows.trainable
    if not trained.any():
        return {}
    informative, of_size = informative_groups(rows), count(sizes, max(_SIZES.values()) + 1, trained)
    decisions = int(of_size.sum())
    in_class = np.add.reduceat(of_size, list(_SIZES.values())).tolist()
    return {
        "singleton_rate": in_class[0] / decisions,
        "group_size": int(of_size @ np.arange(len(of_size))) / decisions,
        "zero_fraction": int(np.count_nonzero((advantages == 0) & trained)) / decisions,
        "informative_groups": float(np.mean(informative)),
        "zero_variance_groups": int(np.count_nonzero(~informative)),
        "trained_decisions": decisions,
        **{f"group_sizes/{name}": number for name, number in zip(_SIZES, in_class, strict=True)},
    }


def task_group_sizes(rows: Rows) -> Ints:
    """Number of trajectories with trained decisions in the task group of each decision [N]."""
    return count(rows.trajectory_group, rows.groups, rows.trained_decisions > 0)[rows.group]


def informative_groups(rows: Rows) -> Bools:
    """Whether the returns of the trajectories with trained decisions differ, per task group [P]."""
    present = np.flatnonzero(rows.trained_decisions)
    returns, group = rows.episode_return[present], rows.trajectory_group[present]
    low, high = np.full(rows.groups, np.inf), np.full(rows.groups, -np.inf)
    np.minimum.at(low, group, returns)
    np.maximum.at(high, group, returns)
    return np.asarray(high > low)
