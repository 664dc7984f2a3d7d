"""Returns of single decisions."""

from __future__ import annotations

import numpy as np

from creditlab.credit.segments import Floats
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite


def discounted_return(rows: Rows, gamma: float = 0.95) -> Floats:
    """Return-to-go Q_t = Σ_{k≥t} γ^{k−t} r_k of every decision [N], from the rewards alone (GiGPO, arXiv 2505.10978).

    Raises ValueError naming the decision whose reward is not finite.
    """
    check_finite(rows, rows.reward)
    value = rows.reward.copy()
    for turn in range(int(rows.length.max(initial=0)) - 2, -1, -1):
        here = np.flatnonzero((rows.turn == turn) & ~rows.last)
        value[here] += gamma * value[here + 1]  # rows of a trajectory are contiguous, in order of turn
    return value
