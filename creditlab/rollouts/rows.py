"""The columnar form of a batch: one record per decision, with every text interned to an integer id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts.columns import Floats, Ints, OnDemand, Rubrics, interned, read_only
from creditlab.rollouts.records import Group, RolloutBatch, State, Step, StopReason, Trajectory

Bools = NDArray[np.bool_]

GOAL = -1
"""Pseudo-state reached by the last decision of a trajectory with a positive return; no recorded state can equal it."""


@dataclass(frozen=True)
class Rows:
    """Decisions [N], trajectories [M] and states [S] of one update, sorted by (group, slot, turn).

    Error trajectories keep their entry in the trajectory columns but own no decision and no state.
    Ids are dense integers; ids of two views are unrelated. A text occurs under one id across groups, so a key that must
    stay inside its task group has to be combined with `state_group`.
    """

    # one entry per decision [N]
    group: Ints
    trajectory: Ints
    turn: Ints
    slot: Ints
    reward: Floats
    """Reward of the step, after shaping if any."""
    valid: Bools
    parsed: Bools
    trainable: Bools
    """False for a decision without response tokens: it takes part in no statistic and no loss."""
    action: Ints
    state: Ints
    """Index of the state before the action; the state after it is `state + 1`."""
    # one entry per trajectory [M]
    trajectory_group: Ints
    trajectory_slot: Ints
    length: Ints
    outcome: Floats
    """Sum of the environment's own rewards R, never changed by shaping."""
    success: Bools
    score: Floats
    error: Bools
    # one entry per state [S]
    state_trajectory: Ints
    views: Mapping[str, Ints]
    """Ids of each view, made when they are first read."""
    rubrics: Rubrics
    # names and texts
    group_names: tuple[str, ...]
    task_ids: tuple[str, ...]
    trajectory_names: tuple[str, ...]
    texts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Per view and for `action`: the text behind each id."""
    features: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)
    """Features recorded at rollout time [N, ...], such as hidden states."""

    def __len__(self) -> int:
        return len(self.group)

    @property
    def groups(self) -> int:
        """Number of task groups, P."""
        return len(self.group_names)

    @property
    def rubric(self) -> Ints:
        """Joint id of (C, F) of every state [S]; all zero where the environment has no rubric."""
        return self.rubrics.columns.ids

    @property
    def progress(self) -> Floats:
        """Mean over channels of value/full of every state [S], in [0, 1]; 0 without a rubric."""
        return self.rubrics.columns.progress

    @property
    def goal_progress(self) -> tuple[Ints, Ints]:
        """Numerators and denominators [S] of the channel `goal_progress`; 0/1 where absent."""
        return self.rubrics.columns.goal_progress

    @property
    def goal_share(self) -> Floats:
        """The same channel over its full value [S], in [0, 1]: the environment's own graded score; 0 where absent."""
        return self.rubrics.columns.goal_share

    @cached_property
    def state_group(self) -> Ints:
        """Task group of every state [S]."""
        return read_only(self.trajectory_group[self.state_trajectory])

    @cached_property
    def last(self) -> Bools:
        """Marks the last decision of each trajectory [N]."""
        return read_only(np.equal(self.turn, self.length[self.trajectory] - 1))

    @cached_property
    def trained_decisions(self) -> Ints:
        """Number of decisions with response tokens of every trajectory [M]."""
        return read_only(np.bincount(self.trajectory[self.trainable], minlength=len(self.length)).astype(np.int64))

    @cached_property
    def episode_return(self) -> Floats:
        """Return of every trajectory [M], shaping included."""
        total: Floats = np.bincount(self.trajectory, weights=self.reward, minlength=len(self.length)).astype(np.float64)
        return read_only(total)

    def view(self, name: str) -> Ints:
        """Ids of a named view over states [S]; raises ValueError naming the view and those recorded."""
        if name not in self.views:
            raise ValueError(
                f"the rollouts carry no state view {name!r}; recorded views: {', '.join(sorted(self.views)) or 'none'}"
            )
        return self.views[name]

    def with_rewards(self, reward: Floats) -> Rows:
        """The same rows under shaped rewards [N]; `outcome` keeps the environment's own return."""
        check_finite(self, reward)
        return replace(self, reward=np.asarray(reward, dtype=np.float64))

    def describe(self, row: int) -> str:
        """Names the group, trajectory and turn of a row, for messages."""
        return describe(self.group_names[self.group[row]], self.trajectory_names[self.trajectory[row]], int(self.turn[row]))

    @classmethod
    def from_batch(cls, batch: RolloutBatch) -> Rows:
        """Columns of a stored or fresh batch; raises ValueError naming the group, trajectory and turn at fault."""
        return cls.from_groups(batch.groups)

    @classmethod
    def from_groups(cls, groups: Iterable[Group]) -> Rows:
        """Columns of task groups; groups keep their order, siblings are sorted by slot."""
        ordered = tuple(groups)
        _check_unique((g.id for g in ordered), "group")
        _check_unique((t.id for g in ordered for t in g.trajectories), "trajectory")
        owner, trajectories = [], []
        for index, group in enumerate(ordered):
            for trajectory in sorted(group.trajectories, key=lambda t: (t.slot, t.id)):
                owner.append(index)
                trajectories.append(trajectory)
        return _collect(ordered, owner, trajectories)


def describe(group: str, trajectory: str, turn: int) -> str:
    """The one wording by which messages point at a decision."""
    return f"group {group!r}, trajectory {trajectory!r}, turn {turn}"


def check_finite(rows: Rows, values: Floats, what: str = "reward") -> None:
    """Raises ValueError naming the first row [N] whose value is NaN or infinite, or a wrong length."""
    if np.shape(values) != (len(rows),):
        raise ValueError(f"expected one {what} per decision: {len(rows)} rows, got shape {np.shape(values)}")
    bad = np.flatnonzero(~np.isfinite(values))
    if bad.size:
        raise ValueError(f"{what} is {values[bad[0]]} at {rows.describe(int(bad[0]))}; it must be finite")


def _collect(groups: tuple[Group, ...], owner: Sequence[int], trajectories: Sequence[Trajectory]) -> Rows:
    """The columns of trajectories and of their groups' positions: one pass over the records per column."""
    error = np.array([t.stop is StopReason.ERROR for t in trajectories], dtype=np.bool_)
    runs = [
        () if failed else _in_order(groups[index], t) for index, t, failed in zip(owner, trajectories, error, strict=True)
    ]
    steps = [step for run in runs for step in run]
    states = [state for t, failed in zip(trajectories, error, strict=True) if not failed for state in t.states]
    length, group, slot = _ints([len(run) for run in runs]), _ints(owner), _ints([t.slot for t in trajectories])
    trajectory = np.repeat(np.arange(len(length)), length)
    turn = np.arange(len(trajectory)) - (np.cumsum(length) - length)[trajectory]
    state_number = np.where(error, 0, length + 1)
    state_trajectory = np.repeat(np.arange(len(length)), state_number)
    reward = np.array([s.reward for s in steps], dtype=np.float64)
    _check_views(groups, owner, trajectories, states, state_trajectory)
    names = tuple(states[0].views) if states else ()
    views = OnDemand(names, lambda name: interned([s.views[name] for s in states]))
    action = interned([s.action_key for s in steps])
    rows = Rows(
        group=group[trajectory],
        trajectory=trajectory,
        turn=turn,
        slot=slot[trajectory],
        reward=reward,
        valid=np.array([s.valid for s in steps], dtype=np.bool_),
        parsed=np.array([s.parsed for s in steps], dtype=np.bool_),
        trainable=np.array([len(s.response_ids) > 0 for s in steps], dtype=np.bool_),
        action=action.ids,
        state=(np.cumsum(state_number) - state_number)[trajectory] + turn,
        trajectory_group=group,
        trajectory_slot=slot,
        length=length,
        outcome=np.bincount(trajectory, weights=reward, minlength=len(length)).astype(np.float64),
        success=np.array([t.success for t in trajectories], dtype=np.bool_),
        score=np.array([t.score for t in trajectories], dtype=np.float64),
        error=error,
        state_trajectory=state_trajectory,
        views=OnDemand(names, lambda name: views[name].ids),
        rubrics=Rubrics(states),
        group_names=tuple(g.id for g in groups),
        task_ids=tuple(g.task_id for g in groups),
        trajectory_names=tuple(t.id for t in trajectories),
        texts=OnDemand((*names, "action"), lambda name: (action if name == "action" else views[name]).texts),
        features={name: _feature(name, steps) for name in dict.fromkeys(name for s in steps for name in s.features)},
    )
    check_finite(rows, rows.reward)
    for column in (*vars(rows).values(), *rows.features.values()):
        if isinstance(column, np.ndarray):
            read_only(column)
    return rows


def _feature(name: str, steps: Sequence[Step]) -> NDArray[np.float32]:
    """One array [N, ...] of a feature; raises ValueError naming the feature that is missing somewhere or varies in shape."""
    values = [step.features[name] for step in steps if name in step.features]
    if len(values) != len(steps):
        raise ValueError(f"feature {name!r} is recorded for {len(values)} of {len(steps)} decisions")
    shapes = sorted({value.shape for value in values})
    if len(shapes) > 1:
        raise ValueError(f"feature {name!r} has shapes {shapes[0]} and {shapes[1]}; every decision needs the same one")
    return np.stack(values)


def _ints(values: Iterable[object]) -> Ints:
    return np.array(list(values), dtype=np.int64)


def _check_unique(names: Iterable[str], what: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} id {name!r} occurs twice in the batch; ids must be unique")
        seen.add(name)


def _in_order(group: Group, trajectory: Trajectory) -> Sequence[Step]:
    """The decisions by turn; raises ValueError naming the turn unless turns 0 … T-1 occur once each, with T+1 states."""
    steps: Sequence[Step] = trajectory.steps
    if any(step.turn != expected for expected, step in enumerate(steps)):
        steps = sorted(steps, key=lambda s: s.turn)
        wrong = next(((turn, step.turn) for turn, step in enumerate(steps) if step.turn != turn), None)
        if wrong:
            raise ValueError(
                f"{describe(group.id, trajectory.id, wrong[1])}: expected turn {wrong[0]}; turns must run 0 … T-1, each once"
            )
    if len(trajectory.states) != len(trajectory.steps) + 1:
        raise ValueError(
            f"group {group.id!r}, trajectory {trajectory.id!r}: {len(trajectory.steps)} decisions need "
            f"{len(trajectory.steps) + 1} states, got {len(trajectory.states)}"
        )
    return steps


def _check_views(
    groups: Sequence[Group], owner: Sequence[int], trajectories: Sequence[Trajectory], states: Sequence[State], of: Ints
) -> None:
    """Raises ValueError naming the first trajectory, by index of each state [S], whose states carry other views."""
    names = states[0].views.keys() if states else ()
    for index, state in enumerate(states):
        if state.views.keys() != names:
            number = of[index]
            raise ValueError(
                f"states carry different views: {sorted(state.views)} at group {groups[owner[number]].id!r}, trajectory "
                f"{trajectories[number].id!r}, {sorted(names)} before"
            )
