"""Small rollouts from literals.

rows = rows_of(siblings("task", walk(move("A", "go"), move("B", "finish"), success=True),
                                walk(move("A", "wait"), end="A")))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from creditlab.rollouts import Channel, Group, Rows, State, Step, StopReason, Trajectory

SUCCESS_REWARD = 10.0


@dataclass(frozen=True, slots=True)
class Move:
    """One decision: the state it was taken in, and what was done."""

    state: State
    action: str
    reward: float | None
    valid: bool
    parsed: bool
    trainable: bool


def state(
    name: str,
    *,
    exact: str | None = None,
    coarse: str | None = None,
    rubric: Mapping[str, tuple[int | Fraction, int]] | None = None,
    frontier: tuple[str, ...] = (),
) -> State:
    """A state whose views all read `name` unless given; `rubric` maps a channel to (value, full value)."""
    views = {"observation": name, "graph": name, "exact": name if exact is None else exact}
    channels = {key: Channel(Fraction(value), Fraction(full)) for key, (value, full) in (rubric or {}).items()}
    return State({**views, "coarse": name if coarse is None else coarse}, channels, frontier)


def move(
    before: str | State,
    action: str,
    *,
    reward: float | None = None,
    valid: bool = True,
    parsed: bool = True,
    trainable: bool = True,
) -> Move:
    """A decision; without a reward it gets 10 when it ends a success and 0 otherwise."""
    return Move(state(before) if isinstance(before, str) else before, action, reward, valid, parsed, trainable)


def walk(
    *moves: Move,
    end: str | State | None = None,
    success: bool = False,
    score: float | None = None,
    slot: int | None = None,
    error: str | None = None,
) -> Trajectory:
    """A trajectory that ends in the state `end` (by default one of its own); `siblings` gives it its id and slot."""
    stop = StopReason.ERROR if error else StopReason.SUCCESS if success else StopReason.FAILURE
    last = state("the end") if end is None else state(end) if isinstance(end, str) else end
    return Trajectory(
        id="",
        slot=-1 if slot is None else slot,
        steps=tuple(_step(turn, m, success and turn == len(moves) - 1) for turn, m in enumerate(moves)),
        states=(*(m.state for m in moves), last),
        stop=stop,
        score=float(success) if score is None else score,
        error=error,
    )


def siblings(name: str, *trajectories: Trajectory, task: str = "task") -> Group:
    """A task group; trajectories without a slot get their position, and all of them ids such as `name/0`."""
    placed = [replace(t, slot=index if t.slot < 0 else t.slot) for index, t in enumerate(trajectories)]
    return Group(name, task, "family", tuple(replace(t, id=f"{name}/{t.slot}") for t in placed))


def rows_of(*groups: Group) -> Rows:
    """The columnar form of task groups."""
    return Rows.from_groups(groups)


def random_groups(
    rng: np.random.Generator,
    *,
    groups: int = 3,
    slots: int = 8,
    turns: int = 6,
    states: int = 4,
    actions: int = 2,
    errors: float = 0.1,
    untrained: float = 0.05,
) -> tuple[Group, ...]:
    """Task groups with everything a method may meet: invalid, unparsed and empty decisions, failures, errors, rubrics.

    Every group has slots 0 … slots−1; state and action names recur in all of them. `errors` and `untrained` are the shares
    of trajectories that failed to run and of decisions without response tokens.
    """
    return tuple(
        siblings(f"g{index}", *(_random_walk(rng, turns, states, actions, errors, untrained) for _ in range(slots)))
        for index in range(groups)
    )


def _random_walk(
    rng: np.random.Generator, turns: int, states: int, actions: int, errors: float, untrained: float
) -> Trajectory:
    length = int(rng.integers(1, turns + 1))
    visited = [_random_state(rng, states) for _ in range(length + 1)]
    moves = [
        move(
            visited[turn],
            f"a{rng.integers(actions)}",
            valid=bool(rng.random() < 0.8),
            parsed=bool(rng.random() < 0.9),
            trainable=bool(rng.random() < 1 - untrained),
        )
        for turn in range(length)
    ]
    success = bool(rng.random() < 0.5)
    score = 1.0 if success else float(rng.integers(4)) / 4
    error = "the environment timed out" if rng.random() < errors else None
    return walk(*moves, end=visited[-1], success=success, score=score, error=error)


def _random_state(rng: np.random.Generator, states: int) -> State:
    """A state with a coarse view that is no function of the exact one; few keys, so that siblings meet."""
    name, done = int(rng.integers(states)), int(rng.integers(2))
    progress = Fraction(done * (1 + name % 2), 3)
    rubric: dict[str, tuple[int | Fraction, int]] = {"target_acquired": (done, 1), "goal_progress": (progress, 1)}
    return state(f"s{name}", exact=f"e{name // 2}", coarse=f"c{rng.integers(2)}", rubric=rubric)


def _step(turn: int, made: Move, solves: bool) -> Step:
    tokens = np.arange(1 + turn % 3 if made.trainable else 0, dtype=np.int32)
    reward = (SUCCESS_REWARD if solves else 0.0) if made.reward is None else made.reward
    return Step(
        turn=turn,
        prompt_ids=np.zeros(1, np.int32),
        response_ids=tokens,
        logprobs=np.zeros(len(tokens), np.float32),
        response=made.action,
        action=made.action,
        action_key=made.action,
        reward=reward,
        valid=made.valid,
        parsed=made.parsed,
    )
