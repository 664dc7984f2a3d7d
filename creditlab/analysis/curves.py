"""Evaluation curves of runs, and what one curve says: its end, its area and when it reaches a level."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

LAST_K: Final = 5
"""Evaluations in the mean at the end of a curve: L5, the field's primary number."""
_LARGEST: Final = 1e12
"""Beyond it a result is a mistake, and its square and decimals would lose their meaning."""


class CurveError(ValueError):
    """A curve that cannot be; `field` and `index` say which of its values is wrong (index -1: the field as a whole)."""

    def __init__(self, message: str, field: str, index: int = -1) -> None:
        super().__init__(message)
        self.field, self.index = field, index


@dataclass(frozen=True)
class Curve:
    """The scheduled evaluations of one run: one entry of a comparison, in one setting, with one seed.

    Raises CurveError for a curve without evaluations, updates that repeat or are not in order, a value that is no finite
    number, and lists of other lengths than `updates`.
    """

    method: str
    """The entry of the comparison: a method, with its overrides where it has some."""
    setting: str
    """What it was trained and evaluated on, such as an environment."""
    seed: int
    updates: tuple[int, ...]
    """Policy updates before each evaluation, rising; 0 is the warm start."""
    values: tuple[float, ...]
    """The result of each evaluation; success in percent, so that differences are points."""
    transitions: tuple[int, ...] | None = None
    """Environment transitions used for training before each evaluation; None where nobody counted."""
    seconds: tuple[float, ...] | None = None
    """Wall-clock seconds before each evaluation; None where nobody measured."""
    families: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """The result of each evaluation within each family of tasks."""
    score: tuple[float, ...] | None = None
    """The mean task score of each evaluation, 100 being the best; None where it is not recorded."""
    panel: str | None = None
    """Hash of the evaluation panel; None where unknown, as the next two."""
    warm_start: str | None = None
    """Hash of the initial weights."""
    task_order: str | None = None
    """Digest of the task groups in the order of training."""

    def __post_init__(self) -> None:
        for name in ("method", "setting"):
            if not getattr(self, name).strip():
                raise CurveError(f"a curve has no {name}; name it", name)
        if self.seed < 0:
            raise self._error("a seed is at least 0", "seed")
        if not self.updates:
            raise self._error("it holds no evaluation", "updates")
        if self.updates[0] < 0:
            raise self._error(f"update {self.updates[0]} is below 0", "updates", 0)
        for index, (before, after) in enumerate(zip(self.updates, self.updates[1:], strict=False), 1):
            if after == before:
                raise self._error(f"update {after} is evaluated twice", "updates", index)
            if after < before:
                raise self._error(f"update {after} comes after update {before}; sort the evaluations", "updates", index)
        self._check_numbers("values", self.values)
        if self.score is not None:
            self._check_numbers("scores", self.score)
        for name, values in self.families.items():
            self._check_numbers(f"family {name}", values)
        for name, counted in (("transitions", self.transitions), ("seconds", self.seconds)):
            if counted is not None:
                self._check_numbers(name, counted)
                self._check_counter(name, counted)

    @property
    def name(self) -> str:
        """The curve in words, for messages."""
        return f"{self.method} on {self.setting}, seed {self.seed}"

    def until(self, update: int) -> Curve:
        """The curve up to and including an update; raises CurveError when no evaluation lies there."""
        count = sum(at <= update for at in self.updates)
        return replace(
            self,
            updates=self.updates[:count],
            values=self.values[:count],
            transitions=self.transitions and self.transitions[:count],
            seconds=self.seconds and self.seconds[:count],
            families={name: values[:count] for name, values in self.families.items()},
            score=self.score and self.score[:count],
        )

    def family(self, name: str) -> Curve:
        """The curve of one family of tasks; raises KeyError for one that was not evaluated."""
        return replace(self, values=self.families[name], families={}, score=None)

    def _check_numbers(self, name: str, values: Sequence[float]) -> None:
        if len(values) != len(self.updates):
            raise self._error(f"{len(self.updates)} evaluations, but {len(values)} {name}", name)
        for index, value in enumerate(values):
            if not math.isfinite(value):
                raise self._error(f"{name} at update {self.updates[index]}: {value} is no finite number", name, index)
            if abs(value) > _LARGEST:
                raise self._error(f"{name} at update {self.updates[index]}: {value} is beyond any result", name, index)

    def _check_counter(self, name: str, values: Sequence[float]) -> None:
        for index, (before, after) in enumerate(zip((0, *values), values, strict=False)):
            if after < before:
                raise self._error(f"{name} fall from {before} to {after} at update {self.updates[index]}", name, index)

    def _error(self, message: str, field: str, index: int = -1) -> CurveError:
        return CurveError(f"{self.name}: {message}", field, index)


@dataclass(frozen=True)
class Reached:
    """Where a curve reached a level; None for what was not counted."""

    update: int
    transitions: int | None
    seconds: float | None


def last_k(curve: Curve, k: int = LAST_K) -> float:
    """Mean of the last `k` scheduled evaluations (MCGPO, Eq. 14); raises ValueError when the curve holds fewer."""
    if k < 1:
        raise ValueError(f"the mean of the last {k} evaluations is not defined; take at least 1")
    if len(curve.values) < k:
        raise ValueError(
            f"{curve.name}: {_evaluations(len(curve.values))}, the mean of the last {k} needs {k}; "
            f"last={len(curve.values)} takes what there is"
        )
    return math.fsum(curve.values[-k:]) / k


def final(curve: Curve) -> float:
    """The last scheduled evaluation."""
    return curve.values[-1]


def normalised_auc(curve: Curve) -> float:
    """Area under the raw curve by the trapezoid rule over its span of updates, in the unit of its values.

    Raises ValueError when the curve holds one evaluation, which spans nothing.
    """
    if len(curve.updates) < 2:
        raise ValueError(f"{curve.name}: one evaluation has no area; the AUC needs two")
    return float(np.trapezoid(curve.values, curve.updates)) / (curve.updates[-1] - curve.updates[0])


def reach(curve: Curve, level: float, *, held: bool = False) -> Reached | None:
    """The first scheduled evaluation at or above a level; None when there is none.

    `held`: the first from which on the curve never falls below it again, the last evaluation included.
    """
    above = [value >= level for value in curve.values]
    found = next((at for at, now in enumerate(above) if (all(above[at:]) if held else now)), None)
    if found is None:
        return None
    return Reached(
        curve.updates[found],
        None if curve.transitions is None else curve.transitions[found],
        None if curve.seconds is None else curve.seconds[found],
    )


def _evaluations(count: int) -> str:
    return f"{count} evaluation" + "s" * (count != 1)
