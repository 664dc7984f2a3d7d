"""The check for environments: it passes sound ones, and names what is wrong with each of many broken ones."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np
import pytest

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.panels import freeze_panel
from creditlab.environments.protocol import Environment, Panel, Task
from creditlab.rollouts import Channel, State, Transition, View
from creditlab.testing import check_environment

LENGTH = 4
COUNTER = itertools.count()
"""What a faulty environment lets out of one episode into the next."""


class Walk:
    """One episode: from a place in a corridor to its door."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.place: int = task.payload

    def start(self) -> Transition:
        self.place = self.task.payload
        return self.now()

    def step(self, action: str) -> Transition:
        moves = {"go left": -1, "go right": 1}
        if action not in moves or not self.place + moves[action] >= 0:
            return self.now(action, effective=False)
        self.place += moves[action]
        return self.now(action)

    def snapshot(self) -> Any:
        return self.place

    def restore(self, snapshot: Any) -> None:
        self.place = snapshot

    def now(self, key: str = "", *, effective: bool = True) -> Transition:
        done = self.place == LENGTH
        text = f"you stand at place {self.place}"
        actions = ("go left", "go right") if self.place else ("go right",)
        return Transition(View(text, actions), State({"observation": text}), 10.0 * done, done, done, done, effective, key)


class Walker:
    def act(self, episode: Walk) -> str:
        return "go right"


@dataclass(frozen=True)
class Corridor(Environment):
    """A corridor of five places whose last one is a door; tasks differ in place and label."""

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "corridor"
    horizon: int = 30

    @property
    def role(self) -> str:
        return "You walk in a corridor."

    def train_tasks(self) -> Sequence[Task]:
        return [Task(f"train-{place}", "walk", f"reach door {place}", place) for place in range(LENGTH)]

    def panel(self, episodes: int, seed: int) -> Panel:
        tasks = [Task(f"eval-{place}", "walk", f"find door {place}", place) for place in range(LENGTH)]
        return freeze_panel(self.name, tasks, lambda task: task.id, episodes, seed)

    def episode(self, task: Task) -> Walk:
        return Walk(task)

    def expert(self, task: Task, rng: np.random.Generator) -> Walker:
        return Walker()

    def slip(self, episode: Walk, rng: np.random.Generator) -> str:
        return "go up"

    def vocabulary(self) -> Iterable[str]:
        return ["go left right reach find door 0 1 2 3 4", "you stand at place"]

    def describe(self) -> dict[str, Any]:
        return {"environment": self.name}


def altered(change: Callable[[Walk, Transition], Transition]) -> type[Corridor]:
    """A corridor whose every transition goes through a change."""

    class Changed(Walk):
        def now(self, key: str = "", *, effective: bool = True) -> Transition:
            return change(self, super().now(key, effective=effective))

    return playing(Changed)


def playing(walk: type[Walk]) -> type[Corridor]:
    """A corridor with other episodes."""

    class Broken(Corridor):
        def episode(self, task: Task) -> Walk:
            return walk(task)

    return Broken


def viewed(now: Transition, **views: str) -> Transition:
    return replace(now, state=replace(now.state, views={**now.state.views, **views}))


class Forgetful(Walk):
    """A snapshot that is the living state, not a copy."""

    def __init__(self, task: Task) -> None:
        super().__init__(task)
        self.past: list[int] = []

    def start(self) -> Transition:
        self.past.clear()
        return super().start()

    def step(self, action: str) -> Transition:
        self.past.append(self.place)
        return super().step(action)

    def snapshot(self) -> Any:
        return self.past

    def restore(self, snapshot: Any) -> None:
        self.place = snapshot[-1] if snapshot else self.task.payload


class Wasted(Walk):
    """An inadmissible command that pushes the walker back."""

    def step(self, action: str) -> Transition:
        after = super().step(action)
        if not after.effective:
            self.place = 0
        return after


class Shared(Walk):
    """Episodes that share their place."""

    places: ClassVar[dict[str, int]] = {}

    @property
    def place(self) -> int:
        return self.places["place"]

    @place.setter
    def place(self, value: int) -> None:
        self.places["place"] = value


class Unsteady(Walk):
    """A second start that goes on where the first ended."""

    def start(self) -> Transition:
        return self.now()


class Overlapping(Corridor):
    def panel(self, episodes: int, seed: int) -> Panel:
        return freeze_panel(self.name, self.train_tasks(), lambda task: task.id, episodes, seed)


class Renamed(Corridor):
    def panel(self, episodes: int, seed: int) -> Panel:
        tasks = [replace(task, id=f"eval-{task.id}") for task in self.train_tasks()]
        return freeze_panel(self.name, tasks, lambda task: task.id, episodes, seed)


class Hashless(Corridor):
    def panel(self, episodes: int, seed: int) -> Panel:
        return replace(super().panel(episodes, seed), hash="0")


class Drifting(Corridor):
    def panel(self, episodes: int, seed: int) -> Panel:
        return super().panel(episodes, seed + next(COUNTER))


class Short(Corridor):
    def panel(self, episodes: int, seed: int) -> Panel:
        return super().panel(max(episodes - 1, 1), seed)


class Twins(Corridor):
    def train_tasks(self) -> Sequence[Task]:
        return [replace(task, id="train") for task in super().train_tasks()]


class Idle(Corridor):
    def expert(self, task: Task, rng: np.random.Generator) -> Any:
        class Waverer:
            def act(self, episode: Walk) -> str:
                return "go left" if episode.place else "go right"

        return Waverer()


class Admissible(Corridor):
    def slip(self, episode: Walk, rng: np.random.Generator) -> str:
        return "go right"


class Speechless(Corridor):
    def vocabulary(self) -> Iterable[str]:
        return ["go left right reach find door 0 1 2 3", "you at place"]


class Numbered(Corridor):
    def describe(self) -> dict[str, Any]:
        return {"run": next(COUNTER)}


class Promising(Corridor):
    provides: ClassVar[tuple[str, ...]] = ("rubric",)


class Exact(Corridor):
    views: ClassVar[tuple[str, ...]] = ("observation", "exact")


def with_rubric(walk: Walk, now: Transition) -> Transition:
    return replace(now, state=replace(now.state, rubric={"place": Channel(Fraction(walk.place), Fraction(LENGTH))}))


def test_a_sound_environment_passes() -> None:
    check_environment(Corridor())
    check_environment(Corridor(horizon=5), tasks=2)


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (Overlapping, "task 'train-[0-3]' of the panel is training task 'train-[0-3]'"),
        (Renamed, "task 'eval-train-[0-3]' of the panel is training task 'train-[0-3]'"),
        (Hashless, "hash does not tell panels apart"),
        (Drifting, "two runs get different panels"),
        (Short, "a panel of 15 tasks"),
        (Twins, "training tasks share an id"),
        (Numbered, r"describe\(\) differs between runs"),
        (Idle, "the expert solved .*% of the tasks within the horizon of 30"),
        (Admissible, "the inadmissible 'go right' counts as effective"),
        (Speechless, r"vocabulary\(\) lacks a word of 'you stand at place [0-3]'"),
        (Exact, "`views` and the states disagree"),
        (Promising, "`provides` and the states disagree about a rubric"),
        (altered(with_rubric), "`provides` and the states disagree about a rubric"),
        (altered(lambda w, now: replace(now, reward=float("nan") if now.action_key else 0.0)), "reward nan"),
        (altered(lambda w, now: replace(now, reward=1.0)), "the first state has a reward of 1.0"),
        (altered(lambda w, now: replace(now, score=w.place)), r"score [2-4] is not in \[0, 1\]"),
        (altered(lambda w, now: replace(now, score=0.5)), "of a score below 1"),
        (altered(lambda w, now: replace(now, view=View(now.view.observation, ()))), "no command is listed"),
        (altered(lambda w, now: replace(now, view=View("", now.view.actions))), "no observation"),
        (
            altered(lambda w, now: replace(now, view=replace(now.view, actions=("go right",) * 2))),
            "a command is listed twice",
        ),
        (altered(lambda w, now: replace(now, view=replace(now.view, actions=("jump",)))), "'jump', .* has no effect"),
        (altered(lambda w, now: replace(now, action_key="")), "a command without an action_key"),
        (altered(lambda w, now: replace(now, done=now.done or not now.effective)), "the inadmissible .* ends the episode"),
        (altered(lambda w, now: replace(now, state=State({"graph": "x"}))), "no view 'observation'"),
        (
            altered(lambda w, now: viewed(now, exact="x") if w.place == LENGTH else now),
            r"views are \['exact', 'observation'\]",
        ),
        (altered(lambda w, now: viewed(now, exact=str(next(COUNTER)))), "goes differently in another run"),
        (altered(lambda w, now: replace(now, state=replace(now.state, frontier=("b", "a")))), "the frontier is not sorted"),
        (playing(Forgetful), "goes differently from a snapshot"),
        (playing(Wasted), "an inadmissible command changed what follows"),
        (playing(Shared), "other episodes|goes differently from a snapshot"),
        (playing(Unsteady), "goes differently in a second start"),
    ],
)
def test_a_broken_environment_is_told_what_is_wrong(broken: type[Corridor], message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check_environment(broken())


def test_what_may_be_idle_is_said() -> None:
    class Waiting(altered(lambda w, now: replace(now, view=View(now.view.observation, ("wait",))))):  # type: ignore[misc]
        def vocabulary(self) -> Iterable[str]:
            return [*super().vocabulary(), "wait"]

    check_environment(Waiting(), idle=["wait"])
    with pytest.raises(AssertionError, match="'wait', listed or the expert's, has no effect"):
        check_environment(Waiting(), idle=["pause"])


def test_an_environment_that_lacks_a_member_cannot_be_made() -> None:
    class Unfinished(Corridor):
        role = Environment.role

    with pytest.raises(TypeError, match=r"abstract method.* role"):
        Unfinished()


def test_a_command_that_the_tokenizer_mangles_is_named() -> None:
    class Dotted(Walk):
        def step(self, action: str) -> Transition:
            return super().step(action.replace("...", " "))

        def now(self, key: str = "", *, effective: bool = True) -> Transition:
            now = super().now(key, effective=effective)
            return replace(now, view=replace(now.view, actions=("go...right",)))

    class Spelled(playing(Dotted)):  # type: ignore[misc]
        def vocabulary(self) -> Iterable[str]:
            return [*super().vocabulary(), "."]

    with pytest.raises(AssertionError, match=r"gives the command 'go\.\.\.right' back as 'go \. \. \. right'"):
        check_environment(Spelled())


@pytest.mark.parametrize("families", [("pick",), ("look", "clean", "heat", "cool", "two")])
def test_alfworld_passes(families: tuple[str, ...]) -> None:
    check_environment(ALFWorld(families=families, rooms=(), train_games=200, horizon=80))
