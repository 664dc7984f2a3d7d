"""Whether two entries may be compared by differences at the same seed, and why not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from creditlab.analysis.curves import Curve

_IDENTITIES: Final = {
    "panel": "evaluation panels",
    "warm_start": "warm starts",
    "task_order": "orders of training tasks",
}
"""What two runs of a pair share, by field of a curve."""


@dataclass(frozen=True)
class Pairing:
    """Which seeds of an entry pair with the baseline's, and the reason for every other."""

    seeds: tuple[int, ...]
    """Seeds at which the two runs are comparable."""
    missing: Mapping[int, str]
    """Seeds that only one side has, with the side that lacks it."""
    broken: Mapping[int, tuple[str, ...]]
    """Seeds that both sides have but whose runs are not comparable, with the reasons."""
    unknown: tuple[str, ...]
    """What could not be checked because it was not recorded on both sides at every seed."""

    @property
    def complete(self) -> bool:
        """Whether every seed of either side is a pair."""
        return not self.missing and not self.broken

    def reasons(self) -> list[str]:
        """Sentences that say what is missing or broken at which seeds; empty for a complete pairing."""
        found = {seed: f"{side} has no run" for seed, side in self.missing.items()}
        return by_seed(found | {seed: "; ".join(reasons) for seed, reasons in self.broken.items()})


def by_seed(reasons: Mapping[int, str]) -> list[str]:
    """Reasons as sentences that name their seeds, seeds with one reason together."""
    seeds: dict[str, list[str]] = {}
    for seed in sorted(reasons):
        seeds.setdefault(reasons[seed], []).append(str(seed))
    return [f"seed{'s' * (len(at) > 1)} {', '.join(at)}: {reason}" for reason, at in seeds.items()]


def check_pair(first: Curve, second: Curve, *, schedule: bool = True) -> tuple[str, ...]:
    """Why two runs do not pair: another setting, seed, panel, warm start, task order or schedule; empty where they do.

    What is not recorded on both sides is not held against them. `schedule`: whether evaluations at other updates matter.
    """
    found = [
        f"other {plural}: {_short(one)} and {_short(two)}"
        for name, plural in _IDENTITIES.items()
        if (one := getattr(first, name)) != (two := getattr(second, name)) and None not in (one, two)
    ]
    for name in ("setting", "seed"):
        if getattr(first, name) != getattr(second, name):
            found.insert(0, f"other {name}s: {getattr(first, name)} and {getattr(second, name)}")
    if schedule and first.updates != second.updates:
        found.append(_other_schedules(first.updates, second.updates))
    return tuple(found)


def pair(
    entry: Mapping[int, Curve], baseline: Mapping[int, Curve], names: tuple[str, str], *, schedule: bool = True
) -> Pairing:
    """Pairs the runs of an entry with the baseline's by seed; `names` are the two sides', for the reasons."""
    both = sorted(entry.keys() & baseline.keys())
    reasons = {seed: check_pair(entry[seed], baseline[seed], schedule=schedule) for seed in both}
    first, second = names
    lacking = {seed: second if seed in entry else first for seed in sorted(entry.keys() ^ baseline.keys())}
    unknown = tuple(
        plural
        for name, plural in _IDENTITIES.items()
        if any(getattr(run, name) is None for seed in both for run in (entry[seed], baseline[seed]))
    )
    return Pairing(
        tuple(seed for seed in both if not reasons[seed]),
        lacking,
        {seed: why for seed, why in reasons.items() if why},
        unknown,
    )


def _short(digest: str) -> str:
    return digest[:12]


def _other_schedules(first: Sequence[int], second: Sequence[int]) -> str:
    alone = min({*first} ^ {*second})
    counts = f"{len(first)} evaluations up to update {first[-1]} and {len(second)} up to {second[-1]}"
    return f"other schedules: {counts}, update {alone} on one side only"
