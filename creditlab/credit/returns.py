"""Returns of single decisions, and powers of their discount."""

from __future__ import annotations

import numpy as np

from creditlab.credit.segments import Floats, Ints, count
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite


def discounted_return(rows: Rows, gamma: float = 0.95) -> Floats:
    """Return-to-go Q_t = Σ_{k≥t} γ^{k−t} r_k of every decision [N], from the rewards alone (GiGPO, arXiv 2505.10978).

    Raises ValueError naming the decision whose reward is not finite.
    """
    check_finite(rows, rows.reward)
    value = rows.reward.copy()
    first = np.cumsum(rows.length) - rows.length  # rows of a trajectory are contiguous, in order of turn
    longest = first[np.argsort(-rows.length, kind="stable")]
    longer = len(first) - np.cumsum(count(rows.length, 1))  # trajectories of more than 0, 1, … decisions
    for turn in range(len(longer) - 3, -1, -1):
        here = longest[: longer[turn + 1]] + turn
        value[here] += gamma * value[here + 1]
    return value


def powers(base: float, exponent: Ints) -> Floats:
    """base^exponent for whole exponents from 0 [N]: few differ."""
    return np.asarray(np.power(float(base), np.arange(exponent.max(initial=0) + 1))[exponent], dtype=np.float64)
