"""Match rules that compare more than one recorded key: histories of observations, turns, and similar texts."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from creditlab.credit.match import Observation
from creditlab.credit.segments import Bools, Ints, count, dense, first_index, joint
from creditlab.credit.types import Level
from creditlab.rollouts import Rows


@dataclass(frozen=True)
class History:
    """Equal last observations, from K+1 of them down to the present one alone (HGPO, arXiv 2602.22817)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "history"
    views: ClassVar[tuple[str, ...]] = ("observation",)
    past: Annotated[int, Field(ge=0)] = 2
    """Past observations K matched beside the present one at the most specific level; the paper uses 2 and 4."""

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """K+1 levels; a state with too short a past stands alone at a level."""
        present = Observation().levels(rows)[0].ids
        found = [Level("history1", present)]
        turn = state_turn(rows)
        for past in range(1, self.past + 1):
            ids = _alone(_extended(found[-1].ids, present), turn < past)
            found.append(Level(f"history{past + 1}", ids, reached=turn >= past))
        return tuple(reversed(found))


@dataclass(frozen=True)
class Turn:
    """Equal numbers of decisions before, whatever the state: the (task, turn) groups of AT-GRPO (arXiv 2602.08533)."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "turn"

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level."""
        return (Level("turn", joint(rows.state_group, state_turn(rows))),)


@dataclass(frozen=True)
class SimilarState:
    """Observation texts that are alike: a state joins the first cluster whose founder is similar enough (GiGPO's option).

    States of a group are taken in the order of slot and turn; similarity is the ratio of difflib, symmetric here: the larger
    of both directions, without its heuristic for frequent characters.
    """

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "similar_state"
    views: ClassVar[tuple[str, ...]] = ("observation",)
    threshold: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Smallest ratio 2·(matching characters)/(all characters) of two texts in one cluster."""

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level; raises ValueError when the rows carry no texts of observations."""
        exact = Observation().levels(rows)[0].ids
        if not exact.size:
            return (Level("similar", exact),)
        texts = rows.texts.get("observation")
        if texts is None:
            raise ValueError("match=similar_state compares the texts of observations, and these rows carry none")
        first = np.sort(first_index(exact))  # of each distinct state of a group, in order of occurrence
        founders: dict[int, list[tuple[int, str]]] = {}
        cluster = np.zeros(int(exact.max()) + 1, np.int64)
        for state in first.tolist():
            text = texts[rows.view("observation")[state]]
            known = founders.setdefault(int(rows.state_group[state]), [])
            found = next((founder for founder, other in known if self._similar(text, other)), None)
            if found is None:
                found = int(exact[state])
                known.append((found, text))
            cluster[exact[state]] = found
        return (Level("similar", dense(cluster[exact])),)

    def _similar(self, a: str, b: str) -> bool:
        total = len(a) + len(b)
        if 2 * min(len(a), len(b)) < self.threshold * total:  # no matching could reach the threshold
            return False
        return any(_ratio(x, y, self.threshold) >= self.threshold for x, y in ((a, b), (b, a)))


def first_visit(rows: Rows) -> Bools:
    """Whether each state [S] shows its trajectory an observation for the first time."""
    observation = Observation().levels(rows)[0].ids
    first = np.zeros(len(observation), np.bool_)
    first[first_index(joint(rows.state_trajectory, observation))] = True
    return first


def state_turn(rows: Rows) -> Ints:
    """Number of decisions before each state of its trajectory [S]."""
    number = count(rows.state_trajectory, len(rows.length))
    first = np.cumsum(number) - number  # the states of a trajectory are contiguous
    return np.asarray(np.arange(len(rows.state_trajectory)) - first[rows.state_trajectory], dtype=np.int64)


def prefix_ids(rows: Rows) -> Ints:
    """Id of everything seen and done before each state [S], its own observation included: equal for equal full histories."""
    present = Observation().levels(rows)[0].ids
    # the action after which each state was reached; the first state of a trajectory was reached by none
    reached = np.zeros(len(present), np.int64)
    # and an empty response does nothing that could tell two histories apart
    reached[rows.state + 1] = np.where(rows.trainable, rows.action + 1, 0)
    step, turn = joint(reached, present), state_turn(rows)
    ids = np.zeros(len(present), np.int64)
    by_turn = np.split(np.argsort(turn, kind="stable"), np.cumsum(count(turn, 0))[:-1])
    for depth, here in enumerate(by_turn):
        before = ids[here - 1] + 1 if depth else np.zeros(len(here), np.int64)
        ids[here] = joint(before, step[here])
    return joint(turn, ids)


def _extended(longer: Ints, present: Ints) -> Ints:
    """Joint id of the history before each state and the state itself; the states of a trajectory are contiguous."""
    before = np.concatenate([np.zeros(1, np.int64), longer[:-1]])[: len(longer)]
    return joint(before, present)


def _alone(ids: Ints, where: np.ndarray) -> Ints:
    """The same ids, with one of its own for each marked state."""
    return dense(np.where(where, int(ids.max(initial=-1)) + 1 + np.arange(len(ids)), ids))


def _ratio(a: str, b: str, enough: float) -> float:
    matcher = difflib.SequenceMatcher(None, a, b, autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() >= enough else 0.0
