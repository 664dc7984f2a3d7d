"""The columnar form of a batch: one record per decision, with every text interned to an integer id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts.records import Channel, Group, RolloutBatch, State, Step, StopReason, Trajectory

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
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
    rubric: Ints
    """Joint id of (C, F); all zero where the environment has no rubric."""
    progress: Floats
    """Mean over channels of value/full, in [0, 1]; 0 without a rubric."""
    goal_progress: tuple[Ints, Ints]
    """Numerator and denominator of the channel `goal_progress`; 0/1 where absent."""
    goal_share: Floats
    """The same channel over its full value, in [0, 1]: the environment's own graded score of the state; 0 where absent."""
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
    def state_group(self) -> Ints:
        """Task group of every state [S]."""
        return self.trajectory_group[self.state_trajectory]

    @property
    def last(self) -> Bools:
        """Marks the last decision of each trajectory [N]."""
        return np.equal(self.turn, self.length[self.trajectory] - 1)

    @property
    def episode_return(self) -> Floats:
        """Return of every trajectory [M], shaping included."""
        return np.bincount(self.trajectory, weights=self.reward, minlength=len(self.length)).astype(np.float64)

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
        columns = _Columns()
        for index, group in enumerate(ordered):
            for trajectory in sorted(group.trajectories, key=lambda t: (t.slot, t.id)):
                columns.add(index, group, trajectory)
        return columns.finish(ordered)


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


_NO_GOAL = Channel(Fraction(0), Fraction(1))


class _Interner:
    """Dense ids for hashable keys, in order of first appearance."""

    def __init__(self) -> None:
        self.ids: dict[object, int] = {}

    def __call__(self, key: object) -> int:
        return self.ids.setdefault(key, len(self.ids))

    def texts(self) -> tuple[str, ...]:
        return tuple(str(key) for key in self.ids)


class _Columns:
    """Collects the columns of `Rows` while walking the records once."""

    def __init__(self) -> None:
        self.decisions: list[tuple[int, int, int, int, float, bool, bool, bool, int, int]] = []
        self.trajectories: list[tuple[int, int, int, float, bool, float, bool]] = []
        self.names: list[str] = []
        self.states: list[tuple[int, int, float, int, int, float]] = []
        self.view_ids: dict[str, list[int]] = {}
        self.interners: dict[str, _Interner] = {}
        self.rubrics, self.actions = _Interner(), _Interner()
        self.features: dict[str, list[NDArray[np.float32]]] = {}

    def add(self, index: int, group: Group, trajectory: Trajectory) -> None:
        number, failed = len(self.trajectories), trajectory.stop is StopReason.ERROR
        steps = () if failed else tuple(sorted(trajectory.steps, key=lambda s: s.turn))
        self.names.append(trajectory.id)
        self.trajectories.append(
            (index, trajectory.slot, len(steps), sum(s.reward for s in steps), trajectory.success, trajectory.score, failed)
        )
        if failed:
            return
        _check_trajectory(group, trajectory, steps)
        first = len(self.states)
        for state in trajectory.states:
            self._add_state(number, state, group, trajectory)
        for step in steps:
            self.decisions.append(
                (index, number, step.turn, trajectory.slot, step.reward, step.valid, step.parsed,
                 len(step.response_ids) > 0, self.actions(step.action_key), first + step.turn)
            )  # fmt: skip
            for name, value in step.features.items():
                self.features.setdefault(name, []).append(value)

    def _add_state(self, number: int, state: State, group: Group, trajectory: Trajectory) -> None:
        if not self.states:
            self.view_ids = {name: [] for name in state.views}
            self.interners = {name: _Interner() for name in state.views}
        if state.views.keys() != self.view_ids.keys():
            raise ValueError(
                f"states carry different views: {sorted(state.views)} at group {group.id!r}, trajectory {trajectory.id!r}, "
                f"{sorted(self.view_ids)} before"
            )
        for name, text in state.views.items():
            self.view_ids[name].append(self.interners[name](text))
        channels = state.rubric
        key = (tuple((name, c.value) for name, c in sorted(channels.items())), state.frontier)
        shares = [float(c.value / c.full) for c in channels.values() if c.full]
        goal = channels.get("goal_progress", _NO_GOAL)
        progress = sum(shares) / len(shares) if shares else 0.0
        share = float(goal.value / goal.full) if goal.full else 0.0
        self.states.append((number, self.rubrics(key), progress, goal.value.numerator, goal.value.denominator, share))

    def finish(self, groups: tuple[Group, ...]) -> Rows:
        decision = list(zip(*self.decisions, strict=True)) or [()] * 10
        trajectory = list(zip(*self.trajectories, strict=True)) or [()] * 7
        state = list(zip(*self.states, strict=True)) or [()] * 6
        for name, values in self.features.items():
            if len(values) != len(self.decisions):
                raise ValueError(f"feature {name!r} is recorded for {len(values)} of {len(self.decisions)} decisions")
        rows = Rows(
            group=_ints(decision[0]),
            trajectory=_ints(decision[1]),
            turn=_ints(decision[2]),
            slot=_ints(decision[3]),
            reward=np.array(decision[4], dtype=np.float64),
            valid=np.array(decision[5], dtype=np.bool_),
            parsed=np.array(decision[6], dtype=np.bool_),
            trainable=np.array(decision[7], dtype=np.bool_),
            action=_ints(decision[8]),
            state=_ints(decision[9]),
            trajectory_group=_ints(trajectory[0]),
            trajectory_slot=_ints(trajectory[1]),
            length=_ints(trajectory[2]),
            outcome=np.array(trajectory[3], dtype=np.float64),
            success=np.array(trajectory[4], dtype=np.bool_),
            score=np.array(trajectory[5], dtype=np.float64),
            error=np.array(trajectory[6], dtype=np.bool_),
            state_trajectory=_ints(state[0]),
            views={name: _ints(ids) for name, ids in self.view_ids.items()},
            rubric=_ints(state[1]),
            progress=np.array(state[2], dtype=np.float64),
            goal_progress=(_ints(state[3]), _ints(state[4])),
            goal_share=np.array(state[5], dtype=np.float64),
            group_names=tuple(g.id for g in groups),
            task_ids=tuple(g.task_id for g in groups),
            trajectory_names=tuple(self.names),
            texts={name: i.texts() for name, i in {**self.interners, "action": self.actions}.items()},
            features={name: _stack(name, values) for name, values in self.features.items()},
        )
        check_finite(rows, rows.reward)
        for column in (*vars(rows).values(), *rows.views.values(), *rows.goal_progress, *rows.features.values()):
            if isinstance(column, np.ndarray):
                column.setflags(write=False)  # one method's credit must not change what the next one sees
        return rows


def _stack(name: str, values: list[NDArray[np.float32]]) -> NDArray[np.float32]:
    """One array [N, ...] of a feature; raises ValueError naming the feature whose shape varies."""
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


def _check_trajectory(group: Group, trajectory: Trajectory, steps: tuple[Step, ...]) -> None:
    """Turns 0 … T-1 each once and T+1 states, or ValueError naming the turn."""
    for expected, step in enumerate(steps):
        if step.turn != expected:
            raise ValueError(
                f"{describe(group.id, trajectory.id, step.turn)}: expected turn {expected}; turns must run 0 … T-1, each once"
            )
    if len(trajectory.states) != len(trajectory.steps) + 1:
        raise ValueError(
            f"group {group.id!r}, trajectory {trajectory.id!r}: {len(trajectory.steps)} decisions need "
            f"{len(trajectory.steps) + 1} states, got {len(trajectory.states)}"
        )
