"""Gymnasium's Taxi in words: fetch a passenger in a town of 25 squares and bring it to another stand."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import gymnasium
import numpy as np

from creditlab.credit.match import view_level
from creditlab.hookspecs import Environment, Level, Panel, Rows, State, Task, Transition, View, freeze_panel, hookimpl

STANDS = ("red", "green", "yellow", "blue")
COMMANDS = ("go south", "go north", "go east", "go west", "pick up", "drop off")
REWARD = 10.0


class Ride:
    """One episode. The commands that change something are admissible: those of Gymnasium's action mask."""

    def __init__(self, task: Task, game: Any) -> None:
        self.task = task
        self.game = game
        self.state: int = task.payload

    def start(self) -> Transition:
        """The first state."""
        self.state = self.task.payload
        return self._transition()

    def step(self, action: str) -> Transition:
        """Plays one command; one that is not admissible changes nothing."""
        command = " ".join(action.lower().split())
        if command not in self.admissible():
            return self._transition(command, effective=False)
        self.game.s = self.state  # the game serves every episode
        self.state, _, delivered, _, _ = self.game.step(COMMANDS.index(command))
        return self._transition(command, delivered=delivered)

    def snapshot(self) -> int:
        """Gymnasium's number of the state, which is all there is to it."""
        return self.state

    def restore(self, snapshot: int) -> None:
        """Continues from a state."""
        self.state = snapshot

    def admissible(self) -> tuple[str, ...]:
        """The commands that change something now."""
        return tuple(np.array(COMMANDS)[self.game.action_mask(self.state) == 1].tolist())

    def _transition(self, command: str = "", *, effective: bool = True, delivered: bool = False) -> Transition:
        row, column, passenger, _ = self.game.decode(self.state)
        aboard = passenger == len(STANDS)
        leg = "the passenger is aboard" if aboard else f"the passenger waits at {STANDS[passenger]}"
        text = f"you are in row {row + 1} column {column + 1} and {leg}"
        return Transition(
            View(text, self.admissible()),
            State({"observation": text, "graph": text, "leg": leg}),
            reward=REWARD * delivered,
            done=delivered,
            success=delivered,
            score=1.0 if delivered else 0.5 * aboard,
            effective=effective,
            action_key=command,
        )


class Driver:
    """Drives the shortest way, found by breadth-first search in Gymnasium's table of transitions."""

    def act(self, ride: Ride) -> str:
        """The first command of a shortest way to the delivery."""
        first: dict[int, int] = {}
        waiting = deque([ride.state])
        while True:
            state = waiting.popleft()
            for action, [(_, after, _, delivered)] in ride.game.P[state].items():
                begin = first.get(state, action)
                if delivered:
                    return COMMANDS[begin]
                if after not in first and after != ride.state:
                    first[after] = begin
                    waiting.append(after)


@dataclass(frozen=True)
class Taxi(Environment):
    """A taxi ride in words (Gymnasium's Taxi-v4): 300 tasks, a square to start from, where a passenger waits, where to."""

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "taxi"
    views: ClassVar[tuple[str, ...]] = ("observation", "graph", "leg")

    horizon: int = 25
    """Largest number of decisions in an episode; no ride needs more than 18."""

    @property
    def role(self) -> str:
        """One sentence that tells the policy who it is."""
        return (
            "You drive a taxi in a town of five rows and five columns with walls between some squares; the stands are red "
            "(row 1 column 1), green (row 1 column 5), yellow (row 5 column 1) and blue (row 5 column 4)."
        )

    @property
    def phrases(self) -> tuple[str, ...]:
        """Commands and squares are single tokens of the tiny model."""
        return (*COMMANDS, *(f"row {row} column {column}" for row in range(1, 6) for column in range(1, 6)))

    def train_tasks(self) -> Sequence[Task]:
        """Two thirds of the rides, those that are not held out."""
        return self._tasks[0]

    def panel(self, episodes: int, seed: int) -> Panel:
        """The other third, drawn or repeated to as many episodes."""
        return freeze_panel(self.name, self._tasks[1], lambda task: task.id, episodes, seed)

    def episode(self, task: Task) -> Ride:
        """A new ride."""
        return Ride(task, self._game)

    def expert(self, task: Task, rng: np.random.Generator) -> Driver:
        """A driver who knows the town."""
        return Driver()

    def slip(self, episode: Ride, rng: np.random.Generator) -> str:
        """A command that changes nothing now; there always is one, for one can only either pick up or drop off."""
        useless = [command for command in COMMANDS if command not in episode.admissible()]
        return useless[int(rng.integers(len(useless)))]

    def vocabulary(self) -> Iterable[str]:
        """Every command, and every task with its first state."""
        tasks = [*self._tasks[0], *self._tasks[1]]
        aboard = "the passenger is aboard"
        return [*COMMANDS, aboard, *(f"{task.goal} {self.episode(task).start().view.observation}" for task in tasks)]

    def describe(self) -> dict[str, Any]:
        """Facts for the run's manifest."""
        training, held_out = map(len, self._tasks)
        return {"environment": self.name, "gymnasium": gymnasium.__version__, "training": training, "held_out": held_out}

    @cached_property
    def _game(self) -> Any:
        """The game without its wrappers: horizon and checks are creditlab's."""
        game = gymnasium.make("Taxi-v4").unwrapped
        game.reset(seed=0)
        return game

    @cached_property
    def _tasks(self) -> tuple[tuple[Task, ...], tuple[Task, ...]]:
        """All rides: those to train on, and those held out, a third of the squares for every pair of stands."""
        split = list[Task](), list[Task]()
        for start in np.flatnonzero(self._game.initial_state_distrib).tolist():
            row, column, passenger, destination = self._game.decode(start)
            name = f"{STANDS[passenger]}-to-{STANDS[destination]}-from-{row + 1}-{column + 1}"
            task = Task(name, STANDS[destination], f"bring the passenger to {STANDS[destination]}", payload=start)
            split[(row + column + passenger + destination) % 3 == 0].append(task)
        return tuple(split[0]), tuple(split[1])


@dataclass(frozen=True)
class SameLeg:
    """Equal states first, then the same leg of the ride wherever the taxi is; needs no rubric."""

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "same_leg"
    views: ClassVar[tuple[str, ...]] = ("observation", "leg")

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """Two levels, the whole state and the leg."""
        return (view_level(rows, "observation"), view_level(rows, "leg", resolution=0.5))


@hookimpl
def creditlab_components() -> list[type]:
    """The environment `taxi` and the match rule `same_leg`."""
    return [Taxi, SameLeg]


@hookimpl
def creditlab_config() -> list[str]:
    """The folder `conf` of this package joins Hydra's search path."""
    return ["pkg://creditlab_taxi.conf"]
