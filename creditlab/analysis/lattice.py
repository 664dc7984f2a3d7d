"""Rates that were printed rounded, restored to the counts they were computed from."""

from __future__ import annotations

import math
from fractions import Fraction


def lattice_count(percent: float | str, total: int, digits: int = 2) -> int:
    """The count k of `total` whose rate 100·k/total prints as `percent` with `digits` decimals; ties may round either way.

    `total` is episodes per evaluation times evaluations in the mean, such as 128 · 5 = 640. Raises ValueError when no count
    prints so, or more than one does.
    """
    if total < 1:
        raise ValueError(f"{total} episodes; a lattice needs at least one")
    try:
        printed = Fraction(str(percent))
    except (ValueError, ZeroDivisionError):
        raise ValueError(f"{percent!r} is no rate in percent") from None
    half = Fraction(1, 2 * 10**digits)
    lowest = max(0, math.ceil((printed - half) * total / 100))
    highest = min(total, math.floor((printed + half) * total / 100))
    if lowest > highest:
        raise ValueError(f"{percent} % is no k/{total} rounded to {digits} decimals; check the number of episodes")
    if lowest < highest:
        raise ValueError(
            f"{percent} % is ambiguous: {lowest}/{total} to {highest}/{total} all print so; more decimals are needed"
        )
    return lowest


def restored(percent: float | str, total: int, digits: int = 2) -> float:
    """The rate in percent before it was rounded; raises ValueError as `lattice_count` does."""
    return 100 * lattice_count(percent, total, digits) / total
