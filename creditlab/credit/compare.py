"""Comparison of a value of decisions with those of the decisions they match."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from creditlab.credit.normalise import Mode, normalise
from creditlab.credit.segments import Bools, Floats, Ints, count, several
from creditlab.credit.types import Level
from creditlab.rollouts import Rows


@dataclass(frozen=True)
class Comparison:
    """A step advantage [N] and the number of decisions each was compared with, itself included [N]."""

    advantage: Floats
    size: Ints


Within = Callable[[Ints, int], Floats]
"""A value of every decision [N] among those with its key, from dense keys [N] and their number."""


def compare(rows: Rows, levels: Sequence[Level], x: Floats, *, mode: Mode = "mean_std", ddof: int = 1) -> Comparison:
    """N(x | matching decisions) for x [N]: singletons and constant groups get 0, repeat visits count."""
    return compare_by(rows, levels, lambda key, number: normalise(x, key, number, where=rows.trainable, mode=mode, ddof=ddof))


def compare_by(rows: Rows, levels: Sequence[Level], within: Within) -> Comparison:
    """The value of each decision among those that match it.

    A decision takes the most specific level at which two or more trajectories meet, else the last one; its peers are
    all decisions under its key at that level.
    """
    advantage, size = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    for ids, number, here in chosen_levels(rows, levels):
        advantage[here] = within(ids, number)[here]
        size[here] = count(ids, number, rows.trainable)[ids[here]]
    return Comparison(advantage, size)


def chosen_levels(rows: Rows, levels: Sequence[Level]) -> Iterator[tuple[Ints, int, Bools]]:
    """Key of every decision [N] at each level, number of keys, and the trained decisions that take this level [N].

    That is the most specific level at which two or more trajectories meet, else the last one.
    """
    trained = rows.trainable
    waiting = trained.copy()
    for level in levels:
        ids = level.ids[rows.state]
        number = int(ids.max(initial=-1)) + 1
        meet = several(ids[trained], rows.trajectory[trained], number)
        here = waiting & (meet[ids] if level is not levels[-1] else True)
        yield ids, number, here
        waiting &= ~here
