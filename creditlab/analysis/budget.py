"""Comparison at equal budgets of environment transitions (MCGPO, Eq. 17)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from creditlab.analysis.curves import LAST_K, Curve, last_k

CLOSE: Final = 0.01
"""Largest relative gap at which two budgets pass for equal."""


@dataclass(frozen=True)
class BudgetMatch:
    """Two runs of one seed at the checkpoints whose budgets match best: the first's and the second's, in this order."""

    seed: int
    updates: tuple[int, int]
    transitions: tuple[int, int]
    values: tuple[float, float]
    """The single evaluations at the two checkpoints."""
    tails: tuple[float, float] | None
    """Means of the last evaluations up to the two checkpoints; None where one has fewer than such a mean needs."""
    gap: float
    """What the budgets still differ by, as a share of the smaller one."""
    lacking: str = ""
    """Why there are no such means."""

    @property
    def close(self) -> bool:
        """Whether the gap is at most 1 %, as in the paper."""
        return self.gap <= CLOSE


def budget_gap(first: float, second: float) -> float:
    """|b₁ − b₂| / min(b₁, b₂), a share (Eq. 17); raises ValueError unless both budgets are positive."""
    if min(first, second) <= 0:
        raise ValueError(f"budgets of {first} and {second} transitions; both must be above 0")
    return abs(first - second) / min(first, second)


def match_budget(first: Curve, second: Curve, k: int = LAST_K) -> BudgetMatch:
    """The checkpoints at which two runs are compared at equal budget.

    The common budget is the smaller of the two totals; the run that has it is taken at its end, the other at the scheduled
    evaluation whose transitions lie nearest, the earlier of two that lie equally near. Raises ValueError without counts of
    transitions.
    """
    counts = [_counts(curve) for curve in (first, second)]
    budget = min(counts[0][-1], counts[1][-1])
    at = [_nearest(spent, budget) for spent in counts]
    curves = (first, second)
    updates = [curve.updates[index] for curve, index in zip(curves, at, strict=True)]
    tails, lacking = None, ""
    try:
        tails = (_tail(first, updates[0], k), _tail(second, updates[1], k))
    except ValueError as error:
        lacking = str(error)
    transitions = (counts[0][at[0]], counts[1][at[1]])
    return BudgetMatch(
        first.seed,
        (updates[0], updates[1]),
        transitions,
        (first.values[at[0]], second.values[at[1]]),
        tails,
        budget_gap(*transitions),
        lacking,
    )


def _counts(curve: Curve) -> tuple[int, ...]:
    if curve.transitions is None:
        raise ValueError(f"{curve.name}: no environment transitions are recorded, so budgets cannot be matched")
    if curve.transitions[-1] == 0:
        raise ValueError(f"{curve.name}: it ends with 0 environment transitions, so budgets cannot be matched")
    return curve.transitions


def _tail(curve: Curve, update: int, k: int) -> float:
    try:
        return last_k(curve.until(update), k)
    except ValueError as error:
        why = str(error).removeprefix(f"{curve.name}: ")
        raise ValueError(f"{curve.method} up to update {update}: {why}") from None


def _nearest(spent: Sequence[int], budget: int) -> int:
    """The index whose count lies nearest to the budget; what was evaluated before any training has none to match."""
    trained = [index for index, count in enumerate(spent) if count > 0]
    return min(trained, key=lambda index: (abs(spent[index] - budget), index))
