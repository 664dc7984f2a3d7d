"""What goes wrong while rollouts are collected is recorded, named and counted, and enters no statistic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from creditlab_grpo import GRPO
from numpy.typing import NDArray

from creditlab.environments.protocol import Task
from creditlab.policy.engine import Sample
from creditlab.policy.policy import Decision
from creditlab.policy.prompts import Context, Projection
from creditlab.rollouts import Group, Rows, State, StopReason, Transition, View
from creditlab.tracking import metrics as m
from creditlab.training.collect import Timing, collect
from creditlab.training.evaluation import episode_metrics

HORIZON = 3


@dataclass
class ScriptedEpisode:
    """Solves itself at a given turn, or raises at one; turn 0 is the start."""

    task: Task
    solved_at: int = 99
    breaks_at: int = 99
    turn: int = 0

    def start(self) -> Transition:
        return self._now()

    def step(self, action: str) -> Transition:
        self.turn += 1
        return self._now(action)

    def _now(self, action: str = "") -> Transition:
        if self.turn == self.breaks_at:
            raise ConnectionError("the simulator is gone")
        solved = self.turn == self.solved_at
        view, state = View("here", ("go",)), State({"observation": f"turn {self.turn}"})
        return Transition(view, state, reward=10.0 * solved, done=solved, success=solved, score=solved, action_key=action)


@dataclass
class ScriptedEnvironment:
    """Gives the episodes of its script in order."""

    script: list[dict[str, int]]
    horizon: int = HORIZON
    role: str = ""

    def episode(self, task: Task) -> ScriptedEpisode:
        return ScriptedEpisode(task, **self.script.pop(0))


@dataclass
class ScriptedPolicy:
    """Answers `go` with one token and remembers the random numbers it was given."""

    cut: bool = False
    seen: list[NDArray[np.float64]] = field(default_factory=list)
    settings: Any = field(default_factory=lambda: SimpleNamespace(max_response_tokens=4))

    def decide(self, contexts: Sequence[Context], uniforms: NDArray[np.float64], temperature: float) -> list[Decision]:
        self.seen.append(uniforms)
        sample = Sample(np.array([5], np.int32), np.array([-0.5], np.float32), cut=self.cut)
        decision = Decision(np.array([1, 2], np.int32), self.cut, sample, "go", Projection("go", True, True))
        return [decision] * len(contexts)


def gathered(
    *script: dict[str, int], size: int, policy: ScriptedPolicy | None = None, timing: Timing | None = None, first: int = 0
) -> tuple[Group, ...]:
    """One task group of `size` siblings for every `size` episodes of the script."""
    tasks = [(first + i, Task(f"task {first + i}", "pick", "do it")) for i in range(len(script) // size)]
    env: Any = ScriptedEnvironment(list(script))
    player: Any = policy or ScriptedPolicy()
    return collect(env, player, tasks, size, 7, 3, 1.0, timing or Timing())


SOLVES, FAILS, BREAKS, NEVER_STARTS = {"solved_at": 2}, {}, {"breaks_at": 2}, {"breaks_at": 0}


def test_an_exception_of_the_environment_is_an_error_and_no_failure() -> None:
    (group,) = gathered(SOLVES, BREAKS, FAILS, NEVER_STARTS, size=4)
    assert [t.stop for t in group.trajectories] == [
        StopReason.SUCCESS, StopReason.ERROR, StopReason.TRUNCATED, StopReason.ERROR,
    ]  # fmt: skip
    assert [t.slot for t in group.trajectories] == [0, 1, 2, 3], "a failed trajectory keeps its slot"
    assert group.trajectories[1].error == "task 'task 0', last command 'go': ConnectionError: the simulator is gone"
    assert group.trajectories[3].error == "task 'task 0', last command '(start)': ConnectionError: the simulator is gone"
    assert [len(t.steps) for t in group.trajectories] == [2, 1, 3, 0], "what had happened before is kept"


def test_errors_enter_no_statistic_but_their_own() -> None:
    (broken,) = gathered(SOLVES, BREAKS, FAILS, NEVER_STARTS, size=4)
    (whole,) = gathered(SOLVES, FAILS, size=2)
    with_errors, without = episode_metrics(broken.trajectories), episode_metrics(whole.trajectories)
    assert with_errors.pop(m.EPISODE_ERRORS) == 2
    assert without.pop(m.EPISODE_ERRORS) == 0
    assert with_errors == without
    assert with_errors[m.SUCCESS_RATE] == 0.5
    assert with_errors[m.REWARD] == 5
    assert with_errors[m.TRUNCATED] == 0.5


def test_errors_change_no_advantage_of_their_siblings() -> None:
    """Samples 10 and 0, of two and three turns: ±5 around their mean, whatever failed beside them."""
    expected = [5.0] * 2 + [-5.0] * 3
    for script in ((SOLVES, FAILS), (NEVER_STARTS, SOLVES, BREAKS, FAILS)):
        rows = Rows.from_groups(gathered(*script, size=len(script)))
        np.testing.assert_array_equal(GRPO(normalise="mean")(rows).advantages, expected)


def test_the_siblings_of_a_task_share_one_group() -> None:
    """Names come from update and position, never from the single rollout."""
    groups = gathered(*[SOLVES, FAILS, FAILS] * 2, size=3)
    assert [(g.id, g.task_id, [t.slot for t in g.trajectories]) for g in groups] == [
        ("u7-g0", "task 0", [0, 1, 2]), ("u7-g1", "task 1", [0, 1, 2]),
    ]  # fmt: skip
    assert len({t.id for g in groups for t in g.trajectories}) == 6


@pytest.mark.parametrize("cut", [False, True])
def test_what_is_cut_is_counted(cut: bool) -> None:
    timing = Timing()
    (group,) = gathered(SOLVES, FAILS, size=2, policy=ScriptedPolicy(cut=cut), timing=timing)
    metrics = episode_metrics(group.trajectories)
    assert metrics[m.CUT_RATIO] == float(cut)
    assert timing.prompts_cut == (5 if cut else 0)


def test_random_numbers_belong_to_a_decision_and_not_to_its_company() -> None:
    """The second task played beside the first one, and played alone: its decisions get the same numbers."""
    together, alone = ScriptedPolicy(), ScriptedPolicy()
    gathered(*[FAILS] * 4, size=2, policy=together)
    gathered(*[FAILS] * 2, size=2, policy=alone, first=1)
    for both, own in zip(together.seen, alone.seen, strict=True):
        np.testing.assert_array_equal(both[2:], own)
    everything = np.concatenate(together.seen).ravel()
    assert len(np.unique(everything)) == len(everything) == HORIZON * 4 * 4, "no two draws share a number"
