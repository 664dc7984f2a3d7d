"""The methods that look at contexts, hidden states and coverage, transcribed row by row: CCPO, CovGPO, ProGPO, BiPACE.

Companion of `plain_credit.py`, in the default convention; numpy stands where a formula is about vectors.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from plain_credit import (
    EPS,
    GAMMA,
    Row,
    add_standardised,
    by,
    grpo,
    histories,
    mean_and_deviation,
    observation,
    returns_to_go,
    step_returns,
    trained,
    with_siblings,
)

Vector = NDArray[np.float64]


def ccpo(rows: Sequence[Row], hidden: str | None = None, horizon: int = 2) -> list[float]:
    """N(H + F | task): residual of the return and change of the potential, over context-weighted peers."""
    y = [GAMMA ** (r.length - 1 - r.turn) * r.total - r.penalty for r in rows]
    z = [GAMMA ** (r.length - r.turn) * r.total for r in rows]
    history: dict[int, float] = {}
    potential: dict[int, float] = {}
    context = _contexts(rows, hidden)
    in_task, in_state = by(trained(rows), lambda r: r.task), by(trained(rows), lambda r: (r.task, observation(r)))
    bandwidths: dict[object, float] = {}
    for r in trained(rows):
        key: object = (r.task, observation(r))
        bucket = in_state[key]
        if len({b.trajectory for b in bucket}) < 2:
            key, bucket = r.task, in_task[r.task]
        peers = [b for b in bucket if b.trajectory != r.trajectory]
        if not peers:
            continue
        if key not in bandwidths:
            bandwidths[key] = _bandwidth([context[b.index] for b in bucket])
        weights = [math.exp(-_distance(context[r.index], context[b.index]) / bandwidths[key]) for b in peers]
        history[r.index] = y[r.index] - sum(w * y[b.index] for w, b in zip(weights, peers, strict=True)) / sum(weights)
        potential[r.index] = sum(w * z[b.index] for w, b in zip(weights, peers, strict=True)) / sum(weights)
    change = {}
    for r in rows:
        end = r.turn + horizon >= r.length
        if r.index in potential and (end or r.index + horizon in potential):
            change[r.index] = (r.total if end else potential[r.index + horizon]) - potential[r.index]
    future, advantage = [0.0] * len(rows), [0.0] * len(rows)
    for members in by((r for r in rows if r.index in change), lambda r: r.task).values():
        add_standardised(future, members, [change[r.index] for r in members])
    for members in by((r for r in rows if r.index in history), lambda r: r.task).values():
        add_standardised(advantage, members, [history[r.index] + future[r.index] for r in members])
    return advantage


def _bandwidth(contexts: Sequence[Vector]) -> float:
    median = statistics.median(_distance(a, b) for a, b in itertools.combinations(contexts, 2))
    return 0.15 * (median if median > 1e-9 else 1.0)


def _distance(a: Vector, b: Vector) -> float:
    return math.sqrt(((a - b) ** 2).sum())


def _contexts(rows: Sequence[Row], hidden: str | None) -> list[Vector]:
    """Unit vector of the hidden state, without what the update shares, and of the statistics of the prefix."""
    summaries = [_unit(s) for s in _summaries(rows)]
    if hidden is None:
        return summaries
    states = np.array([r.step.features[hidden] for r in rows], np.float64)
    sample = np.array([states[r.index] for r in trained(rows)])
    states, sample = states - sample.mean(axis=0), sample - sample.mean(axis=0)
    top = np.linalg.svd(sample, full_matrices=False)[2][:3]
    out = []
    for state, summary in zip(states, summaries, strict=True):
        for direction in top:
            state = state - (state @ direction) * direction
        out.append(_unit(np.concatenate([_unit(state), summary])))
    return out


def _summaries(rows: Sequence[Row]) -> list[Vector]:
    out, met = [], set[str]()
    for r in rows:
        if r.turn == 0:
            met = set()
        revisit = observation(r) in met
        met.add(observation(r))
        bits = _thermometer(r.turn, 30) + _thermometer(len(met), 25) + _thermometer(len(met), r.turn + 1)
        out.append(np.array([*bits, float(revisit)]))
    return out


def _thermometer(value: int, full: int) -> list[float]:
    return [1.0 if bit < 12 * min(value, full) // full else 0.0 for bit in range(12)]


def _unit(vector: Vector) -> Vector:
    length = math.sqrt((vector**2).sum())
    return vector / length if length > 0 else vector


def covgpo(rows: Sequence[Row], scale: float = 0.3) -> list[float]:
    """GRPO; in a group where all failed, λ·q_fail times the standardised share of first visits."""
    advantage = grpo(rows)
    groups = by(trained(rows), lambda r: r.task)
    best = {task: max(r.total for r in members) for task, members in by(rows, lambda r: r.task).items()}
    failed = [members for task, members in groups.items() if best[task] < 1e-3]
    coverage: dict[str, float] = {}
    for trajectory, members in by(rows, lambda r: r.trajectory).items():
        met = {observation(members[0])}
        met.update(r.after.views["observation"] for r in members)
        coverage[trajectory] = (len(met) - 1) / len(members)
    for members in failed:
        shares = [coverage[t] for t in dict.fromkeys(r.trajectory for r in members)]
        mean, spread = mean_and_deviation(shares, ddof=0)
        for r in members:
            z = (coverage[r.trajectory] - mean) / (spread + EPS) if spread >= 1e-4 else 0.0
            advantage[r.index] = scale * len(failed) / len(groups) * z
    return advantage


def progpo(rows: Sequence[Row], past: int = 2, prior: float = 1.0) -> list[float]:
    """Episode term + N(Q_t − ρ·inv | full history) + N(γΦ_{t+1} + r_t − Φ_t | task), Φ fused over depths of history."""
    advantage, x, q = grpo(rows), step_returns(rows), returns_to_go(rows)
    prefixes: list[tuple[str, ...]] = []
    for r in rows:
        before = rows[r.index - 1]
        done = before.step.action_key if before.trained else ""  # an empty response holds no action
        earlier = (*prefixes[-1], done) if r.turn else ()
        prefixes.append((*earlier, observation(r)))
    for peers in by(trained(rows), lambda r: (r.task, prefixes[r.index])).values():
        add_standardised(advantage, peers, [x[r.index] for r in peers])
    potential = _potentials(rows, q, past, prior)
    change = {}
    for r in trained(rows):
        if r.index in potential and (r.last or r.index + 1 in potential):
            after = 0.0 if r.last else potential[r.index + 1]
            change[r.index] = GAMMA * after + r.step.reward - potential[r.index]
    for members in by((r for r in rows if r.index in change), lambda r: r.task).values():
        add_standardised(advantage, members, [change[r.index] for r in members])
    return advantage


def _potentials(rows: Sequence[Row], q: Sequence[float], past: int, prior: float) -> dict[int, float]:
    """Φ of the state before each trained decision: returns of other trajectories at each depth, by inverse variance."""
    history = histories(rows)
    buckets = [
        by((r for r in trained(rows) if r.turn >= k), lambda r, k=k: (r.task, history[r.index][-k - 1 :]))
        for k in range(past + 1)
    ]
    potential = {}
    for r in trained(rows):
        total = weights = 0.0
        for k in range(min(past, r.turn) + 1):
            bucket = buckets[k][r.task, history[r.index][-k - 1 :]]
            returns = [q[b.index] for b in bucket if b.trajectory != r.trajectory]
            if returns:
                mean, deviation = mean_and_deviation(returns)
                weight = len(returns) / (deviation**2 + prior**2)
                total += weight * mean
                weights += weight
        if weights:
            potential[r.index] = total / weights
    return potential


def bipace(rows: Sequence[Row], hidden: str = "actor_hidden_-1", epsilon: float = 0.05) -> list[float]:
    """Episode term + mean return of the cluster's decisions with the same action, less the cluster's mean."""
    advantage, x = grpo(rows), step_returns(rows)
    cluster: dict[int, int] = {}
    for members in by(trained(rows), lambda r: r.task).values():
        cluster.update(_clusters(members, hidden, epsilon))
    for peers in by(trained(rows), lambda r: (r.task, cluster[r.index])).values():
        if max(x[r.index] for r in peers) == min(x[r.index] for r in peers):
            continue
        value = mean_and_deviation([x[r.index] for r in peers])[0]
        by_action: dict[str, list[float]] = defaultdict(list)
        for r in peers:
            by_action[r.step.action_key].append(x[r.index])
        for r in peers:
            advantage[r.index] += mean_and_deviation(by_action[r.step.action_key])[0] - value
    return with_siblings(rows, advantage)


def _clusters(members: Sequence[Row], hidden: str, epsilon: float) -> dict[int, int]:
    """Cluster of each row: the nearest centre within ε in order of rows, centres being means of the members so far."""
    sums: list[Vector] = []
    centres: list[Vector] = []
    cluster = {}
    for r in members:
        vector = _unit(np.asarray(r.step.features[hidden], np.float64))
        distances = [1.0 - float(centre @ vector) for centre in centres]
        nearest = min(range(len(centres)), key=distances.__getitem__, default=-1)
        if nearest < 0 or distances[nearest] > epsilon:
            nearest = len(centres)
            sums.append(np.zeros_like(vector))
            centres.append(vector)
        sums[nearest] = sums[nearest] + vector
        centres[nearest] = _unit(sums[nearest])
        cluster[r.index] = nearest
    return cluster
