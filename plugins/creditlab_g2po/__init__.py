"""G²PO: values of the nodes of the group's graph, compared per node and per edge (arXiv 2606.22995)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.compare import compare
from creditlab.credit.conventions import Convention, preset
from creditlab.credit.episode import StepOptions
from creditlab.credit.graph import GOAL_RETURN
from creditlab.credit.normalise import normalise
from creditlab.credit.segments import Bools, Floats, Ints, count
from creditlab.credit.values import node_value
from creditlab.hookspecs import Credit, MatchRule, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class G2PO(StepOptions):
    """A = A_EP + w·(A_NC + A_EC): the next node's value y within one node, and the gain δ = y − V within the task."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "g2po"
    axes: ClassVar[dict[str, str]] = {"match": "observation"}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    convention: Convention = "default"
    """Presets `moments`, `penalty`, `singleton` and `goal`."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of the node values, per decision; fixed in the published code."""
    graph_weight: float = 1.0
    """Weight w of the node-centric and the edge-centric term."""
    episode_weight: float = 1.0
    """Weight of the episode term A_EP."""
    goal: Literal["positive", "exact"] | None = None
    """Returns R that end in the goal's value 10: every positive one, or exactly 10 as in the code; unset: as the convention
    says."""
    match: MatchRule = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        levels = self.match.levels(rows)
        here, after = self._values(rows, levels[0].ids)
        node = compare(rows, levels, after - self.step_penalty(rows), mode=self.normalise)
        edge = normalise(after - here, rows.group, rows.groups, where=rows.trainable, mode=self.normalise)
        advantages = self.episode_weight * self.episode_term(rows) + self.graph_weight * (node.advantage + edge)
        undefined = self._undefined(rows)
        advantages = np.where(undefined, 0.0, advantages)
        return self.credit(rows, advantages, node.size, undefined=int(undefined.sum()))

    def _undefined(self, rows: Rows) -> Bools:
        """Decisions [N] alone in their task: the deviation over its one edge does not exist (NaN in the published code)."""
        if self.normalise == "mean" or not self.graph_weight:
            return np.zeros(len(rows), np.bool_)
        return np.asarray(rows.trainable & (count(rows.group, rows.groups, rows.trainable)[rows.group] == 1))

    def _values(self, rows: Rows, nodes: Ints) -> tuple[Floats, Floats]:
        """Value V of the state before each decision and y of what it led to [N]."""
        value = node_value(rows, nodes, self.gamma)
        reached = rows.outcome == GOAL_RETURN
        if preset("goal", self.convention, self.goal) == "positive":
            reached = rows.outcome > 0
        end = np.where(reached[rows.trajectory], GOAL_RETURN, 0.0)
        return value[nodes[rows.state]], np.where(rows.last, end, value[nodes[rows.state + 1]])


@hookimpl
def creditlab_components() -> list[type]:
    """The method `g2po`."""
    return [G2PO]
