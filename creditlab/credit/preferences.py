"""Preferences between matched decisions, ordered by the outcomes of an evidence fold (MCGPO).

The path of one update: first visits per level → supported row pairs → contrast → one comparison per sibling pair →
quota. Contrasts are compared as integers, so that a threshold means what it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from creditlab.credit.segments import Bools, Floats, Ints, count, first_index, joint
from creditlab.credit.types import Level, PairWeighting, Preferences, Split
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite

Labels = Literal["outcome", "candidate_progress"]
"""What orders a pair: mean outcome of the evidence, or the candidates' own goal progress after the action."""

SUCCESS_SCORE = 0.999
"""Terminal score from which a trajectory counts as a success (MCGPO, Table 6)."""


@dataclass(frozen=True)
class LevelTrace:
    """What was found at one level before any contrast was looked at."""

    name: str
    supported: int
    """Row pairs with different actions, both supported."""
    sizes: Ints
    """Number of candidates that share a context, for every context of every candidate fold."""


@dataclass(frozen=True)
class LabelledPairs:
    """Supported row pairs [K] with their contrast, before threshold and allocation."""

    low: Ints
    """Row in the lower slot."""
    high: Ints
    split: Ints
    level: Ints
    support: Ints
    """n*, the smaller number of evidence records of the two actions."""
    margin: Ints
    """Contrast Δ of low over high, as the integer fraction margin/scale."""
    scale: Ints

    def __getitem__(self, keep: Ints | Bools) -> LabelledPairs:
        return LabelledPairs(*(column[keep] for column in vars(self).values()))


def build_preferences(
    rows: Rows,
    levels: Sequence[Level],
    splits: Sequence[Split],
    weighting: PairWeighting,
    *,
    epsilon: float = 0.10,
    min_support: int = 1,
    quota: int = 2,
    labels: Labels = "outcome",
) -> tuple[Preferences, tuple[LevelTrace, ...]]:
    """Preferences of one update, and per level what they were chosen from.

    Raises ValueError naming the row when the terminal score of its trajectory is not finite.
    """
    pairs, traces = label_pairs(rows, levels, splits, min_support=min_support, labels=labels)
    accepted = _allocate(rows, pairs[_qualifies(pairs, epsilon)], quota)
    return _preferences(accepted, levels, weighting), traces


def label_pairs(
    rows: Rows, levels: Sequence[Level], splits: Sequence[Split], *, min_support: int = 1, labels: Labels = "outcome"
) -> tuple[LabelledPairs, tuple[LevelTrace, ...]]:
    """Every supported row pair once per split, at its most specific level, and what each level offered."""
    success = successes(rows)
    eligible = np.flatnonzero(rows.parsed & rows.trainable)
    found, traces = [_no_pairs()], []
    for index, level in enumerate(levels):
        first = _first_visits(rows, level, eligible)
        supported = [
            _supported(rows, level, index, number, first, split, success, min_support) for number, split in enumerate(splits)
        ]
        found += [pairs for pairs, _ in supported]
        sizes = np.concatenate([s for _, s in supported])
        traces.append(LevelTrace(level.name, sum(len(pairs.low) for pairs, _ in supported), sizes))
    # The level is fixed here, before any contrast is looked at: a supported exact tie is not retried at a coarser level.
    pairs = _most_specific(_concatenate(found), len(rows))
    return _by_progress(rows, pairs) if labels == "candidate_progress" else pairs, tuple(traces)


def successes(rows: Rows) -> Bools:
    """Outcome bit u of every trajectory [M]: terminal score at least 0.999."""
    check_finite(rows, rows.score[rows.trajectory], "terminal score")
    return np.asarray(rows.score >= SUCCESS_SCORE)


def _first_visits(rows: Rows, level: Level, eligible: Ints) -> Ints:
    """The earliest eligible row of each trajectory under each key of the level, in order of rows."""
    visit = joint(rows.trajectory[eligible], level.ids[rows.state[eligible]])
    return np.sort(eligible[first_index(visit)])


def _supported(
    rows: Rows, level: Level, index: int, number: int, first: Ints, split: Split, success: Bools, min_support: int
) -> tuple[LabelledPairs, Ints]:
    """Pairs of candidates that share a context and differ in the action, both supported; and the sizes of the contexts."""
    context = level.ids[rows.state[first]]
    cell = joint(context, rows.action[first])
    evidence = split.evidence[rows.trajectory[first]]
    size = int(cell.max(initial=-1)) + 1
    records = count(cell, size, evidence)
    wins = count(cell, size, evidence & success[rows.trajectory[first]])

    candidates = np.flatnonzero(split.candidate[rows.trajectory[first]])
    sizes = count(context[candidates], int(context.max(initial=-1)) + 1)
    candidates = candidates[records[cell[candidates]] >= min_support]
    low, high = _within(candidates, context)
    differ = cell[low] != cell[high]
    low, high = low[differ], high[differ]
    n_low, n_high = records[cell[low]], records[cell[high]]
    pairs = LabelledPairs(
        low=first[low],
        high=first[high],
        split=np.full(len(low), number, np.int64),
        level=np.full(len(low), index, np.int64),
        support=np.minimum(n_low, n_high),
        margin=wins[cell[low]] * n_high - wins[cell[high]] * n_low,
        scale=n_low * n_high,
    )
    return pairs, sizes[sizes > 0]


def _within(members: Ints, context: Ints) -> tuple[Ints, Ints]:
    """All unordered pairs of members with equal context; a context holds at most one member per trajectory."""
    members = members[np.argsort(context[members], kind="stable")]
    lows, highs = [members[:0]], [members[:0]]
    for step in range(1, int(count(context[members], 1).max(initial=0))):
        equal = context[members[:-step]] == context[members[step:]]
        lows.append(members[:-step][equal])
        highs.append(members[step:][equal])
    return np.concatenate(lows), np.concatenate(highs)


def _most_specific(pairs: LabelledPairs, rows: int) -> LabelledPairs:
    """Each row pair once per split, at the first level that supports it."""
    return pairs[first_index(joint(pairs.split, pairs.low * rows + pairs.high))]


def _by_progress(rows: Rows, pairs: LabelledPairs) -> LabelledPairs:
    """The pairs with the difference of the candidates' own gain in goal progress as contrast, at most 1 in size."""
    numerator, denominator = rows.goal_progress
    before, after = rows.state, rows.state + 1
    gain = numerator[after] * denominator[before] - numerator[before] * denominator[after]
    scale = denominator[before] * denominator[after]
    divisor = np.gcd(gain, scale)
    gain, scale = gain // divisor, scale // divisor
    margin = gain[pairs.low] * scale[pairs.high] - gain[pairs.high] * scale[pairs.low]
    scale = scale[pairs.low] * scale[pairs.high]
    return LabelledPairs(
        pairs.low, pairs.high, pairs.split, pairs.level, pairs.support, np.clip(margin, -scale, scale), scale
    )


def _qualifies(pairs: LabelledPairs, epsilon: float) -> Bools:
    """Whether |Δ| ≥ ε, decided in integers; a tie orders nothing, whatever ε is."""
    threshold = Fraction(str(epsilon)).limit_denominator(10**9)
    margin = np.abs(pairs.margin)
    return np.asarray((margin > 0) & (margin * threshold.denominator >= pairs.scale * threshold.numerator))


def _allocate(rows: Rows, pairs: LabelledPairs, quota: int) -> LabelledPairs:
    """One comparison per sibling pair, then greedily at most `quota` per group and fold, every row once.

    Both steps prefer the earliest: (later turn, earlier turn, lower slot, higher slot, turn of the lower slot).
    """
    turn_low, turn_high = rows.turn[pairs.low], rows.turn[pairs.high]
    order = np.lexsort(
        (
            turn_low,
            rows.slot[pairs.high],
            rows.slot[pairs.low],
            np.minimum(turn_low, turn_high),
            np.maximum(turn_low, turn_high),
            pairs.split,
            rows.group[pairs.low],
        )
    )
    pairs = pairs[order]
    siblings = joint(pairs.split, rows.trajectory[pairs.low], rows.trajectory[pairs.high])
    pairs = pairs[np.sort(first_index(siblings))]

    folds = joint(rows.group[pairs.low], pairs.split).tolist()
    used: set[int] = set()
    accepted: dict[int, int] = {}
    kept = []
    for position, (fold, low, high) in enumerate(zip(folds, pairs.low.tolist(), pairs.high.tolist(), strict=True)):
        if accepted.get(fold, 0) < quota and low not in used and high not in used:
            accepted[fold] = accepted.get(fold, 0) + 1
            used.update((low, high))
            kept.append(position)
    return pairs[np.array(kept, np.int64)]


def _preferences(pairs: LabelledPairs, levels: Sequence[Level], weighting: PairWeighting) -> Preferences:
    """Winner before loser, weighted."""
    contrast: Floats = np.abs(pairs.margin) / pairs.scale
    resolution = np.array([level.resolution for level in levels], np.float64)[pairs.level]
    low_wins = pairs.margin > 0
    return Preferences(
        winner=np.where(low_wins, pairs.low, pairs.high),
        loser=np.where(low_wins, pairs.high, pairs.low),
        weight=weighting.pair(contrast, pairs.support, resolution),
        level=pairs.level,
        contrast=contrast,
        support=pairs.support,
    )


def _concatenate(parts: Sequence[LabelledPairs]) -> LabelledPairs:
    return LabelledPairs(*(np.concatenate(columns) for columns in zip(*(vars(p).values() for p in parts), strict=True)))


def _no_pairs() -> LabelledPairs:
    return LabelledPairs(*(np.zeros(0, np.int64) for _ in range(7)))


def pair_diagnostics(rows: Rows, preferences: Preferences, traces: Sequence[LevelTrace]) -> Mapping[str, float]:
    """Counts (integers) and shares (floats) of one update (MCGPO's audit); a share without a denominator is left out.

    To pool updates or ranks, add the counts and divide.
    """
    success = successes(rows)
    margin = success[rows.trajectory[preferences.winner]].astype(int) - success[rows.trajectory[preferences.loser]]
    wins, ties, losses = (int(np.sum(margin == sign)) for sign in (1, 0, -1))
    accepted = len(preferences)
    out: dict[str, float] = {"pairs/accepted": accepted, "pairs/active": int(accepted > 0)}
    out |= {"pairs/wins": wins, "pairs/ties": ties, "pairs/losses": losses}
    for index, trace in enumerate(traces):
        out[f"pairs/accepted_{trace.name}"] = int(np.sum(preferences.level == index))
        out[f"pairs/supported_{trace.name}"] = int(trace.supported)
        records, shared = int(trace.sizes.sum()), int(trace.sizes[trace.sizes > 1].sum())
        out[f"pairs/first_visits_{trace.name}"] = records
        out[f"pairs/first_visit_groups_{trace.name}"] = len(trace.sizes)
        out[f"pairs/non_singleton_{trace.name}"] = shared
        if records:
            out[f"pairs/first_visit_group_size_{trace.name}"] = records / len(trace.sizes)
            out[f"pairs/non_singleton_share_{trace.name}"] = shared / records
    if accepted:
        out["pairs/exact_share"] = float(np.mean(preferences.level == 0))
        out["pairs/contrast"] = float(preferences.contrast.mean())
        out["pairs/confidence"] = float(preferences.weight.mean())
        out["pairs/agreement"] = (wins + ties / 2) / accepted
        out["pairs/tie_share"] = ties / accepted
    return out
