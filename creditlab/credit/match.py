"""Match rules: which decisions may be compared, as a ladder of keys over states, most specific first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from creditlab.credit.segments import Ints, joint
from creditlab.credit.types import Level
from creditlab.rollouts import Rows

COARSE_RESOLUTION = 0.7
"""Resolution weight q of a coarse level (MCGPO, Table 6); every other level has 1."""


@dataclass(frozen=True)
class Observation:
    """Equal raw observation texts, without history: the anchor of GiGPO, HGPO and G2PO."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "observation"

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (_level(rows, "observation"),)


@dataclass(frozen=True)
class GraphState:
    """Equal augmented states: GraphGPO's anchor (observation, place, held and moved objects, admissible commands)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "graph_state"

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (_level(rows, "graph"),)


@dataclass(frozen=True)
class StateRubric:
    """Equal state summary and rubric (C, F): exact fields first, then coarse ones (MCGPO)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "state_rubric"
    needs: ClassVar[tuple[str, ...]] = ("rubric",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, exact and coarse; the two indices are independent."""
        return (_level(rows, "exact", rows.rubric), _level(rows, "coarse", rows.rubric, resolution=COARSE_RESOLUTION))


@dataclass(frozen=True)
class StateOnly:
    """Equal state summary, exact then coarse, whatever the rubric says (MCGPO's state-only control)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "state_only"

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, exact and coarse."""
        return (_level(rows, "exact"), _level(rows, "coarse", resolution=COARSE_RESOLUTION))


@dataclass(frozen=True)
class RubricOnly:
    """Equal rubric (C, F), whatever the state (MCGPO's rubric-only control)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "rubric_only"
    needs: ClassVar[tuple[str, ...]] = ("rubric",)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (Level("rubric", joint(rows.state_group, rows.rubric)),)


def _level(rows: Rows, view: str, *keys: Ints, resolution: float = 1.0) -> Level:
    """A level over a recorded view and further keys of states, kept apart between task groups."""
    # An update without a single decision records no view, and has nothing to compare either.
    ids = rows.view(view) if len(rows.state_trajectory) else np.zeros(0, np.int64)
    return Level(view, joint(rows.state_group, ids, *keys), resolution)
