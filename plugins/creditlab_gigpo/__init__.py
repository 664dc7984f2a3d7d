"""GiGPO: decisions from one state are compared by their discounted returns (arXiv 2505.10978)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from creditlab.credit.compare import compare
from creditlab.credit.episode import StepOptions
from creditlab.hookspecs import Credit, MatchRule, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class GiGPO(StepOptions):
    """A = A^E + w·A^S: the episode term, and N(Q_t − ρ·inv_t | anchor state) with the return-to-go Q_t."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "gigpo"
    axes: ClassVar[dict[str, str]] = {"match": "observation"}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of the return-to-go, per decision."""
    step_weight: float = 1.0
    """Weight w of the step term A^S."""
    episode_weight: float = 1.0
    """Weight of the episode term A^E."""
    match: MatchRule = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        step = compare(rows, self.match.levels(rows), self.step_return(rows, self.gamma), mode=self.normalise)
        advantages = self.episode_weight * self.episode_term(rows) + self.step_weight * step.advantage
        return self.credit(rows, advantages, step.size)


@hookimpl
def creditlab_components() -> list[type]:
    """The method `gigpo`."""
    return [GiGPO]
