"""What a visit is worth besides its own return: group means, potentials and coverage."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from creditlab.credit.ladders import first_visit
from creditlab.credit.normalise import moments
from creditlab.credit.peers import peer_mean
from creditlab.credit.returns import powers
from creditlab.credit.segments import Bools, Floats, Ints, count, joint
from creditlab.credit.types import FuseWeighting, Level, Peers
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite


def terminal_discounted(rows: Rows, gamma: float = 0.95) -> Floats:
    """γ^{T−t}·R of every decision [N], the return of its trajectory as seen from one step before it (G²PO, CCPO).

    Raises ValueError naming the decision whose reward is not finite.
    """
    check_finite(rows, rows.reward)
    remaining = rows.length[rows.trajectory] - rows.turn
    return powers(gamma, remaining) * rows.episode_return[rows.trajectory]


def node_value(rows: Rows, nodes: Ints, gamma: float = 0.95) -> Floats:
    """Mean of γ^{T−t}·R over the trained visits of each node, for node ids of states [S] to values [nodes] (G²PO).

    A node without a trained visit has the value 0.
    """
    trained = rows.trainable
    return moments(terminal_discounted(rows, gamma)[trained], nodes[rows.state][trained], int(nodes.max(initial=-1)) + 1).mean


def novel(rows: Rows) -> Bools:
    """Whether each decision [N] led its trajectory to an observation that it had not met before (CovGPO)."""
    return first_visit(rows)[rows.state + 1]


def coverage(rows: Rows) -> Floats:
    """Share P of its decisions by which each trajectory [M] met a new observation; 0 without a decision (CovGPO)."""
    found = count(rows.trajectory, len(rows.length), novel(rows))
    return np.asarray(found / np.maximum(rows.length, 1), dtype=np.float64)


def fused_potential(
    rows: Rows, levels: Sequence[Level], x: Floats, peers: Peers, weighting: FuseWeighting
) -> tuple[Floats, Bools]:
    """Potential Φ of every state [S] and whether any peer supports it: means of x [N] at each level, fused (ProGPO).

    A level's estimate is the mean of x over the admitted decisions under the state's key, with their variance. The last
    state of a trajectory belongs to no decision and has no potential.
    """
    states, trained = len(rows.state_trajectory), rows.trainable
    mean, variance, support = (np.zeros((len(levels), len(rows))) for _ in range(3))
    for index, level in enumerate(levels):
        key = joint(level.ids[rows.state])
        number = np.zeros(len(rows), np.int64)
        centre = moments(x[trained], key[trained], int(key.max(initial=-1)) + 1).mean[key[trained]]
        # Squares are of distances from the key's mean, so that a spread small beside the mean is not lost in rounding.
        distance, square = x[trained] - centre, (x[trained] - centre) ** 2
        under = (key[trained], rows.trajectory[trained], peers)
        mean[index, trained], number[trained] = peer_mean(x[trained], *under)
        spread = np.maximum(peer_mean(square, *under)[0] - peer_mean(distance, *under)[0] ** 2, 0.0)
        # sample variance; one sample has none of its own
        variance[index, trained] = spread * number[trained] / np.maximum(number[trained] - 1, 1)
        support[index] = number
    weight = weighting.fuse(variance, support.astype(np.int64))
    total = weight.sum(axis=0)
    # Over distances from one of the estimates, so that the fusion of equal ones is exactly that value.
    origin = mean[np.argmax(weight > 0, axis=0), np.arange(len(rows))]
    shift = (weight * (mean - origin)).sum(axis=0) / np.where(total > 0, total, 1.0)
    potential, supported = np.zeros(states), np.zeros(states, np.bool_)
    potential[rows.state] = np.where(total > 0, origin + shift, 0.0)
    supported[rows.state] = total > 0
    return potential, supported


def shared_groups(rows: Rows) -> Bools:
    """Whether a task group [P] holds trained decisions of two or more trajectories."""
    return count(rows.trajectory_group, rows.groups, rows.trained_decisions > 0) > 1
