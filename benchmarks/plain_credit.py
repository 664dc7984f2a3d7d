"""Credit formulas transcribed row by row in plain Python: records in, dictionaries keyed by task and text, a loop per row.

Slow on purpose: the yardstick of `benchmarks/credit.py`, and an independent answer for the tests. Everything here is in the
default convention; the methods that look at contexts stand in `plain_context.py`.
"""

from __future__ import annotations

import difflib
import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from creditlab.rollouts import Group, State, Step, StopReason

EPS = 1e-6
PENALTY = 0.1
"""ρ, what an invalid decision pays."""
GOAL_RETURN = 10.0
GAMMA = 0.95
RESOLUTIONS = {"exact": 1.0, "coarse": 0.7}
"""Levels of MCGPO, the specific one first, with their weights q."""


@dataclass(slots=True)
class Row:
    """One decision as it was recorded, with what its trajectory says about it."""

    index: int
    task: str
    trajectory: str
    slot: int
    siblings: int
    """Trajectories of the group, G."""
    turn: int
    length: int
    """Decisions of the trajectory, T."""
    before: State
    after: State
    step: Step
    total: float
    """Return R of the trajectory."""
    score: float

    @property
    def last(self) -> bool:
        """Whether the trajectory ends with it."""
        return self.turn == self.length - 1

    @property
    def trained(self) -> bool:
        """Whether it has response tokens."""
        return len(self.step.response_ids) > 0

    @property
    def penalty(self) -> float:
        """What it pays for its own format."""
        return 0.0 if self.step.valid or not self.trained else PENALTY


def plain_rows(groups: Iterable[Group]) -> list[Row]:
    """Decisions of an update in the order of `Rows`: siblings by slot, decisions by turn, failed rollouts left out."""
    out: list[Row] = []
    for group in groups:
        for t in sorted(group.trajectories, key=lambda t: t.slot):
            if t.stop is StopReason.ERROR:
                continue
            total, length, siblings = sum(step.reward for step in t.steps), len(t.steps), len(group.trajectories)
            for turn, step in enumerate(sorted(t.steps, key=lambda s: s.turn)):
                before, after = t.states[turn], t.states[turn + 1]
                out.append(Row(len(out), group.id, t.id, t.slot, siblings, turn, length, before, after, step, total, t.score))
    return out


def grpo(rows: Sequence[Row]) -> list[float]:
    """R − ρ·inv against the returns of the group, each trajectory once."""
    advantage = [0.0] * len(rows)
    for members in by(trained(rows), lambda r: r.task).values():
        scores = standardised([r.total - r.penalty for r in members], _returns(members))
        for r, score in zip(members, scores, strict=True):
            advantage[r.index] = score
    return advantage


def rloo(rows: Sequence[Row]) -> list[float]:
    """R − ρ·inv less the mean return of the other trajectories."""
    advantage = [0.0] * len(rows)
    for members in by(trained(rows), lambda r: r.task).values():
        returns = _returns(members)
        if max(returns) > min(returns):
            for r in members:
                advantage[r.index] = r.total - r.penalty - (sum(returns) - r.total) / (len(returns) - 1)
    return advantage


def gigpo(rows: Sequence[Row], anchors: Sequence[str] | None = None) -> list[float]:
    """Episode term + N(Q_t − ρ·inv | anchor), the observation unless other anchors are given."""
    advantage, x = grpo(rows), step_returns(rows)
    anchors = anchors or [observation(r) for r in rows]
    for peers in by(trained(rows), lambda r: (r.task, anchors[r.index])).values():
        add_standardised(advantage, peers, [x[r.index] for r in peers])
    return with_siblings(rows, advantage)


def gigpo_similar(rows: Sequence[Row], threshold: float = 0.95) -> list[float]:
    """GiGPO over the first observation of the task that is alike; every distinct text is looked up once."""
    anchor: dict[tuple[str, str], str] = {}
    founders: dict[str, list[str]] = defaultdict(list)
    for r in rows:
        for state in (r.before, r.after) if r.last else (r.before,):
            text = state.views["observation"]
            if (r.task, text) not in anchor:
                near = (other for other in founders[r.task] if _alike(text, other, threshold))
                anchor[r.task, text] = next(near, text)
                if anchor[r.task, text] == text:
                    founders[r.task].append(text)
    return gigpo(rows, [anchor[r.task, observation(r)] for r in rows])


def _alike(a: str, b: str, threshold: float) -> bool:
    """Whether the ratio of difflib reaches the threshold in one direction at least."""
    return any(difflib.SequenceMatcher(None, *pair, autojunk=False).ratio() >= threshold for pair in ((a, b), (b, a)))


def hgpo(rows: Sequence[Row], past: int = 2) -> list[float]:
    """Σ (k+1)·a_k / (Σ (k+1) + ε) over the levels of k past observations with a_k ≠ 0, population deviation."""
    x = step_returns(rows)
    weighted, weights = [0.0] * len(rows), [0.0] * len(rows)
    history = histories(rows)
    for k in range(past + 1):
        deep = [r for r in rows if r.trained and r.turn >= k]
        for peers in by(deep, lambda r, k=k: (r.task, history[r.index][-k - 1 :])).values():
            values = [x[r.index] for r in peers]
            for r, a in zip(peers, standardised(values, values, ddof=0), strict=True):
                if a != 0:
                    weighted[r.index] += (k + 1) * a
                    weights[r.index] += k + 1
    return with_siblings(rows, [s / (w + EPS) for s, w in zip(weighted, weights, strict=True)])


def graphgpo(rows: Sequence[Row], omega: float = 0.1) -> list[float]:
    """Episode term + N(10·ω^d(s′) − ρ·inv | state)."""
    advantage = grpo(rows)
    for members in by(rows, lambda r: r.task).values():
        distance = _distances(members)
        for peers in by(trained(members), lambda r: r.before.views["graph"]).values():
            x = [GOAL_RETURN * omega ** _next_distance(r, distance) - r.penalty for r in peers]
            add_standardised(advantage, peers, x)
    return with_siblings(rows, advantage)


def g2po(rows: Sequence[Row]) -> list[float]:
    """Episode term + N(y − ρ·inv | observation) + N(y − V | task), V the mean of γ^{T−t}·R over the visits of a node."""
    advantage = grpo(rows)
    visits: dict[tuple[str, str], list[float]] = defaultdict(list)
    for r in trained(rows):
        visits[r.task, observation(r)].append(GAMMA ** (r.length - r.turn) * r.total)
    value = defaultdict(float, {node: sum(returns) / len(returns) for node, returns in visits.items()})
    y = []
    for r in rows:
        if r.last:
            y.append(GOAL_RETURN if r.total > 0 else 0.0)
        else:
            y.append(value[r.task, r.after.views["observation"]])
    for peers in by(trained(rows), lambda r: (r.task, observation(r))).values():
        add_standardised(advantage, peers, [y[r.index] - r.penalty for r in peers])
    for members in by(trained(rows), lambda r: r.task).values():
        add_standardised(advantage, members, [y[r.index] - value[r.task, observation(r)] for r in members])
    return with_siblings(rows, advantage)


def mcgpo(rows: Sequence[Row]) -> list[tuple[int, int, float]]:
    """Preferences (winner, loser, confidence) with opposite folds and evidence weighting."""
    out = []
    for members in by(rows, lambda r: r.task).values():
        lower = [r for r in members if 2 * r.slot < r.siblings]
        upper = [r for r in members if 2 * r.slot >= r.siblings]
        out += _fold_preferences(lower, upper) + _fold_preferences(upper, lower)
    return out


def _fold_preferences(candidates: Sequence[Row], evidence: Sequence[Row]) -> list[tuple[int, int, float]]:
    settled: set[tuple[int, int]] = set()  # pairs supported at a level are looked at no further, whatever came of them
    labelled = []
    for level, q in RESOLUTIONS.items():
        outcomes: dict[Hashable, list[bool]] = defaultdict(list)
        for context, r in _first_visits(evidence, level):
            outcomes[context, r.step.action_key].append(r.score >= 0.999)
        meeting: dict[Hashable, list[Row]] = defaultdict(list)
        for context, r in _first_visits(candidates, level):
            meeting[context].append(r)
        for context, visitors in meeting.items():
            for a, b in itertools.combinations(visitors, 2):
                us = outcomes.get((context, a.step.action_key))
                them = outcomes.get((context, b.step.action_key))
                if a.step.action_key == b.step.action_key or not us or not them or (a.index, b.index) in settled:
                    continue
                settled.add((a.index, b.index))
                delta = Fraction(sum(us), len(us)) - Fraction(sum(them), len(them))
                support = min(len(us), len(them))
                if abs(delta) >= Fraction(1, 10):
                    c = abs(float(delta)) * support / (support + 2) * q
                    labelled.append((a, b, c) if delta > 0 else (b, a, c))
    return _allocate(labelled)


def _first_visits(rows: Sequence[Row], level: str) -> list[tuple[Hashable, Row]]:
    """Context and row of the earliest eligible visit of every trajectory to every context."""
    first: dict[Hashable, tuple[Hashable, Row]] = {}
    for r in rows:
        if r.step.parsed and r.trained:
            rubric = tuple((name, channel.value) for name, channel in sorted(r.before.rubric.items()))
            context = (r.before.views[level], rubric, r.before.frontier)
            first.setdefault((r.trajectory, context), (context, r))
    return list(first.values())


def _allocate(labelled: Iterable[tuple[Row, Row, float]]) -> list[tuple[int, int, float]]:
    def order(pair: tuple[Row, Row, float]) -> tuple[int, ...]:
        low, high = sorted(pair[:2], key=lambda r: r.slot)
        return max(low.turn, high.turn), min(low.turn, high.turn), low.slot, high.slot, low.turn

    seen: set[frozenset[str]] = set()
    used: set[int] = set()
    out: list[tuple[int, int, float]] = []
    for winner, loser, c in sorted(labelled, key=order):
        siblings = frozenset((winner.trajectory, loser.trajectory))
        if siblings in seen:
            continue
        seen.add(siblings)
        if len(out) < 2 and winner.index not in used and loser.index not in used:
            used |= {winner.index, loser.index}
            out.append((winner.index, loser.index, c))
    return out


def _distances(rows: Sequence[Row]) -> dict[str, int]:
    distance: dict[str, int] = {}
    before: dict[str, set[str]] = defaultdict(set)
    frontier = set()
    for r in rows:
        if r.last and r.total > 0:
            frontier.add(r.before.views["graph"])
        else:
            before[r.after.views["graph"]].add(r.before.views["graph"])
    depth = 0
    while frontier:
        depth += 1
        distance.update(dict.fromkeys(frontier, depth))
        frontier = {s for node in frontier for s in before[node] if s not in distance}
    unreachable = max(distance.values(), default=0) + 1
    return defaultdict(lambda: unreachable, distance)


def _next_distance(row: Row, distance: dict[str, int]) -> int:
    return 0 if row.last and row.total > 0 else distance[row.after.views["graph"]]


def observation(row: Row) -> str:
    """The anchor of a decision."""
    return row.before.views["observation"]


def histories(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """The observations of its trajectory up to each decision."""
    out: list[tuple[str, ...]] = []
    for r in rows:
        out.append((*out[-1], observation(r)) if r.turn else (observation(r),))
    return out


def returns_to_go(rows: Sequence[Row]) -> list[float]:
    """Q_t = r_t + γ·Q_{t+1}."""
    q = [0.0] * len(rows)
    for r in reversed(rows):
        q[r.index] = r.step.reward + (0.0 if r.last else GAMMA * q[r.index + 1])
    return q


def step_returns(rows: Sequence[Row]) -> list[float]:
    """Q_t − ρ·inv."""
    return [q - r.penalty for q, r in zip(returns_to_go(rows), rows, strict=True)]


def standardised(values: Sequence[float], samples: Sequence[float], ddof: int = 1) -> list[float]:
    """(x − μ)/(σ + ε), 0 where all samples are equal."""
    if max(samples) == min(samples):
        return [0.0] * len(values)
    mean, deviation = mean_and_deviation(samples, ddof)
    return [(x - mean) / (deviation + EPS) for x in values]


def mean_and_deviation(samples: Sequence[float], ddof: int = 1) -> tuple[float, float]:
    """μ and σ; a single sample has no sample deviation, here 0."""
    mean = sum(samples) / len(samples)
    return mean, math.sqrt(sum((x - mean) ** 2 for x in samples) / max(len(samples) - ddof, 1))


def add_standardised(advantage: list[float], peers: Sequence[Row], x: Sequence[float]) -> None:
    """Adds N(x | peers) to the advantages of the peers."""
    for r, score in zip(peers, standardised(x, x), strict=True):
        advantage[r.index] += score


def with_siblings(rows: Sequence[Row], advantage: list[float]) -> list[float]:
    """The advantages, 0 for a trajectory that is the only one of its task with trained decisions."""
    for members in by(trained(rows), lambda r: r.task).values():
        if len({r.trajectory for r in members}) == 1:
            for r in members:
                advantage[r.index] = 0.0
    return advantage


def trained(rows: Iterable[Row]) -> list[Row]:
    """The decisions that statistics run over."""
    return [r for r in rows if r.trained]


def by(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Any, list[Row]]:
    """The rows under each key."""
    groups: dict[Any, list[Row]] = defaultdict(list)
    for r in rows:
        groups[key(r)].append(r)
    return groups


def _returns(rows: Sequence[Row]) -> list[float]:
    """The return of each trajectory, once."""
    return list({r.trajectory: r.total for r in rows}.values())
