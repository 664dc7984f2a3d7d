"""Synthetic rollouts for the credit benchmark: task groups that walk through rooms as siblings on ALFWorld do."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts import Channel, Group, State, Step, StopReason, Trajectory

TEXT = 600
"""Characters of an observation."""
ROOMS = 25
"""Places of a task; each reads differently before and after the object was taken, so about twice as many observations."""
ACTIONS = 4

_PROMPT, _RESPONSE, _LOGPROBS = np.zeros(1, np.int32), np.zeros(8, np.int32), np.zeros(8, np.float32)
_NOTHING, _NO_LOGPROBS = np.zeros(0, np.int32), np.zeros(0, np.float32)


def rollouts(groups: int, slots: int, turns: int, *, hidden: int = 0, mixed: bool = False) -> tuple[Group, ...]:
    """Task groups whose trajectories all take `turns` decisions; mixed ones end early when they solve the task or fail.

    With `hidden`, decisions carry hidden states of that width, those that CCPO and BiPACE ask for.
    """
    rng = np.random.default_rng(0)
    return tuple(_group(rng, f"g{index}", slots, turns, hidden, mixed) for index in range(groups))


def _group(rng: np.random.Generator, name: str, slots: int, turns: int, hidden: int, mixed: bool) -> Group:
    solvable = rng.random() < 0.8
    directions = rng.normal(size=(2 * ROOMS, hidden)) if hidden else None
    trajectories = []
    for slot in range(slots):
        success = bool(solvable and rng.random() < 0.5)
        length = int(rng.integers(5, turns + 1)) if mixed and (success or rng.random() < 0.1) else turns
        trajectories.append(_trajectory(rng, name, slot, length, success, directions, mixed))
    return Group(name, f"task {name}", "pick", tuple(trajectories))


def _trajectory(
    rng: np.random.Generator,
    task: str,
    slot: int,
    length: int,
    success: bool,
    directions: NDArray[np.float64] | None,
    mixed: bool,
) -> Trajectory:
    rooms = np.abs(np.cumsum(rng.integers(-2, 3, length + 1))) % ROOMS
    taken, placed = sorted(rng.integers(1, length + 1, 2).tolist())
    states = tuple(_state(task, int(room), turn, turn >= taken, turn >= placed) for turn, room in enumerate(rooms))
    action, valid, parsed = rng.integers(ACTIONS, size=length), rng.random(length) < 0.95, rng.random(length) < 0.97
    empty = rng.random(length) < (0.01 if mixed else 0.0)
    features: list[Mapping[str, NDArray[np.float32]]] = [{} for _ in range(length)]
    if directions is not None:
        means = directions[rooms[:length] + ROOMS * (np.arange(length) >= taken)]
        actor, reference = (np.float32(means + 0.1 * rng.normal(size=means.shape)) for _ in range(2))
        features = [{"actor_hidden_-1": a, "reference_hidden": r} for a, r in zip(actor, reference, strict=True)]
    steps = tuple(
        Step(
            turn=turn,
            prompt_ids=_PROMPT,
            response_ids=_NOTHING if empty[turn] else _RESPONSE,
            logprobs=_NO_LOGPROBS if empty[turn] else _LOGPROBS,
            response="",
            action="" if empty[turn] else f"go to room {action[turn]}",
            action_key="" if empty[turn] else f"go to room {action[turn]}",
            reward=10.0 if success and turn == length - 1 else 0.0,
            valid=bool(valid[turn] and not empty[turn]),
            parsed=bool(parsed[turn] and not empty[turn]),
            features=features[turn],
        )
        for turn in range(length)
    )
    failed = mixed and rng.random() < 0.02
    return Trajectory(
        id=f"{task}/{slot}",
        slot=slot,
        steps=steps,
        states=states,
        stop=StopReason.ERROR if failed else StopReason.SUCCESS if success else StopReason.TRUNCATED,
        score=float(success),
        error="the environment timed out" if failed else None,
    )


def _state(task: str, room: int, turn: int, taken: bool, placed: bool) -> State:
    """A state whose texts and channels are objects of their own, as they are when each is read off an environment."""
    status = (
        f"{task}, room {room}, {'holding nothing' if taken == placed else 'holding the mug'}, {'moved' if placed else ''}"
    )
    observation = (f"You are in room {room} of {task}. {'The mug is gone. ' if taken else ''}" + "You see a shelf. " * 40)[
        :TEXT
    ]
    values = {
        "goal_progress": placed,
        "target_acquired": taken,
        "target_in_hand": taken and not placed,
        "target_placed": placed,
    }
    return State(
        views={
            "observation": observation,
            "graph": f"{observation}\n{status}\n{', '.join(f'go to room {other}' for other in range(8))}",
            "exact": status,
            "coarse": f"{task}, {taken}, {placed}, {turn // 10}",
        },
        rubric={name: Channel(Fraction(int(value)), Fraction(1)) for name, value in values.items()},
        frontier=("target_in_hand",) if not taken else ("target_placed",) if not placed else (),
    )
