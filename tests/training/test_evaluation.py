"""Evaluation on a panel: numbers by hand, the same for the same weights whatever the batches."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from corridor import Corridor
from test_collect import walker

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.protocol import Panel, Task
from creditlab.policy.engine import Sample
from creditlab.policy.policy import Decision
from creditlab.policy.prompts import Projection
from creditlab.rollouts import State, StopReason, Trajectory
from creditlab.training.evaluation import _standard_error, evaluate, expected_informative


class Puppet:
    """A policy that does what a script says: task id to commands, one per turn."""

    class settings:  # noqa: N801  # stands in for an attribute
        max_response_tokens = 2

    def __init__(self, script: dict[str, list[str]]) -> None:
        self.script = script
        self.turns: dict[str, int] = {}

    def decide(self, contexts: Any, uniforms: Any, temperature: float) -> list[Decision]:
        return [self._decide(context.goal) for context in contexts]

    def _decide(self, goal: str) -> Decision:
        turn = self.turns[goal] = self.turns.get(goal, -1) + 1
        action = self.script[goal][turn]
        sample = Sample(np.zeros(1, np.int32), np.zeros(1, np.float32), cut=False)
        return Decision(np.zeros(1, np.int32), False, sample, action, Projection(action, action != "?", action != "?"))


def panel(*families: str) -> Panel:
    tasks = tuple(Task(f"p{i}", family, f"goal {i}", payload=0) for i, family in enumerate(families))
    return Panel("hand", tasks, tuple(range(len(tasks))), "hash")


def test_the_numbers_of_a_panel_by_hand() -> None:
    script = {
        "goal 0": ["right", "right"],
        "goal 1": ["right", "sing", "right"],
        "goal 2": ["left", "?", "stay", "left"],
        "goal 3": ["right", "right"],
        "goal 4": ["stay", "stay", "stay", "right"],
    }
    metrics = evaluate(Corridor(), Puppet(script), panel("pick", "look", "pick", "pick", "look"), 1.0)
    # solved 0, 1, 3 of 5; turns 2 + 3 + 4 + 2 + 4 = 15; without effect: sing, ?; invalid: ?
    assert metrics["val/success_rate"] == pytest.approx(3 / 5)
    assert metrics["val/success_rate_se"] == pytest.approx(math.sqrt(0.6 * 0.4 / 5))
    assert metrics["val/turns"] == pytest.approx(15 / 5)
    assert metrics["val/ineffective_rate"] == pytest.approx(2 / 15)
    assert metrics["val/invalid_rate"] == pytest.approx(1 / 15)
    assert metrics["val/pick/success_rate"] == pytest.approx(2 / 3)
    assert metrics["val/look/success_rate"] == pytest.approx(1 / 2)
    assert metrics["val/score"] == pytest.approx(3 / 5)
    assert (metrics["val/episodes"], metrics["val/errors"]) == (5.0, 0.0)


def test_an_episode_that_fails_counts_as_an_error_alone() -> None:
    told: list[str] = []
    env = Corridor(fault=lambda episode, moment: episode == 1 and moment == "start")
    script = {"goal 0": ["right", "right"], "goal 2": ["left"] * 4}
    metrics = evaluate(env, Puppet(script), panel("pick", "pick", "look"), 1.0, report=told.append)
    assert metrics["val/success_rate"] == pytest.approx(1 / 2)
    assert metrics["val/pick/success_rate"] == 1.0
    assert (metrics["val/episodes"], metrics["val/errors"]) == (2.0, 1.0)
    assert told == [
        "1 episodes of the evaluation failed, first: task 'p1', last command '(start)': CrashError: no such world"
    ]


def test_the_same_weights_give_the_same_numbers_whatever_the_batches() -> None:
    env = Corridor(horizon=6)
    frozen = env.panel(20, 7)
    states = torch.get_rng_state(), np.random.get_state()[1].copy()
    first = evaluate(env, walker(), frozen, 1.0)
    assert 0 < first["val/success_rate"] < 1
    assert evaluate(env, walker(), frozen, 1.0) == first
    assert evaluate(env, walker(3), frozen, 1.0) == first
    assert evaluate(env, walker(), env.panel(20, 8), 1.0) != first  # other sampling seeds
    assert torch.equal(states[0], torch.get_rng_state())
    assert np.array_equal(states[1], np.random.get_state()[1])


def test_greedy_evaluation_needs_no_seed() -> None:
    env = Corridor(horizon=6)
    assert evaluate(env, walker(), env.panel(8, 7), 0.0) == evaluate(env, walker(), env.panel(8, 8), 0.0)


def test_the_real_panel_is_the_same_every_time() -> None:
    first, again, other = (ALFWorld().panel(12, seed) for seed in (5, 5, 6))
    assert first.hash == again.hash != other.hash
    assert [t.id for t in first.tasks] == [t.id for t in again.tasks]
    assert first.seeds == again.seeds
    assert len(set(zip(first.seeds, (t.id for t in first.tasks), strict=True))) == 12


def test_episodes_of_one_task_are_no_independent_draws() -> None:
    """Two tasks of two episodes each, one always solved and one never: p = ½ and √(1² + 1²)/4, not √(¼/4)."""
    tasks = [Task("a", "f", ""), Task("a", "f", ""), Task("b", "f", ""), Task("b", "f", "")]
    stops = [StopReason.SUCCESS, StopReason.SUCCESS, StopReason.FAILURE, StopReason.FAILURE]
    played = [Trajectory(f"t{i}", 0, (), (State({}),), stop) for i, stop in enumerate(stops)]
    assert _standard_error(played, tasks, tasks) == pytest.approx(2**0.5 / 4)
    apart = [Task(str(i), "f", "") for i in range(4)]
    assert _standard_error(played, apart, apart) == pytest.approx((0.25 / 4) ** 0.5)


def test_expected_share_of_informative_groups() -> None:
    """Of groups of two at rate 1/2 half differ; at 0.18, 1 − .0324 − .6724 of them do; nothing differs at 0 and 1."""
    assert expected_informative(0.5, 2) == pytest.approx(0.5)
    assert expected_informative(0.18, 2) == pytest.approx(0.2952)
    assert expected_informative(0.0, 8) == expected_informative(1.0, 8) == 0.0
