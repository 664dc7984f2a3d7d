"""Seeded choices that are the same on every machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

import numpy as np

T = TypeVar("T")


class Dice:
    """Seeded choices, all made from one stream of uniform doubles."""

    def __init__(self, *seed: int) -> None:
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed))).random

    def below(self, n: int) -> int:
        """A whole number in [0, n)."""
        return int(self._random() * n)

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return bool(self._random() < probability)

    def one_of(self, items: Sequence[T]) -> T:
        """An item, all equally likely."""
        return items[self.below(len(items))]

    def weighted(self, items: Sequence[T], weights: Sequence[float]) -> T:
        """An item, with probability proportional to its weight."""
        sums = list(accumulate(weights))
        return items[min(bisect_right(sums, self._random() * sums[-1]), len(items) - 1)]
