"""Comparison of a value of decisions with those of the decisions they match."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from creditlab.credit.normalise import Mode, normalise
from creditlab.credit.segments import Floats, Ints, count, distinct
from creditlab.credit.types import Level
from creditlab.rollouts import Rows


@dataclass(frozen=True)
class Comparison:
    """A step advantage [N] and the number of decisions each was compared with, itself included [N]."""

    advantage: Floats
    size: Ints


def compare(rows: Rows, levels: Sequence[Level], x: Floats, *, mode: Mode = "mean_std", ddof: int = 1) -> Comparison:
    """N(x | matching decisions) for x [N]: singletons and constant groups get 0, repeat visits count.

    A decision takes the most specific level at which two or more trajectories meet, else the last one; its peers are
    all decisions under its key at that level.
    """
    advantage, size = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    waiting = rows.trainable.copy()
    for level in levels:
        ids = level.ids[rows.state]
        number = int(level.ids.max(initial=-1)) + 1
        trained = rows.trainable
        meet = distinct(ids[trained], rows.trajectory[trained], number) > 1
        here = waiting & (meet[ids] if level is not levels[-1] else True)
        value = normalise(x, ids, number, where=trained, mode=mode, ddof=ddof)
        advantage[here] = value[here]
        size[here] = count(ids, number, trained)[ids[here]]
        waiting &= ~here
    return Comparison(advantage, size)
