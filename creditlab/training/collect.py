"""The rollout core: plays episodes in lock-step and records every decision as it was sampled."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from creditlab.environments.protocol import Environment, Episode, Task
from creditlab.policy.policy import Decision, Policy
from creditlab.policy.prompts import Context
from creditlab.rollouts import Group, State, Step, StopReason, Trajectory, Transition
from creditlab.training.seeds import derive


@dataclass(frozen=True, slots=True)
class Assignment:
    """One episode to play."""

    id: str
    """Trajectory id, unique in the run."""
    task: Task
    slot: int
    seed: tuple[int | str, ...]
    """Names from which its random numbers are derived; the turn is added."""


@dataclass
class Timing:
    """What collecting cost."""

    environment: float = 0.0
    """Seconds spent in the environment."""
    prompts_cut: int = 0
    """Prompts that had to be shortened."""


@dataclass
class _Run:
    """An episode in progress."""

    assignment: Assignment
    episode: Episode | None = None
    now: Transition | None = None
    states: list[State] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    history: list[tuple[str, str]] = field(default_factory=list)
    error: str | None = None

    @property
    def over(self) -> bool:
        return self.error is not None or (self.now is not None and self.now.done)

    def fail(self, error: Exception, command: str) -> None:
        """Records an environment failure: the trajectory keeps its slot and counts in no statistic."""
        self.error = f"task {self.assignment.task.id!r}, last command {command!r}: {type(error).__name__}: {error}"


def play(
    env: Environment,
    policy: Policy,
    assignments: Sequence[Assignment],
    temperature: float,
    timing: Timing,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trajectory]:
    """Plays all assignments to their end or the horizon, and returns their trajectories in order."""
    start = time.perf_counter()
    runs = [_begin(env, assignment) for assignment in assignments]
    timing.environment += time.perf_counter() - start
    for turn in range(env.horizon):
        active = [run for run in runs if not run.over]
        if progress:
            progress(len(runs) - len(active), len(runs))
        if not active:
            break
        contexts = [_context(env, run) for run in active]
        limit = policy.settings.max_response_tokens
        uniforms = np.stack([derive(*run.assignment.seed, turn).random(limit) for run in active])
        decisions = policy.decide(contexts, uniforms, temperature)
        start = time.perf_counter()
        for run, decision in zip(active, decisions, strict=True):
            _advance(run, decision, turn)
        timing.environment += time.perf_counter() - start
        timing.prompts_cut += sum(decision.prompt_cut for decision in decisions)
    return [_finish(run) for run in runs]


def collect(
    env: Environment,
    policy: Policy,
    tasks: Sequence[tuple[int, Task]],
    group_size: int,
    update: int,
    seed: int,
    temperature: float,
    timing: Timing,
    progress: Callable[[int, int], None] | None = None,
) -> tuple[Group, ...]:
    """Rolls out `group_size` siblings of each (index in the update, task); one group per task, slots 0 … G-1."""
    assignments = [
        Assignment(f"u{update}-g{index}-s{slot}", task, slot, (seed, "sample", update, task.id, index, slot))
        for index, task in tasks
        for slot in range(group_size)
    ]
    trajectories = play(env, policy, assignments, temperature, timing, progress)
    return tuple(
        Group(f"u{update}-g{index}", task.id, task.family, tuple(trajectories[i * group_size : (i + 1) * group_size]))
        for i, (index, task) in enumerate(tasks)
    )


def _begin(env: Environment, assignment: Assignment) -> _Run:
    run = _Run(assignment)
    try:
        run.episode = env.episode(assignment.task)
        run.now = run.episode.start()
        run.states.append(run.now.state)
    except Exception as error:  # whatever an environment raises costs one trajectory, never the run
        run.fail(error, "(start)")
    return run


def _context(env: Environment, run: _Run) -> Context:
    assert run.now is not None
    return Context(env.role, run.assignment.task.goal, run.now.view, run.history, env.horizon)


def _advance(run: _Run, decision: Decision, turn: int) -> None:
    assert run.now is not None
    assert run.episode is not None
    action = decision.projection.action
    try:
        after = run.episode.step(action)
    except Exception as error:  # as above
        run.fail(error, action)
        return
    run.steps.append(_step(decision, after, turn))
    run.history.append((run.now.view.observation, action))
    run.states.append(after.state)
    run.now = after


def _step(decision: Decision, after: Transition, turn: int) -> Step:
    return Step(
        turn=turn,
        prompt_ids=decision.prompt_ids,
        response_ids=decision.sample.ids,
        logprobs=decision.sample.logprobs,
        response=decision.response,
        action=decision.projection.action,
        action_key=after.action_key,
        reward=after.reward,
        valid=decision.projection.valid,
        parsed=decision.projection.parsed,
        effective=after.effective,
        cut=decision.sample.cut,
    )


def _finish(run: _Run) -> Trajectory:
    last: Any = run.now
    if run.error is not None:
        stop = StopReason.ERROR
    elif last.success:
        stop = StopReason.SUCCESS
    else:
        stop = StopReason.FAILURE if last.done else StopReason.TRUNCATED
    return Trajectory(
        id=run.assignment.id,
        slot=run.assignment.slot,
        steps=tuple(run.steps),
        states=tuple(run.states),
        stop=stop,
        score=float(last.score) if last is not None and run.error is None else 0.0,
        error=run.error,
    )
