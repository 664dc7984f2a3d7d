"""ProGPO: peers with the same full history where there are any, fused potentials everywhere (after arXiv 2607.04242).

Only the paper's abstract is public: every coefficient and form here is our own choice, listed on the method's page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from creditlab.credit.compare import compare
from creditlab.credit.episode import StepOptions
from creditlab.credit.ladders import prefix_ids
from creditlab.credit.normalise import normalise
from creditlab.credit.returns import discounted_return
from creditlab.credit.segments import Bools, Floats, joint
from creditlab.credit.values import fused_potential
from creditlab.hookspecs import Credit, FuseWeighting, Level, MatchRule, PeerFold, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class ProGPO(StepOptions):
    """A = A_E + w₁·N(Q_t | full history) + w₂·N(γΦ_{t+1} + r_t − Φ_t | task), Φ fused over the depths of the ladder."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "progpo"
    axes: ClassVar[dict[str, str]] = {
        "match": "history", "fold": "other_trajectories", "weighting": "inverse_variance"
    }  # fmt: skip
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"fold": ("peers",), "weighting": ("fuse",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of returns and potentials, per decision."""
    prefix_weight: float = 1.0
    """Weight w₁ of the comparison with decisions after the same full history."""
    potential_weight: float = 1.0
    """Weight w₂ of the change of the potential."""
    episode_weight: float = 1.0
    """Weight of the episode term A_E."""
    match: MatchRule = part()
    fold: PeerFold = part()
    weighting: FuseWeighting = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        full = Level("prefix", joint(rows.state_group, prefix_ids(rows)))
        prefix = compare(rows, (full,), self.step_return(rows, self.gamma), mode=self.normalise)
        change, supported = self._change(rows)
        credit = normalise(change, rows.group, rows.groups, where=supported & rows.trainable, mode=self.normalise)
        advantages = self.prefix_weight * prefix.advantage + self.potential_weight * credit
        advantages = advantages + self.episode_weight * self.episode_term(rows)
        share = {"supported_share": float(np.mean(supported[rows.trainable]))} if rows.trainable.any() else {}
        return self.credit(rows, advantages, prefix.size, **share)

    def _change(self, rows: Rows) -> tuple[Floats, Bools]:
        """γΦ_{t+1} + r_t − Φ_t of each decision [N], and whether peers support it; nothing is to come after the last."""
        x = discounted_return(rows, self.gamma)
        potential, known = fused_potential(rows, self.match.levels(rows), x, self.fold.peers(rows), self.weighting)
        after = np.where(rows.last, 0.0, potential[rows.state + 1])
        supported = known[rows.state] & (rows.last | known[rows.state + 1])
        return self.gamma * after + rows.reward - potential[rows.state], supported


@hookimpl
def creditlab_components() -> list[type]:
    """The method `progpo`."""
    return [ProGPO]
