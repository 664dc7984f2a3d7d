"""Returns of single decisions, and powers of their discount."""

from __future__ import annotations

import numpy as np

from creditlab.credit.segments import Floats, Ints
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite


def discounted_return(rows: Rows, gamma: float = 0.95) -> Floats:
    """Return-to-go Q_t = Σ_{k≥t} γ^{k−t} r_k of every decision [N], from the rewards alone (GiGPO, arXiv 2505.10978).

    Raises ValueError naming the decision whose reward is not finite.
    """
    check_finite(rows, rows.reward)
    longest = int(rows.length.max(initial=0))
    value = np.zeros((longest, len(rows.length)))  # a column per trajectory, all of them ending together
    place = (longest - rows.length[rows.trajectory] + rows.turn, rows.trajectory)
    value[place] = rows.reward
    for left in range(longest - 2, -1, -1):
        value[left] += gamma * value[left + 1]
    return np.asarray(value[place], dtype=np.float64)


def powers(base: float, exponent: Ints) -> Floats:
    """base^exponent for whole exponents from 0 [N]: few differ."""
    return np.asarray(np.power(float(base), np.arange(exponent.max(initial=0) + 1))[exponent], dtype=np.float64)
