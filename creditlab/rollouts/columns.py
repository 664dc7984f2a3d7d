"""Columns of recorded states: texts and rubrics as numbers, each made when a method first asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts.records import Channel, State

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_Value = TypeVar("_Value")
_Key = TypeVar("_Key", bound=Hashable)
_Column = TypeVar("_Column", bound=NDArray[np.generic])

_NO_GOAL = Channel(Fraction(0), Fraction(1))


class OnDemand(Mapping[str, _Value]):
    """Values under names that are known beforehand; each is made when it is first read, and once."""

    def __init__(self, names: Iterable[str], make: Callable[[str], _Value]) -> None:
        self._made: dict[str, _Value | None] = dict.fromkeys(names)
        self._make = make

    def __getitem__(self, name: str) -> _Value:
        value = self._made[name]
        if value is None:
            value = self._made[name] = self._make(name)
        return value

    def __contains__(self, name: object) -> bool:
        return name in self._made  # a mapping's own way would be to read the value

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


@dataclass(frozen=True)
class Interned:
    """Texts as numbers."""

    ids: Ints
    """A dense id per text, in order of first appearance."""
    texts: tuple[str, ...]
    """The text behind each id."""


def interned(texts: Sequence[str]) -> Interned:
    """A dense id per text."""
    return Interned(*_numbered(texts))


@dataclass(frozen=True)
class RubricColumns:
    """What the rubrics of all states [S] say."""

    ids: Ints
    """Joint id of (C, F); all zero where the environment has no rubric."""
    progress: Floats
    """Mean over channels of value/full, in [0, 1]; 0 without a rubric."""
    goal_progress: tuple[Ints, Ints]
    """Numerator and denominator of the channel `goal_progress`; 0/1 where absent."""
    goal_share: Floats
    """The same channel over its full value, in [0, 1]: the environment's own graded score of the state; 0 where absent."""


class Rubrics:
    """The rubrics of recorded states [S]; their columns are made when one of them is first read."""

    def __init__(self, states: Sequence[State]) -> None:
        self._states = states

    @cached_property
    def columns(self) -> RubricColumns:
        """All of them at once, for they come from the same pass over the states."""
        # Few rubrics occur and exact fractions are slow: each is worked out once, found again by the integers it is made of.
        kinds: dict[object, int] = {}
        firsts: list[State] = []
        kind = []
        for state in self._states:
            made_of: list[object] = [*state.rubric, state.frontier]
            for channel in state.rubric.values():
                made_of += channel.value.as_integer_ratio()
                made_of += channel.full.as_integer_ratio()
            number = kinds.setdefault(tuple(made_of), len(firsts))
            if number == len(firsts):
                firsts.append(state)
            kind.append(number)
        place = np.array(kind, dtype=np.int64)
        ids, _ = _numbered([(tuple((name, c.value) for name, c in sorted(s.rubric.items())), s.frontier) for s in firsts])
        goals = [s.rubric.get("goal_progress", _NO_GOAL) for s in firsts]
        numerator = np.array([g.value.numerator for g in goals], dtype=np.int64)
        denominator = np.array([g.value.denominator for g in goals], dtype=np.int64)
        progress = np.array([_mean_share(s.rubric.values()) for s in firsts], dtype=np.float64)
        share = np.array([_mean_share([goal]) for goal in goals], dtype=np.float64)
        return RubricColumns(
            read_only(ids[place]),
            read_only(progress[place]),
            (read_only(numerator[place]), read_only(denominator[place])),
            read_only(share[place]),
        )


def read_only(column: _Column) -> _Column:
    """The same array, locked: one method's credit must not change what the next one sees."""
    column.setflags(write=False)
    return column


def _numbered(keys: Sequence[_Key]) -> tuple[Ints, tuple[_Key, ...]]:
    """A dense id per key, in order of first appearance, and the key behind each id."""
    ids: defaultdict[_Key, int] = defaultdict()
    ids.default_factory = ids.__len__  # a new key gets the number of those before it
    column = np.fromiter(map(ids.__getitem__, keys), np.int64, len(keys))
    ids.default_factory = None  # else the table would hold itself, and stay
    return read_only(column), tuple(ids)


def _mean_share(channels: Iterable[Channel]) -> float:
    """Mean of value/full over the channels that can be satisfied, 0 without any."""
    shares = [float(c.value / c.full) for c in channels if c.full]
    return sum(shares) / len(shares) if shares else 0.0
