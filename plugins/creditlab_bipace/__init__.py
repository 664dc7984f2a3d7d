"""BiPACE: decisions in one cluster of hidden states, conditioned on the action (arXiv 2606.25556)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.compare import compare_by
from creditlab.credit.episode import StepOptions
from creditlab.credit.normalise import Mode, moments
from creditlab.credit.segments import Floats, Ints, joint
from creditlab.hookspecs import Credit, MatchRule, Rows, Scope, hookimpl, part
from creditlab_bipace.clusters import HiddenState


@dataclass(frozen=True)
class BiPACE(StepOptions):
    """A = A^E + w·(Q̂(s, a) − V̂(s)): mean return of the cluster's decisions with the same action, less the cluster's."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "bipace"
    axes: ClassVar[dict[str, str]] = {"match": "hidden_state"}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    normalise: Mode = "mean_std"
    """Divide the episode term by the deviation or only centre it; the step term is only centred, whatever stands here."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of the return-to-go, per decision."""
    step_weight: float = 1.0
    """Weight w of the step term; the paper's value is not public."""
    episode_weight: float = 1.0
    """Weight of the episode term A^E."""
    baseline: Literal["cluster", "other_actions"] = "cluster"
    """V̂: the mean over the whole cluster, or over its decisions with another action (the paper's variant)."""
    match: MatchRule = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update; raises ValueError when the match rule's feature was not recorded."""
        x = self.step_return(rows, self.gamma)
        step = compare_by(rows, self.match.levels(rows), lambda key, number: self._difference(rows, x, key, number))
        advantages = self.episode_weight * self.episode_term(rows) + self.step_weight * step.advantage
        return self.credit(rows, advantages, step.size)

    def _difference(self, rows: Rows, x: Floats, key: Ints, number: int) -> Floats:
        """Q̂ − V̂ of each decision [N] under its key, or its return less the mean of its cluster's other actions."""
        trained = rows.trainable
        with_action = joint(key, rows.action)
        pairs = int(with_action.max(initial=-1)) + 1
        cluster, same = moments(x[trained], key[trained], number), moments(x[trained], with_action[trained], pairs)
        if self.baseline == "cluster":
            return np.where(cluster.constant[key], 0.0, same.mean[with_action] - cluster.mean[key])
        others = cluster.count[key] - same.count[with_action]
        total = cluster.mean[key] * cluster.count[key] - same.mean[with_action] * same.count[with_action]
        baseline = total / np.maximum(others, 1)
        return np.where((others == 0) | cluster.constant[key], 0.0, x - baseline)


@hookimpl
def creditlab_components() -> list[type]:
    """The method `bipace` and its match rule `hidden_state`."""
    return [BiPACE, HiddenState]
