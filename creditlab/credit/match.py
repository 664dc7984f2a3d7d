"""Match rules: which decisions may be compared, as a ladder of keys over states, most specific first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from creditlab.credit.segments import Ints, count, joint
from creditlab.credit.types import Level
from creditlab.rollouts import Rows

COARSE_RESOLUTION = 0.7
"""Resolution weight q of a coarse level (MCGPO, Table 6); every other level has 1."""


@dataclass(frozen=True)
class Observation:
    """Equal raw observation texts, without history: the anchor of GiGPO, HGPO and G2PO."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "observation"
    views: ClassVar[tuple[str, ...]] = ("observation",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (view_level(rows, "observation"),)


@dataclass(frozen=True)
class GraphState:
    """Equal augmented states: GraphGPO's anchor (observation, place, held and moved objects, admissible commands)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "graph_state"
    views: ClassVar[tuple[str, ...]] = ("graph",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (view_level(rows, "graph"),)


@dataclass(frozen=True)
class StateRubric:
    """Equal state summary and rubric (C, F): exact fields first, then coarse ones (MCGPO)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "state_rubric"
    views: ClassVar[tuple[str, ...]] = ("exact", "coarse")
    needs: ClassVar[tuple[str, ...]] = ("rubric",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, exact and coarse; the two indices are independent."""
        return (view_level(rows, "exact", rows.rubric), view_level(rows, "coarse", rows.rubric, resolution=COARSE_RESOLUTION))


@dataclass(frozen=True)
class StateOnly:
    """Equal state summary, exact then coarse, whatever the rubric says (MCGPO's state-only control)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "state_only"
    views: ClassVar[tuple[str, ...]] = ("exact", "coarse")

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, exact and coarse."""
        return (view_level(rows, "exact"), view_level(rows, "coarse", resolution=COARSE_RESOLUTION))


@dataclass(frozen=True)
class RubricOnly:
    """Equal rubric (C, F), whatever the state (MCGPO's rubric-only control)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "rubric_only"
    needs: ClassVar[tuple[str, ...]] = ("rubric",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (Level("rubric", joint(rows.state_group, rows.rubric)),)


@dataclass(frozen=True)
class ShuffledRubric:
    """Equal state summary and a rubric (C, F) permuted over the decisions of the group (MCGPO's shuffled-rubric control).

    The permutation runs over the decisions that MCGPO may pair, whose action was understood and trained on; the others keep
    their own rubric. It is derived from the seed and the group's name, so an unrelated group changes nothing.
    """

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "shuffled_rubric"
    views: ClassVar[tuple[str, ...]] = ("exact", "coarse")
    needs: ClassVar[tuple[str, ...]] = ("rubric",)
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of the permutations, beside the group's name."""

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, exact and coarse, under the same permutation."""
        rubric = self._shuffled(rows)
        return (view_level(rows, "exact", rubric), view_level(rows, "coarse", rubric, resolution=COARSE_RESOLUTION))

    def _shuffled(self, rows: Rows) -> Ints:
        rubric = rows.rubric.copy()
        eligible = np.flatnonzero(rows.parsed & rows.trainable)
        ends = np.cumsum(count(rows.group[eligible], rows.groups))  # rows are sorted by group
        for name, states in zip(rows.group_names, np.split(rows.state[eligible], ends[:-1]), strict=False):
            rng = np.random.default_rng([self.seed, *name.encode()])
            rubric[states] = rubric[rng.permutation(states)]
        return rubric


@dataclass(frozen=True)
class ExactState:
    """Equal exact fields of the state, without the rubric."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "exact_state"
    views: ClassVar[tuple[str, ...]] = ("exact",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (view_level(rows, "exact"),)


@dataclass(frozen=True)
class CoarseState:
    """Equal coarse fields of the state, without the rubric."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "coarse_state"
    views: ClassVar[tuple[str, ...]] = ("coarse",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (view_level(rows, "coarse", resolution=COARSE_RESOLUTION),)


@dataclass(frozen=True)
class Task:
    """Every state of the task group, whatever it is."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "task"

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (Level("task", joint(rows.state_group)),)


def view_level(rows: Rows, view: str, *keys: Ints, resolution: float = 1.0) -> Level:
    """A level over a recorded view and further keys of states, kept apart between task groups; one line of a match rule."""
    # An update without a single decision records no view, and has nothing to compare either.
    ids = rows.view(view) if len(rows.state_trajectory) else np.zeros(0, np.int64)
    return Level(view, joint(rows.state_group, ids, *keys), resolution)
