"""The formulas of GRPO, GraphGPO and MCGPO's preferences transcribed row by row in plain Python.

Slow on purpose: the yardstick of `benchmarks/credit.py`, and an independent answer for the tests.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from creditlab.hookspecs import Rows

EPS = 1e-6


@dataclass(frozen=True)
class Row:
    """One decision as plain values."""

    index: int
    group: int
    trajectory: int
    lower: bool
    """Whether its slot lies in the lower half of its group's."""
    slot: int
    turn: int
    last: bool
    state: Hashable
    next_state: Hashable
    contexts: tuple[Hashable, ...]
    """Keys of the exact and the coarse level, rubric included."""
    action: int
    valid: bool
    eligible: bool
    trainable: bool
    total: float
    """Return of the trajectory."""
    success: bool


def plain_rows(rows: Rows) -> list[Row]:
    """Decisions of an update as plain values."""
    if not len(rows):
        return []
    size = Counter(rows.trajectory_group.tolist())
    graph, exact, coarse = (rows.view(v).tolist() for v in ("graph", "exact", "coarse"))
    rubric, returns, last = rows.rubric.tolist(), rows.episode_return.tolist(), rows.last.tolist()
    out = []
    for i in range(len(rows)):
        m, s = int(rows.trajectory[i]), int(rows.state[i])
        out.append(
            Row(
                index=i,
                group=int(rows.group[i]),
                trajectory=m,
                lower=2 * int(rows.slot[i]) < size[int(rows.group[i])],
                slot=int(rows.slot[i]),
                turn=int(rows.turn[i]),
                last=last[i],
                state=graph[s],
                next_state=graph[s + 1],
                contexts=((exact[s], rubric[s]), (coarse[s], rubric[s])),
                action=int(rows.action[i]),
                valid=bool(rows.valid[i]),
                eligible=bool(rows.parsed[i] and rows.trainable[i]),
                trainable=bool(rows.trainable[i]),
                total=returns[m],
                success=bool(rows.score[m] >= 0.999),
            )
        )
    return out


def grpo(rows: Sequence[Row]) -> list[float]:
    """Default convention: each trajectory once, an invalid row pays 0.1 itself."""
    advantage = [0.0] * len(rows)
    for members in _by(_trained(rows), lambda r: r.group).values():
        samples = list({r.trajectory: r.total for r in members}.values())
        scores = _standardised([r.total - 0.1 * (not r.valid) for r in members], samples)
        for r, score in zip(members, scores, strict=True):
            advantage[r.index] = score
    return advantage


def graphgpo(rows: Sequence[Row], omega: float = 0.1) -> list[float]:
    """Default convention: exponent d(s′), penalty in the step, weights 1 and 1."""
    advantage = grpo(rows)
    for members in _by(rows, lambda r: r.group).values():
        distance = _distances(members)
        for peers in _by(_trained(members), lambda r: r.state).values():
            x = [10 * omega ** _next_distance(r, distance) - 0.1 * (not r.valid) for r in peers]
            for r, score in zip(peers, _standardised(x, x), strict=True):
                advantage[r.index] += score
    return advantage


def mcgpo(rows: Sequence[Row]) -> list[tuple[int, int, float]]:
    """Preferences (winner, loser, confidence) with opposite folds and evidence weighting."""
    out = []
    for members in _by(rows, lambda r: r.group).values():
        for lower in (True, False):
            candidates = [r for r in members if r.lower == lower]
            evidence = [r for r in members if r.lower != lower]
            out += _fold_preferences(candidates, evidence)
    return out


def _fold_preferences(candidates: Sequence[Row], evidence: Sequence[Row]) -> list[tuple[int, int, float]]:
    first = [_first_visits(candidates, level) for level in (0, 1)]
    outcomes: list[dict[Any, list[bool]]] = [defaultdict(list) for _ in (0, 1)]
    for level in (0, 1):
        for (_, context), r in _first_visits(evidence, level).items():
            outcomes[level][context, r.action].append(r.success)
    labelled = []
    for a, b in itertools.combinations(candidates, 2):
        if a.trajectory == b.trajectory or a.action == b.action:
            continue
        for level, q in ((0, 1.0), (1, 0.7)):
            context = a.contexts[level]
            visits = first[level].get((a.trajectory, context)) is a and first[level].get((b.trajectory, context)) is b
            us, them = outcomes[level].get((context, a.action)), outcomes[level].get((context, b.action))
            if visits and us and them:
                delta = Fraction(sum(us), len(us)) - Fraction(sum(them), len(them))
                support = min(len(us), len(them))
                if abs(delta) >= Fraction(1, 10):
                    c = abs(float(delta)) * support / (support + 2) * q
                    labelled.append((a, b, c) if delta > 0 else (b, a, c))
                break
    return _allocate(labelled)


def _allocate(labelled: Iterable[tuple[Row, Row, float]]) -> list[tuple[int, int, float]]:
    def order(pair: tuple[Row, Row, float]) -> tuple[int, ...]:
        low, high = sorted(pair[:2], key=lambda r: r.slot)
        return max(low.turn, high.turn), min(low.turn, high.turn), low.slot, high.slot, low.turn

    seen: set[frozenset[int]] = set()
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


def _first_visits(rows: Sequence[Row], level: int) -> dict[tuple[int, Hashable], Row]:
    first: dict[tuple[int, Hashable], Row] = {}
    for r in rows:
        if r.eligible:
            first.setdefault((r.trajectory, r.contexts[level]), r)
    return first


def _distances(rows: Sequence[Row]) -> dict[Hashable, int]:
    distance: dict[Hashable, int] = {}
    frontier = {r.state for r in rows if r.last and r.total > 0}
    depth = 0
    while frontier:
        depth += 1
        distance.update(dict.fromkeys(frontier, depth))
        inner = (r for r in rows if not (r.last and r.total > 0))
        frontier = {r.state for r in inner if r.next_state in distance and r.state not in distance}
    unreachable = max(distance.values(), default=0) + 1
    return defaultdict(lambda: unreachable, distance)


def _next_distance(row: Row, distance: dict[Hashable, int]) -> int:
    return 0 if row.last and row.total > 0 else distance[row.next_state]


def _standardised(values: Sequence[float], samples: Sequence[float]) -> list[float]:
    if max(samples) == min(samples):
        return [0.0] * len(values)
    mean = sum(samples) / len(samples)
    deviation = math.sqrt(sum((x - mean) ** 2 for x in samples) / (len(samples) - 1))
    return [(x - mean) / (deviation + EPS) for x in values]


def _trained(rows: Iterable[Row]) -> list[Row]:
    return [r for r in rows if r.trainable]


def _by(rows: Iterable[Row], key: Callable[[Row], Hashable]) -> dict[Hashable, list[Row]]:
    groups: dict[Hashable, list[Row]] = defaultdict(list)
    for r in rows:
        groups[key(r)].append(r)
    return groups
