"""Episodes that play elsewhere and are fewer at a time than asked for: no trajectory depends on it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from corridor import COMMANDS, Corridor, Fault, Walk
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.protocol import Task, TwoPhaseEpisode
from creditlab.policy.engine import Sample
from creditlab.policy.policy import Decision
from creditlab.policy.prompts import Projection
from creditlab.policy.settings import PromptSettings
from creditlab.rollouts import StopReason, Trajectory, Transition
from creditlab.training.collect import Assignment, Timing, play
from creditlab.training.seeds import derive

Log = list[tuple[str, str, Any]]
"""What was done (begin, result, close), with which task, with which action."""


class Chance:
    """A policy that reads its action off the random numbers alone, and keeps them."""

    settings = PromptSettings(max_response_tokens=1)

    def __init__(self, log: Log | None = None, forever: str | None = None) -> None:
        self.log, self.forever = log, forever
        self.numbers: list[float] = []

    def decide(self, contexts: Any, uniforms: Any, temperature: float) -> list[Decision]:
        if self.log is not None:
            self.log.append(("decide", "", len(contexts)))
        self.numbers += uniforms[:, 0].tolist()
        return [self._decision(int(uniform * 4)) for uniform in uniforms[:, 0]]

    def _decision(self, index: int) -> Decision:
        action = self.forever or (*COMMANDS, "sing")[index]
        ids = np.array([index], np.int32)
        sample = Sample(ids, np.zeros(1, np.float32), False)
        return Decision(ids, False, sample, action, Projection(action, True, True))


class FarWalk:
    """A walk that is done elsewhere: its work happens as soon as it is asked for."""

    def __init__(self, walk: Walk, land: Elsewhere) -> None:
        self.walk, self.land = walk, land
        self.answer: Transition | Exception | None = None

    def begin(self, action: str | None) -> None:
        self.land.log.append(("begin", self.walk.task.id, action))
        assert self.answer is None, "asked again before the answer was taken"
        if action is None:
            self.land.enter(self)
        try:
            self.answer = self.walk.start() if action is None else self.walk.step(action)
        except Exception as error:
            self.answer = error

    def result(self) -> Transition:
        self.land.log.append(("result", self.walk.task.id, None))
        answer, self.answer = self.answer, None
        assert answer is not None, "nothing was asked"
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.land.log.append(("close", self.walk.task.id, None))
        self.land.open.discard(self)


class Elsewhere(Corridor):
    """The corridor with a limited number of places, counted."""

    def __init__(self, width: int | None, **options: Any) -> None:
        super().__init__(**options)
        self.width = width
        self.open: set[FarWalk] = set()
        self.log: Log = []

    def episode(self, task: Task) -> Any:
        return FarWalk(super().episode(task), self)

    def enter(self, walk: FarWalk) -> None:
        self.open.add(walk)
        assert self.width is None or len(self.open) <= self.width


def assignments_of(env: Corridor, seed: int) -> list[Assignment]:
    return [Assignment(f"e{i}", task, i, (seed, task.id)) for i, task in enumerate(env.train_tasks())]


def summary(trajectories: list[Trajectory]) -> list[Any]:
    """Everything that a trajectory holds, comparable."""
    return [
        (t.id, t.slot, t.stop, t.score, t.error, t.states, [(s.turn, s.action, s.reward, s.effective) for s in t.steps])
        for t in trajectories
    ]


def played(env: Corridor, seed: int) -> list[Any]:
    return summary(play(env, Chance(), assignments_of(env, seed), 1.0, Timing()))


@settings(max_examples=60, deadline=None)
@given(
    starts=st.lists(st.integers(-3, 2), min_size=1, max_size=9),
    width=st.integers(1, 10),
    horizon=st.integers(1, 7),
    faulty=st.sets(st.tuples(st.integers(0, 8), st.sampled_from(["start", "step"])), max_size=4),
    seed=st.integers(0, 1000),
)
def test_trajectories_do_not_depend_on_how_many_are_open_nor_on_where_they_play(
    starts: list[int], width: int, horizon: int, faulty: set[tuple[int, str]], seed: int
) -> None:
    options: dict[str, Any] = {
        "starts": tuple(starts),
        "horizon": horizon,
        "fault": lambda number, moment: (number, moment) in faulty,
    }
    here = played(Corridor(**options), seed)
    narrow = Elsewhere(width, **options)
    assert played(narrow, seed) == here
    assert played(Elsewhere(None, **options), seed) == here
    assert not narrow.open
    assert [row[0] for row in here] == [f"e{i}" for i in range(len(starts))]
    assert all(len(row[-1]) <= horizon for row in here)
    failed = {number for number, moment in faulty if number < len(starts)} - {
        i for i, start in enumerate(starts) if start == 2 and (i, "start") not in faulty
    }
    assert {i for i, row in enumerate(here) if row[2] is StopReason.ERROR} == failed


def test_everybody_is_asked_before_anybody_is_waited_for_and_places_are_filled_again() -> None:
    env = Elsewhere(2, starts=(1, 0, 1), horizon=9)
    policy = Chance(env.log, forever="right")
    trajectories = play(env, policy, assignments_of(env, 0), 1.0, Timing())
    assert [len(t.steps) for t in trajectories] == [1, 2, 1]
    assert env.log == [
        ("begin", "t0", None), ("begin", "t1", None), ("result", "t0", None), ("result", "t1", None),
        ("decide", "", 2),
        ("begin", "t0", "right"), ("begin", "t1", "right"), ("result", "t0", None), ("result", "t1", None),
        ("close", "t0", None),
        # the next one starts while the policy decides about the others
        ("begin", "t2", None), ("decide", "", 1), ("begin", "t1", "right"), ("result", "t1", None), ("result", "t2", None),
        ("close", "t1", None),
        ("decide", "", 1), ("begin", "t2", "right"), ("result", "t2", None), ("close", "t2", None),
    ]  # fmt: skip


def test_the_horizon_is_counted_per_episode() -> None:
    env = Elsewhere(1, starts=(-9, -9, -9), horizon=3)
    trajectories = play(env, Chance(), assignments_of(env, 5), 1.0, Timing())
    assert [[step.turn for step in t.steps] for t in trajectories] == [[0, 1, 2]] * 3
    assert {t.stop for t in trajectories} == {StopReason.TRUNCATED}


@pytest.mark.parametrize("width", [1, 2, None])
def test_every_turn_has_random_numbers_of_its_own_derived_from_names(width: int | None) -> None:
    env, policy = Elsewhere(width, starts=(-9, -9), horizon=3), Chance()
    play(env, policy, assignments_of(env, 5), 1.0, Timing())
    expected = [derive(5, task, turn).random(1)[0] for task in ("t0", "t1") for turn in range(3)]
    assert sorted(policy.numbers) == sorted(expected)
    assert len(set(expected)) == 6


def test_an_interruption_closes_what_is_open() -> None:
    def interrupt_third_start(number: int, moment: str) -> bool:
        if number == 2:
            raise KeyboardInterrupt
        return False

    fault: Fault = interrupt_third_start
    env = Elsewhere(3, fault=fault)
    with pytest.raises(KeyboardInterrupt):
        play(env, Chance(), assignments_of(env, 0), 1.0, Timing())
    assert {task for verb, task, _ in env.log if verb == "close"} == {"t0", "t1", "t2"}
    assert not env.open


def test_progress_counts_finished_episodes() -> None:
    env, seen = Elsewhere(2, starts=(2, 1, 1), horizon=4), []
    play(
        env,
        Chance(forever="right"),
        assignments_of(env, 0),
        1.0,
        Timing(),
        lambda done, total: seen.append((done, total)),
    )
    assert seen == [(0, 3), (1, 3), (2, 3)]


def test_the_far_walk_is_what_the_rollout_core_asks_for() -> None:
    assert isinstance(FarWalk(Walk(Task("t", "f", "g"), 0, lambda number, moment: False, 0), Elsewhere(1)), TwoPhaseEpisode)
    assert not isinstance(Corridor().episode(Corridor().train_tasks()[0]), TwoPhaseEpisode)
