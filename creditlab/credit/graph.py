"""The transition graph of a task group and shortest distances to its goal (GraphGPO, arXiv 2605.26684)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditlab.credit.returns import powers
from creditlab.credit.segments import Bools, Floats, Ints
from creditlab.rollouts import GOAL, Rows

Exponent = Literal["code", "paper", "delta"]
"""Power of ω of an edge s → s′: d(s′), d(s′) + 1 (Eq. 4), or d(s′) − d(s) + 1."""

GOAL_RETURN = 10.0
"""Value of the goal itself, the reward of a success."""


@dataclass(frozen=True)
class TransitionGraph:
    """Graphs of all task groups at once: groups share no node, so one search serves them all."""

    source: Ints
    """Node before each decision [N]."""
    target: Ints
    """Node after it [N], `GOAL` where the decision solved the task."""
    distance: Ints
    """Fewest decisions from each node to the goal [nodes]; farthest finite distance of the group + 1 if there is no way."""
    solved: Bools
    """Whether the goal was reached at all, per task group [P]."""

    @property
    def source_distance(self) -> Ints:
        """Distance before each decision [N]."""
        return self.distance[self.source]

    @property
    def target_distance(self) -> Ints:
        """Distance after each decision [N], 0 at the goal."""
        return np.where(self.target == GOAL, 0, self.distance[self.target])


def transition_graph(rows: Rows, nodes: Ints) -> TransitionGraph:
    """The graph over node ids of states [S], never shared between groups; every decision is an edge of cost 1.

    So is one that is not trained on: the graph holds facts about the environment. The last decision of a trajectory leads to
    the goal iff the environment's own return is positive. In a group that never reached it, every node has distance 1.
    """
    source = nodes[rows.state]
    target = np.where(rows.last & (rows.outcome[rows.trajectory] > 0), GOAL, nodes[rows.state + 1])
    size = int(nodes.max(initial=-1)) + 1
    distance = _distances(source, target, size)
    group = np.zeros(size, np.int64)
    group[nodes] = rows.state_group
    farthest = np.zeros(rows.groups, np.int64)
    np.maximum.at(farthest, group, distance)
    distance = np.where(distance < 0, farthest[group] + 1, distance)
    return TransitionGraph(source, target, distance, np.bincount(rows.group[target == GOAL], minlength=rows.groups) > 0)


def edge_return(graph: TransitionGraph, omega: float, exponent: Exponent = "code") -> Floats:
    """Return 10·ω^k of every decision [N], with the power k of the given form."""
    power = graph.target_distance
    if exponent == "paper":
        power = power + 1
    elif exponent == "delta":
        power = power - graph.source_distance + 1
    return GOAL_RETURN * powers(omega, power)


def _distances(source: Ints, target: Ints, size: int) -> Ints:
    """Breadth-first search backwards from the goal, all groups in step; −1 where there is no way."""
    distance = np.full(size, -1, np.int64)
    reached, depth = source[target == GOAL], 0
    inner = target != GOAL
    source, target = source[inner], target[inner]
    while reached.size:
        depth += 1
        distance[reached] = depth
        waiting = distance[source] < 0
        source, target = source[waiting], target[waiting]
        reached = source[distance[target] == depth]
    return distance
