"""What happened: the records of steps, trajectories, groups and batches that every part of creditlab shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]


class StopReason(StrEnum):
    """Why a trajectory ended."""

    SUCCESS = "success"
    """The environment confirmed the task as solved."""
    FAILURE = "failure"
    """The environment ended the episode without success."""
    TRUNCATED = "truncated"
    """The horizon was reached first."""
    ERROR = "error"
    """The environment or engine failed; recorded, never counted in a statistic."""


@dataclass(frozen=True, slots=True)
class Channel:
    """One rubric channel at one state (MCGPO, Table 15): its exact value and the value that satisfies it."""

    value: Fraction
    full: Fraction

    @property
    def satisfied(self) -> bool:
        """Whether the criterion holds in full."""
        return self.value.numerator * self.full.denominator >= self.full.numerator * self.value.denominator

    @property
    def begun(self) -> bool:
        """Whether the value is above zero."""
        return self.value.numerator > 0


@dataclass(frozen=True, slots=True)
class State:
    """One of the T+1 states of a trajectory: named text views, rubric C and frontier F."""

    views: Mapping[str, str]
    """Named keys, compared byte by byte; `observation`, `graph`, `exact` and `coarse` where the environment has them."""
    rubric: Mapping[str, Channel] = field(default_factory=dict)
    """Channel name to status C; empty where the environment has no rubric."""
    frontier: tuple[str, ...] = ()
    """Names of the criteria that are enabled and not yet satisfied, F, sorted."""


@dataclass(frozen=True, slots=True)
class View:
    """What the policy may see before a decision."""

    observation: str
    actions: tuple[str, ...]
    """The admissible commands to show, in the environment's order; words of the policy's own are a blank `<your …>`."""
    status: str = ""
    """What the environment tracks for the policy beside the observation (such as place and held object)."""


@dataclass(frozen=True, slots=True)
class Transition:
    """What an environment returns at the start of an episode and after each action."""

    view: View
    state: State
    reward: float = 0.0
    done: bool = False
    success: bool = False
    score: float = 0.0
    """Graded terminal score in [0, 1]; success is 1."""
    effective: bool = True
    """False when the command was not admissible and nothing happened."""
    action_key: str = ""
    """Canonical form of the action just executed."""


@dataclass(frozen=True, slots=True)
class Step:
    """One decision: what was prompted, answered and executed, recorded at sampling time."""

    turn: int
    prompt_ids: NDArray[np.int32]
    """Token ids of the prompt [prompt length]."""
    response_ids: NDArray[np.int32]
    """Token ids that were sampled [response length]; exactly these are trained."""
    logprobs: NDArray[np.float32]
    """Log-probability of each sampled token under the sampling distribution [response length]."""
    response: str
    action: str
    """The text handed to the environment."""
    action_key: str
    """Canonical form of the executed action."""
    reward: float
    valid: bool = True
    """Format flag of the projection; an inadmissible but well-formed command is valid."""
    parsed: bool = True
    """Whether an action was found in the response and executed; only such decisions may enter preferences."""
    effective: bool = True
    """Whether the command was admissible; False when nothing happened."""
    cut: bool = False
    """Whether the response was cut at its length limit; counted, never silent."""
    features: Mapping[str, NDArray[np.float32]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One rollout of one task: T decisions between T+1 states."""

    id: str
    slot: int
    """Position among the siblings of the group, 0 … G-1."""
    steps: tuple[Step, ...]
    states: tuple[State, ...]
    stop: StopReason
    score: float = 0.0
    """Graded terminal score in [0, 1]."""
    error: str | None = None
    """Named reason when `stop` is ERROR."""

    @property
    def success(self) -> bool:
        """Whether the task was solved."""
        return self.stop is StopReason.SUCCESS

    @property
    def episode_return(self) -> float:
        """Sum of the environment's rewards, R."""
        return float(sum(step.reward for step in self.steps))


@dataclass(frozen=True, slots=True)
class Group:
    """Sibling rollouts of one task; the instance `id` is unique in a run, `task_id` is stable across updates."""

    id: str
    task_id: str
    family: str
    trajectories: tuple[Trajectory, ...]


@dataclass(frozen=True, slots=True)
class RolloutBatch:
    """All groups of one update, as sampled from one policy."""

    groups: tuple[Group, ...]
    update: int
    seed: int
    temperature: float = 1.0

    @property
    def trajectories(self) -> tuple[Trajectory, ...]:
        """Every trajectory in group and slot order, error ones included."""
        return tuple(t for group in self.groups for t in group.trajectories)

    def decisions(self) -> Iterator[tuple[int, Step]]:
        """Every decision that counts, in the order of `Rows`, with its trajectory's position in `trajectories`.

        Groups keep their order, siblings are sorted by slot, steps by turn; error trajectories are left out.
        """
        first = 0
        for group in self.groups:
            numbered = sorted(enumerate(group.trajectories, first), key=lambda entry: (entry[1].slot, entry[1].id))
            first += len(numbered)
            for index, trajectory in numbered:
                if trajectory.stop is not StopReason.ERROR:
                    for step in sorted(trajectory.steps, key=lambda s: s.turn):
                        yield index, step
