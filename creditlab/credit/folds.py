"""Folds: whose outcomes may be evidence for whose decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from creditlab.credit.segments import Bools, Ints, count
from creditlab.credit.types import Peers, Split, Without
from creditlab.rollouts import Rows

Incomplete = Literal["refuse", "skip"]
"""What happens to a group whose slots are not exactly 0 … G−1 with G even: an error, or no preferences."""


@dataclass(frozen=True)
class Halves:
    """What the folds that halve a group by slot share."""

    name: ClassVar[str]
    incomplete: Incomplete = "refuse"
    """What to do with a group whose slots are not exactly 0 … G−1 with an even G."""

    def check_group_size(self, size: int) -> None:
        """Refuses an odd group size before anything is collected."""
        if size % 2:
            raise ValueError(f"fold={self.name} halves the group by slot and needs an even group size")


@dataclass(frozen=True)
class Opposite(Halves):
    """Two fixed halves by slot, each judged by the outcomes of the other (MCGPO)."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "opposite"

    def splits(self, rows: Rows) -> tuple[Split, ...]:
        """Two splits; raises ValueError naming the group with missing or repeated slots, unless these are skipped."""
        lower, upper = _halves(rows, self.name, self.incomplete)
        return (Split(lower, upper), Split(upper, lower))

    def peers(self, rows: Rows) -> Peers:
        """Each half is compared with the other; raises ValueError as `splits` does."""
        lower, upper = _halves(rows, self.name, self.incomplete)
        return Peers(_classes(lower, upper), _classes(upper, lower))


@dataclass(frozen=True)
class Same(Halves):
    """The halves of `opposite`, each judged by its own outcomes, the candidates' included (MCGPO's same-fold control)."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "same"

    def splits(self, rows: Rows) -> tuple[Split, ...]:
        """Two splits; raises ValueError naming the group with missing or repeated slots, unless these are skipped."""
        return tuple(Split(half, half) for half in _halves(rows, self.name, self.incomplete))

    def peers(self, rows: Rows) -> Peers:
        """Each half is compared with itself; raises ValueError as `splits` does."""
        half = _classes(*_halves(rows, self.name, self.incomplete))
        return Peers(half, half)


@dataclass(frozen=True)
class All:
    """No fold: every trajectory of the group is both judged and evidence."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "all"

    def splits(self, rows: Rows) -> tuple[Split, ...]:
        """One split."""
        everyone = np.ones(len(rows.length), np.bool_)
        return (Split(everyone, everyone),)

    def peers(self, rows: Rows) -> Peers:
        """Everyone is compared with everyone, itself included."""
        return _everyone(rows, "nothing")


@dataclass(frozen=True)
class LeaveOneOut:
    """A sample is compared with all others of its group; its own is left out (RLOO)."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "leave_one_out"

    def peers(self, rows: Rows) -> Peers:
        """Everyone but the sample itself."""
        return _everyone(rows, "itself")


@dataclass(frozen=True)
class OtherTrajectories:
    """A decision is compared with those of its siblings; its own trajectory is left out (CCPO)."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "other_trajectories"

    def peers(self, rows: Rows) -> Peers:
        """Everyone outside the own trajectory."""
        return _everyone(rows, "trajectory")


def _everyone(rows: Rows, without: Without) -> Peers:
    one = np.zeros(len(rows.length), np.int64)
    return Peers(one, one, without)


def _classes(first: Bools, second: Bools) -> Ints:
    """Class 0 where the first mark holds [M], 1 where the second does, else −1."""
    return np.where(first, 0, np.where(second, 1, -1)).astype(np.int64)


def _halves(rows: Rows, name: str, incomplete: Incomplete) -> tuple[Bools, Bools]:
    """Marks the lower and the upper half of the slots [M] in every complete group."""
    group = rows.trajectory_group
    size = count(group, rows.groups)
    position = np.arange(len(group)) - (np.cumsum(size) - size)[group]  # siblings are contiguous, in order of slot
    misplaced = count(group, rows.groups, rows.trajectory_slot != position)
    complete = (misplaced == 0) & (size % 2 == 0)
    if incomplete == "refuse" and not complete.all():
        first = int(np.flatnonzero(~complete)[0])
        raise ValueError(
            f"fold={name} needs slots 0 … G-1, each once, and an even G; group {rows.group_names[first]!r} has slots "
            f"{rows.trajectory_slot[group == first].tolist()}; use an even group size, or fold.incomplete=skip to pass "
            f"such groups by"
        )
    upper = 2 * position >= size[group]
    return complete[group] & ~upper, complete[group] & upper
