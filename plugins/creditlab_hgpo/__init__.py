"""HGPO: comparisons at every depth of shared history, deeper ones counting more (arXiv 2602.22817)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.episode import StepOptions
from creditlab.credit.normalise import EPS, normalise
from creditlab.credit.segments import Bools, Floats, Ints, count
from creditlab.hookspecs import Credit, LevelWeighting, MatchRule, Rows, Scope, hookimpl, part

BASE_WEIGHT = 1.0
"""Weight of the episode term among the levels, 1^α."""


@dataclass(frozen=True)
class HGPO(StepOptions):
    """A = Σ ŵ_k·a_k over the levels, a_k = N(Q_t − ρ·inv_t | last k observations) with the population deviation."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "hgpo"
    axes: ClassVar[dict[str, str]] = {"match": "history", "weighting": "depth"}
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"weighting": ("level",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of the return-to-go, per decision."""
    skip_zero: bool = True
    """Whether a level whose advantage is exactly 0 is left out of the weights, as in the paper's experiments."""
    denominator: Literal["contributing", "all"] = "contributing"
    """Levels whose weights are divided by: those that contribute, or all that the decision's past is long enough for (the
    paper's formula as printed)."""
    base_group: bool = False
    """Whether the episode term joins as a further level of weight 1."""
    match: MatchRule = part()
    weighting: LevelWeighting = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        value, compared, there = self._levels(rows, self.step_return(rows, self.gamma))
        size = compared
        weight = self.weighting.level(np.arange(len(value), 0, -1))
        if self.base_group:
            value, weight = np.vstack([value, self.episode_term(rows)]), np.append(weight, BASE_WEIGHT)
            size, there = np.vstack([size, np.full(len(rows), 2)]), np.vstack([there, rows.trainable])
        counts: Bools = (size > 1) & ((value != 0) | (not self.skip_zero))
        divisor = weight @ (counts if self.denominator == "contributing" else there)
        advantages = np.asarray(weight @ np.where(counts, value, 0.0) / (divisor + EPS))
        return self.credit(rows, advantages, compared.max(axis=0, initial=0))

    def _levels(self, rows: Rows, x: Floats) -> tuple[Floats, Ints, Bools]:
        """Level advantages a_k, numbers of compared decisions, and whether the decision has a key there at all [L, N]."""
        value, size, there = [], [], []
        for level in self.match.levels(rows):
            ids = level.ids[rows.state]
            number = int(ids.max(initial=-1)) + 1
            value.append(normalise(x, ids, number, where=rows.trainable, mode=self.normalise, ddof=0))
            size.append(np.where(rows.trainable, count(ids, number, rows.trainable)[ids], 0))
            there.append(rows.trainable if level.reached is None else rows.trainable & level.reached[rows.state])
        return np.array(value), np.array(size), np.array(there)


@hookimpl
def creditlab_components() -> list[type]:
    """The method `hgpo`."""
    return [HGPO]
