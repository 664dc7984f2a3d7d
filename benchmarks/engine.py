"""How fast games are played: `python benchmarks/engine.py [--games 2]`.

One table: steps and episodes per second of the real engine (alfworld on textworld, the extra `alfworld`) and of the fast
one, and their ratio. Both play the same commands of an expert in the same generated games, in this process. A step yields
the text, the admissible commands and whether the game is won; an episode is reading the game, its start and its steps. In
the last row the fast engine makes the state views of the methods as well, as in a run. Times are those of this process on
its processor, so that other work on the machine counts for neither.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from timing import best

from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.expert import Expert
from creditlab.environments.alfworld.families import ALIASES, FAMILIES
from creditlab.environments.alfworld.packing import pack
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.textworld import RealEngine
from creditlab.environments.protocol import Task

LIMIT = 50
"""Longest episode, in commands."""


class Episode(NamedTuple):
    """A task and the commands that are played in it."""

    task: Task
    commands: tuple[str, ...]


class Speed(NamedTuple):
    """Seconds that some episodes took."""

    starts: float
    """Reading the games and starting them."""
    steps: float


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=2, help="games of each family")
    parser.add_argument("--repeats", type=int, default=7, help="of the fast engine; the shortest time counts")
    options = parser.parse_args()
    console = Console(width=100)
    try:
        real = RealEngine()
    except ImportError as error:
        console.print(f"the real engine is not installed ({error}): pip install 'creditlab[alfworld]'")
        return
    environment = ALFWorld(families=FAMILIES, rooms=(), horizon=LIMIT, train_games=400)
    table = Table(
        *("family", "games", "steps", "real\nsteps/s", "fast\nsteps/s", "ratio"),
        *("real\nepisodes/s", "fast\nepisodes/s", "ratio"),
        title="playing the same commands in one process",
    )
    short = {family: alias for alias, family in reversed(ALIASES.items())}
    everything: list[Episode] = []
    real_speeds, fast_speeds = [], []
    for family in track(FAMILIES, "playing", console=console):
        tasks = [task for task in environment.train_tasks() if task.family == family][: options.games]
        episodes = [Episode(task, expert_commands(task)) for task in tasks]
        real_speeds.append(real_speed(real, episodes))
        fast_speeds.append(fast_speed(start_fast, episodes, options.repeats))
        row(table, short[family], episodes, real_speeds[-1], fast_speeds[-1])
        everything += episodes
    table.add_section()
    row(table, "all", everything, total(real_speeds), total(fast_speeds))
    with_views = fast_speed(lambda task: start_episode(environment, task), everything, options.repeats)
    row(table, "with views", everything, total(real_speeds), with_views)
    console.print(table)


def expert_commands(task: Task) -> tuple[str, ...]:
    """What the expert does in a game, until it is won or the limit is reached."""
    engine = Engine(parse_problem(task.payload.problem, task.payload.task, task.payload.name))
    expert, commands = Expert(engine.game, np.random.default_rng(0)), []
    while not engine.won and len(commands) < LIMIT:
        commands.append(expert.act(engine))
        engine.step(commands[-1])
    return tuple(commands)


def real_speed(engine: RealEngine, episodes: Sequence[Episode]) -> Speed:
    """The real engine; each game once, as it remembers the one it has read."""

    def start(task: Task) -> None:
        engine.load(pack(task.payload))
        engine.reset()

    def play(commands: Sequence[str]) -> None:
        for command in commands:
            engine.step(command)
            _ = engine.admissible, engine.won

    times = [(seconds(lambda e=e: start(e.task)), seconds(lambda e=e: play(e.commands))) for e in episodes]
    return Speed(sum(starting for starting, _ in times), sum(playing for _, playing in times))


def fast_speed(start: Callable[[Task], Callable[[str], None]], episodes: Sequence[Episode], repeats: int) -> Speed:
    """The fast engine; `start` begins an episode and returns what plays a command."""

    begun: list[Callable[[str], None]] = []

    def starts() -> None:
        begun[:] = [start(episode.task) for episode in episodes]

    def plays() -> None:
        for step, episode in zip(begun, episodes, strict=True):
            for command in episode.commands:
                step(command)

    times = [(seconds(starts), seconds(plays)) for _ in range(repeats)]
    return Speed(min(starting for starting, _ in times), min(playing for _, playing in times))


def seconds(call: Callable[[], None]) -> float:
    """How long one call keeps the processor busy."""
    return best(call, 1, time.process_time)


def start_fast(task: Task) -> Callable[[str], None]:
    """The bare engine, with what the real one gives."""
    engine = Engine(parse_problem(task.payload.problem, task.payload.task, task.payload.name))
    engine.reset()

    def step(command: str) -> None:
        engine.step(command)
        _ = engine.admissible, engine.won

    return step


def start_episode(environment: ALFWorld, task: Task) -> Callable[[str], None]:
    """An episode as a run plays it; its game is kept parsed."""
    episode = environment.episode(task)
    episode.start()

    def step(command: str) -> None:
        episode.step(command)

    return step


def total(speeds: Sequence[Speed]) -> Speed:
    """The sums."""
    return Speed(sum(speed.starts for speed in speeds), sum(speed.steps for speed in speeds))


def row(table: Table, name: str, episodes: Sequence[Episode], slow: Speed, fast: Speed) -> None:
    """Adds the rates of some episodes and their ratios."""
    count, steps = len(episodes), sum(len(episode.commands) for episode in episodes)
    slow_steps, fast_steps = steps / slow.steps, steps / fast.steps
    slow_episodes, fast_episodes = count / (slow.starts + slow.steps), count / (fast.starts + fast.steps)
    table.add_row(
        *(name, str(count), str(steps)),
        *(f"{slow_steps:.1f}", f"{fast_steps:,.0f}", f"{fast_steps / slow_steps:,.0f}×"),
        *(f"{slow_episodes:.2f}", f"{fast_episodes:,.0f}", f"{fast_episodes / slow_episodes:,.0f}×"),
    )


if __name__ == "__main__":
    main()
