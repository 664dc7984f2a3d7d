"""What an environment offers to the rollout core; plug-ins import it from `creditlab.hookspecs`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from creditlab.rollouts import Transition


@dataclass(frozen=True)
class Task:
    """One task item, stable across updates and machines."""

    id: str
    family: str
    goal: str
    """The instruction, as the policy reads it."""
    payload: Any = field(repr=False, compare=False, default=None)
    """Whatever the environment needs to start an episode."""


@dataclass(frozen=True)
class Panel:
    """A frozen list of evaluation episodes: the same on every machine."""

    name: str
    tasks: tuple[Task, ...]
    seeds: tuple[int, ...]
    """One sampling seed per episode, beside its task."""
    hash: str
    """SHA-256 over the tasks' contents, their order and the seeds."""


class Episode(Protocol):
    """One running episode. Not shared between threads."""

    @property
    def task(self) -> Task: ...

    def start(self) -> Transition:
        """The first state; reward 0."""

    def step(self, action: str) -> Transition:
        """Plays one action; anything inadmissible changes nothing and is reported as not effective."""

    def snapshot(self) -> Any:
        """An opaque copy of the whole state, valid for episodes of the same task."""

    def restore(self, snapshot: Any) -> None:
        """Continues from a snapshot."""


@runtime_checkable
class TwoPhaseEpisode(Protocol):
    """An episode that plays elsewhere: many are asked before the first answer is waited for. Optional, see `two_phase`."""

    def begin(self, action: str | None) -> None:
        """Asks for the first state (None) or for a step; does not wait."""

    def result(self) -> Transition:
        """Waits, with a time-out, for what `begin` asked for."""

    def close(self) -> None:
        """Gives back what the episode occupies; it may be called at any moment, and again."""


class Expert(Protocol):
    """A policy that solves episodes, for warm starts and to check solvability."""

    def act(self, episode: Any) -> str:
        """The next command in the episode's present state."""


class Environment(Protocol):
    """A family of tasks; implemented as a component of the axis `env`.

    A class that names it as its base takes over what suits an environment in this process without a rubric, and has to
    write the abstract members.
    """

    horizon: int
    """Largest number of decisions in an episode."""

    provides: ClassVar[tuple[str, ...]] = ()
    """What its states carry beside views, such as `rubric`; matched with the `needs` of the components of credit."""

    views: ClassVar[tuple[str, ...] | None] = None
    """Views that its states carry, matched with those that a match rule reads; None leaves that to the first update."""

    operational: ClassVar[tuple[str, ...]] = ()
    """Options that change how a run is carried out and none of its numbers; they do not make it another run."""

    @property
    def width(self) -> int | None:
        """How many episodes can be open at once; None for any number."""
        return None

    @property
    @abstractmethod
    def role(self) -> str:
        """One sentence that tells the policy who it is, for the full prompt layout."""

    @property
    def phrases(self) -> tuple[str, ...]:
        """Fixed phrases of its texts, single tokens of the tiny model's tokenizer."""
        return ()

    @abstractmethod
    def train_tasks(self) -> Sequence[Task]:
        """The training tasks, in a fixed order (generated lazily where they are many)."""

    @abstractmethod
    def panel(self, episodes: int, seed: int) -> Panel:
        """Held-out tasks for evaluation, disjoint from the training tasks."""

    @abstractmethod
    def episode(self, task: Task) -> Episode: ...

    @abstractmethod
    def expert(self, task: Task, rng: np.random.Generator) -> Expert: ...

    @abstractmethod
    def slip(self, episode: Any, rng: np.random.Generator) -> str:
        """A plausible but inadmissible command, executed now and then while the warm start's demonstrations are made."""

    @abstractmethod
    def vocabulary(self) -> Iterable[str]:
        """Texts that together hold every word the environment can print or accept."""

    def rehearsal(self) -> Environment:
        """Where demonstrations are made: the environment itself, or a quicker one with the same tasks and texts."""
        return self

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Facts for the run's manifest (version, source of the tasks, counts, hashes)."""

    def close(self) -> None:
        """Ends whatever runs for it; it may be used again afterwards."""


def two_phase(episode: Episode) -> TwoPhaseEpisode:
    """The episode itself where it plays elsewhere; one that plays in this process does its work in `result`."""
    return episode if isinstance(episode, TwoPhaseEpisode) else _InProcess(episode)


class _InProcess:
    """An episode of this process in two phases."""

    def __init__(self, episode: Episode) -> None:
        self._episode = episode
        self._action: str | None = None

    def begin(self, action: str | None) -> None:
        self._action = action

    def result(self) -> Transition:
        return self._episode.start() if self._action is None else self._episode.step(self._action)

    def close(self) -> None:
        """Nothing is held."""
