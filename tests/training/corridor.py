"""A small environment of two rights in a row, whose episodes can be made to fail, and quick jobs in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from creditlab.cli import compose_job
from creditlab.config import Job
from creditlab.environments.protocol import Panel, Task
from creditlab.rollouts import Channel, State, Transition, View

GOAL = 2
COMMANDS = ("left", "right", "stay")
QUICK = (
    "rollout.groups=2", "rollout.group_size=4", "prompt.max_response_tokens=2",
    "model.hidden_size=16", "model.layers=1", "model.heads=2", "model.ffn_size=16", "warm_start.steps=60",
    "warm_start.games=4", "warm_start.demonstrations=1", "evaluation.episodes=6", "evaluation.every=2",
    "checkpoint.every=2", "checkpoint.rollouts_every=0", "learner.steps=2", "tracking.wandb=disabled",
    "tracking.console=quiet",
)  # fmt: skip


class CrashError(RuntimeError):
    """What a broken environment raises."""


Fault = Callable[[int, str], bool]
"""Whether an episode, by its number since the environment was made, fails at "start" or at a command."""


class Walk:
    """One episode: a position in a corridor; the goal lies at its right end."""

    def __init__(self, task: Task, number: int, fault: Fault, start: int) -> None:
        self.task, self.number, self.fault, self.first = task, number, fault, start
        self.position = start

    def start(self) -> Transition:
        if self.fault(self.number, "start"):
            raise CrashError("no such world")
        self.position = self.first
        return self._now(effective=True, key="")

    def step(self, action: str) -> Transition:
        if self.fault(self.number, "step"):
            raise CrashError("the world ended")
        if action in COMMANDS:
            self.position = max(min(0, self.first), self.position + {"left": -1, "right": 1, "stay": 0}[action])
        return self._now(effective=action in COMMANDS, key=action)

    def _now(self, effective: bool, key: str) -> Transition:
        won = self.position >= GOAL
        place = f"place {self.position}"
        state = State(
            dict.fromkeys(("observation", "graph", "exact", "coarse"), place),
            {"goal_progress": Channel(Fraction(min(self.position, GOAL)), Fraction(GOAL))},
        )
        return Transition(View(place, COMMANDS), state, 10.0 * won, won, won, float(won), effective, key)


class Guide:
    def act(self, episode: Any) -> str:
        return "right"


class Corridor:
    """The environment; `starts` gives the first position of each task, `fault` says which episodes fail."""

    phrases: tuple[str, ...] = ()
    role = "You walk."
    operational: tuple[str, ...] = ()
    width: int | None = None

    def __init__(
        self, horizon: int = 4, starts: tuple[int, ...] = (0, 0, 0, 0, 0), fault: Fault = lambda number, moment: False
    ) -> None:
        self.horizon, self.starts, self.fault = horizon, starts, fault
        self.made = 0

    def train_tasks(self) -> Sequence[Task]:
        return [Task(f"t{i}", "even" if i % 2 == 0 else "odd", f"go right {i}", payload=s) for i, s in enumerate(self.starts)]

    def panel(self, episodes: int, seed: int) -> Panel:
        tasks = [Task(f"p{i}", "even" if i % 2 == 0 else "odd", f"go right {i}", payload=0) for i in range(episodes)]
        return Panel("corridor", tuple(tasks), tuple(range(seed, seed + episodes)), f"hash-{episodes}-{seed}")

    def episode(self, task: Task) -> Walk:
        self.made += 1
        return Walk(task, self.made - 1, self.fault, task.payload)

    def expert(self, task: Task, rng: np.random.Generator) -> Guide:
        return Guide()

    def slip(self, episode: Any, rng: np.random.Generator) -> str:
        return "sing"

    def vocabulary(self) -> list[str]:
        return [*COMMANDS, "place go sing", *map(str, range(10))]

    def rehearsal(self) -> Corridor:
        return self

    def close(self) -> None:
        """Nothing runs."""

    def describe(self) -> dict[str, Any]:
        return {"environment": "corridor", "starts": list(self.starts)}


def quick_job(root: Path, *overrides: str, env: Any = None, **fields: Any) -> Job:
    """A job of a few seconds under a folder, in the corridor."""
    given = overrides if any(o.startswith("method=") for o in overrides) else ("method=graphgpo", *overrides)
    names = {override.partition("=")[0] for override in given}
    defaults = [default for default in QUICK if default.partition("=")[0] not in names]
    job = compose_job([*defaults, f"run_root={root / 'runs'}", f"warm_start.cache={root / 'cache'}", *given])
    return replace(job, env=env or Corridor(), **fields)
