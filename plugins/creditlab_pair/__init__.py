"""The pair loss of MCGPO as an auxiliary loss that any method may add: matched decisions, ordered by other outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from creditlab.credit.preferences import Labels, build_preferences, pair_diagnostics
from creditlab.hookspecs import Fold, MatchRule, PairWeighting, Rows, Scope, hookimpl, part
from creditlab_pair.loss import PairLoss

__all__ = ["Pair", "PairLoss"]


@dataclass(frozen=True)
class Pair:
    """Preferences between decisions of sibling trajectories in matched contexts, as a logistic loss."""

    axis: ClassVar[str] = "aux"
    name: ClassVar[str] = "pair"
    axes: ClassVar[dict[str, str]] = {"match": "state_rubric", "fold": "opposite", "weighting": "evidence"}
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"fold": ("splits",), "weighting": ("pair",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.10
    """Smallest contrast |Δu| that orders a pair; ties never do."""
    min_support: Annotated[int, Field(ge=1)] = 1
    """Evidence records m that each of the two actions needs."""
    quota: Annotated[int, Field(ge=0)] = 2
    """Preferences per task group and candidate fold."""
    labels: Labels = "outcome"
    """What orders a pair: mean outcome of the evidence, or the candidates' own gain in goal progress (a control)."""
    weight: Annotated[float, Field(ge=0)] = 1.0
    """Coefficient λ of the loss beside the policy loss; the paper gives none, 1 is our choice."""
    match: MatchRule = part()
    fold: Fold = part()
    weighting: PairWeighting = part()

    def __call__(self, rows: Rows) -> tuple[PairLoss, Mapping[str, float]]:
        """The loss of one update and its diagnostics."""
        preferences, traces = build_preferences(
            rows,
            self.match.levels(rows),
            self.fold.splits(rows),
            self.weighting,
            epsilon=self.epsilon,
            min_support=self.min_support,
            quota=self.quota,
            labels=self.labels,
        )
        return PairLoss(preferences, self.weight), pair_diagnostics(rows, preferences, traces)


@hookimpl
def creditlab_components() -> list[type]:
    """The auxiliary loss `pair`."""
    return [Pair]
