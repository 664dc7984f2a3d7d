"""The rollout core: plays episodes in lock-step and records every decision as it was sampled."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from creditlab.environments.protocol import Environment, Task, TwoPhaseEpisode, two_phase
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


@dataclass(eq=False)
class _Run:
    """An episode on its way from assignment to trajectory."""

    assignment: Assignment
    episode: TwoPhaseEpisode | None = None
    decision: Decision | None = None
    """The decision that is being executed; none while the episode starts."""
    now: Transition | None = None
    states: list[State] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)
    history: list[tuple[str, str]] = field(default_factory=list)
    error: str | None = None

    def ask(self, env: Environment) -> None:
        """Sends the decision, or begins the episode; waits for nothing."""
        with self._failing():
            if self.episode is None:
                self.episode = two_phase(env.episode(self.assignment.task))
            self.episode.begin(None if self.decision is None else self.decision.projection.action)

    def take(self) -> None:
        """Waits for what was asked for, and records it."""
        if self.episode is None or self.error is not None:
            return
        with self._failing():
            after = self.episode.result()
            if self.decision is not None and self.now is not None:
                self.steps.append(_step(self.decision, after, len(self.steps)))
                self.history.append((self.now.view.observation, self.decision.projection.action))
            self.states.append(after.state)
            self.now = after

    def over(self, horizon: int) -> bool:
        """Whether nothing more is to be played."""
        return self.error is not None or (self.now is not None and (self.now.done or len(self.steps) >= horizon))

    def close(self) -> None:
        """Frees what the episode occupies."""
        if self.episode is not None:
            self.episode.close()

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Records a failure of the environment: the trajectory keeps its slot and counts in no statistic."""
        try:
            yield
        except Exception as error:  # whatever an environment raises costs one trajectory, never the run
            command = "(start)" if self.decision is None else self.decision.projection.action
            self.error = f"task {self.assignment.task.id!r}, last command {command!r}: {type(error).__name__}: {error}"


def play(
    env: Environment,
    policy: Policy,
    assignments: Sequence[Assignment],
    temperature: float,
    timing: Timing,
    progress: Callable[[int, int], None] | None = None,
) -> list[Trajectory]:
    """Plays all assignments to their end or the horizon, and returns their trajectories in order.

    Episodes go in lock-step, `env.width` of them at a time; where one has ended the next of the queue begins. Within a
    round every episode is asked before any is waited for. What happens in an episode depends on no other.
    """
    runs = [_Run(assignment) for assignment in assignments]
    width = env.width or len(runs)
    opened: list[_Run] = []
    queue = deque(runs)
    try:
        while queue or opened:
            deciding = list(opened)
            with _clocked(timing):
                while queue and len(opened) < width:
                    opened.append(queue.popleft())
                    opened[-1].ask(env)
            if progress:
                progress(len(runs) - len(queue) - len(opened), len(runs))
            _decide(env, policy, deciding, temperature, timing)  # while the others start
            with _clocked(timing):
                for run in deciding:
                    run.ask(env)
                for run in opened:
                    run.take()
                for run in [run for run in opened if run.over(env.horizon)]:
                    run.close()
                    opened.remove(run)
    finally:
        for run in opened:
            run.close()
    return [_finish(run) for run in runs]


def _decide(env: Environment, policy: Policy, runs: Sequence[_Run], temperature: float, timing: Timing) -> None:
    """The next decision of every run."""
    if not runs:
        return
    contexts = [_context(env, run) for run in runs]
    limit = policy.settings.max_response_tokens
    uniforms = np.stack([derive(*run.assignment.seed, len(run.steps)).random(limit) for run in runs])
    decisions = policy.decide(contexts, uniforms, temperature)
    for run, decision in zip(runs, decisions, strict=True):
        run.decision = decision
    timing.prompts_cut += sum(decision.prompt_cut for decision in decisions)


@contextmanager
def _clocked(timing: Timing) -> Iterator[None]:
    start = time.perf_counter()
    yield
    timing.environment += time.perf_counter() - start


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


def _context(env: Environment, run: _Run) -> Context:
    assert run.now is not None
    return Context(env.role, run.assignment.task.goal, run.now.view, run.history, env.horizon)


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
