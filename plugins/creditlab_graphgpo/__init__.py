"""GraphGPO: decisions from one state are ranked by how near the goal they lead (arXiv 2605.26684)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.compare import compare
from creditlab.credit.conventions import Convention, preset
from creditlab.credit.episode import StepOptions
from creditlab.credit.graph import Exponent, edge_return, transition_graph
from creditlab.hookspecs import Credit, MatchRule, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class GraphGPO(StepOptions):
    """A = β_G · N(10·ω^{distance to the goal} | state) + β_E · episode term, over the transition graph of the task group."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "graphgpo"
    axes: ClassVar[dict[str, str]] = {"match": "graph_state"}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    convention: Convention = "default"
    """Presets `moments`, `penalty`, `singleton` and `exponent`."""
    omega: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Decay ω per step of distance to the goal; the authors use 0.1 on ALFWorld and 0.2 on WebShop."""
    exponent: Exponent | None = None
    """Power of ω of an edge s → s′: `code` d(s′), `paper` d(s′)+1, `delta` d(s′)−d(s)+1; unset: as the convention says."""
    graph_weight: float = 1.0
    """Weight β_G of the graph term."""
    episode_weight: float = 1.0
    """Weight β_E of the episode term."""
    all_failed: Literal["penalty", "zero"] = "penalty"
    """Graph term in a group that never reached the goal: the invalid-action penalty alone, as in the code, or zero."""
    match: MatchRule = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        levels = self.match.levels(rows)
        graph = transition_graph(rows, levels[0].ids)
        value = edge_return(graph, self.omega, preset("exponent", self.convention, self.exponent))
        step = compare(rows, levels, value - self.step_penalty(rows), mode=self.normalise)
        graph_term = step.advantage
        if self.all_failed == "zero":
            graph_term = np.where(graph.solved[rows.group], graph_term, 0.0)
        advantages = self.graph_weight * graph_term + self.episode_weight * self.episode_term(rows)
        return self.credit(rows, advantages, step.size)


@hookimpl
def creditlab_components() -> list[type]:
    """The method `graphgpo`."""
    return [GraphGPO]
