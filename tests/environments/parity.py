"""The fast engine beside the real one: `make parity` (ARGS="--games 4 --workers 1").

Plays real, generated and written games of every family in both grammars with both engines, command by command: errands
that lead into every rule and oddity, random commands, commands that are not admissible, and an expert that finishes. After
the start and after each command the texts, the admissible commands and `won` must be equal. Prints what was played and every
difference; exits with 1 where there is one, or where some kind of command was never tried. Without the real games the others
are played, and that is said.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from multiprocessing import active_children, get_context
from typing import Protocol

import errands
import kitchen
import numpy as np
import pytest
from rich.console import Console
from rich.progress import track
from rich.table import Table

from creditlab.environments.alfworld.commands import NOTHING_HAPPENS, GrammarName
from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.families import FAMILIES
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.generator import generate, rooms_of
from creditlab.environments.alfworld.packing import installed, pack
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.sources import load_games
from creditlab.environments.alfworld.textworld import RealEngine
from tests.conftest import data_path

GRAMMAR_NAMES: tuple[GrammarName, ...] = ("0.4", "0.3")
VERBS = (
    *("look", "inventory", "help", "examine", "go", "open", "close", "take"),
    *("move", "put", "use", "heat", "clean", "cool", "slice"),
)
"""Kinds of commands that a whole comparison must have seen executed."""
_PATIENCE = 300
"""Longest wait for the next game to end, in seconds."""


class Player(Protocol):
    """What both engines offer."""

    def reset(self) -> str: ...

    def step(self, command: str) -> str: ...

    @property
    def admissible(self) -> tuple[str, ...]: ...

    @property
    def won(self) -> bool: ...


@dataclass(frozen=True)
class Job:
    """One game to be played in one grammar."""

    source: str
    """real, generated or written."""
    game: GameText
    grammar: GrammarName
    seed: int
    commands: int
    """How many commands precede the expert's."""


@dataclass
class Outcome:
    """What a comparison saw."""

    job: Job
    steps: int = 0
    won: bool = False
    verbs: Counter[str] = field(default_factory=Counter)
    """Executed commands by kind; those that changed nothing under `Nothing happens.`"""
    difference: str = ""
    """What differed first, where anything did; the play ends there."""


def compare(job: Job, other: Player) -> Outcome:
    """Plays a job with the fast engine and another one that has its game loaded."""
    game, rng = job.game, np.random.default_rng(job.seed)
    engine, outcome = Engine(parse_problem(game.problem, game.task, game.name), job.grammar), Outcome(job)
    outcome.difference = _difference(engine, other, engine.reset(), other.reset(), "the start")
    for command in _commands(engine, rng, job):
        if outcome.difference:
            break
        feedback = engine.step(command)
        outcome.difference = _difference(engine, other, feedback, other.step(command), repr(command))
        outcome.steps += 1
        outcome.won |= engine.won
        outcome.verbs[NOTHING_HAPPENS if feedback == NOTHING_HAPPENS else command.split()[0]] += 1
    return outcome


def _commands(engine: Engine, rng: np.random.Generator, job: Job) -> Iterator[str]:
    """Errands or random commands, by the seed, then the expert."""
    opening = errands.run_errands if job.seed % 2 else errands.wander
    yield from islice(opening(engine, rng), job.commands)
    yield from errands.finish(engine, rng)


def _difference(fast: Player, other: Player, text: str, other_text: str, after: str) -> str:
    if text != other_text:
        return f"after {after}: {text!r}, the other engine {other_text!r}"
    if fast.admissible != other.admissible:
        ours, theirs = set(fast.admissible), set(other.admissible)
        return f"after {after}: only here {sorted(ours - theirs)}, only there {sorted(theirs - ours)}"
    if fast.won != other.won:
        return f"after {after}: won is {fast.won}, in the other engine {other.won}"
    return ""


@cache
def real_engine() -> RealEngine:
    """One for each process: what an engine has loaded of the planner is never given back."""
    return RealEngine()


def play(job: Job) -> Outcome:
    """Compares with the real engine."""
    real = real_engine()
    real.load(pack(job.game, job.grammar))
    return compare(job, real)


def real_games(count: int) -> Iterator[GameText]:
    """`count` real games of each family from both splits, spread over the smaller two thirds, for large ones take long.

    None where the test data is absent and not required.
    """
    try:
        paths = [data_path("alfworld", f"{split}.jsonl.xz") for split in ("train", "valid_seen")]
    except pytest.skip.Exception:
        return
    games = [game for path in paths for game in load_games(path).games]
    for family in FAMILIES:
        sized = sorted((game for game in games if game.family == family), key=lambda game: (len(game.problem), game.name))
        yield from (sized[len(sized) * (2 * number + 1) // (3 * count)] for number in range(count))


def generated_games(count: int) -> Iterator[GameText]:
    """`count` generated games of each family, over its rooms and both kinds of plans."""
    for family in FAMILIES:
        rooms = rooms_of(family)
        for number in range(count):
            yield generate(family, rooms[number % len(rooms)], 900 + number, unseen=number % 2 == 1)


def written_games() -> Iterator[GameText]:
    """The kitchen of the tests, whose facts are odder than those of real games."""
    for family, (task, goal) in kitchen.GOALS.items():
        yield GameText(f"kitchen/{family}", task, family, "kitchen", 1, kitchen.problem(goal))


def jobs(count: int, commands: int) -> tuple[Job, ...]:
    """All games in both grammars; each game has errands in one of them and random commands in the other."""
    sources = {"real": real_games(count), "generated": generated_games(count), "written": written_games()}
    numbered = [(number, source, game) for source, games in sources.items() for number, game in enumerate(games)]
    return tuple(
        Job(source, game, grammar, 2 * number + (number + g) % 2, commands)
        for number, source, game in numbered
        for g, grammar in enumerate(GRAMMAR_NAMES)
    )


def main() -> None:
    """Plays, prints the tables, and exits with 1 where anything is amiss."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", type=int, default=10, help="real games, and generated ones, of each family")
    parser.add_argument("--commands", type=int, default=14, help="commands before the expert's in each play")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    options = parser.parse_args()
    console = Console()
    todo = prepare(parser, options.games, options.commands)
    if not any(job.source == "real" for job in todo):
        console.print("without real games: set CREDITLAB_TEST_DATA to the folder that holds them", style="yellow")
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(play, job) for job in todo]
        outcomes = list(track(_finished(running), "playing", total=len(todo), console=console))
    report(console, outcomes)
    if any(outcome.difference for outcome in outcomes) or untried(outcomes):
        sys.exit(1)


def prepare(parser: argparse.ArgumentParser, count: int, commands: int) -> tuple[Job, ...]:
    """The jobs; ends with code 2 and one line where the real engine, or required test data, is missing."""
    if not installed():
        parser.exit(2, "the real engine is not installed: pip install 'creditlab[alfworld]'\n")
    try:
        return jobs(count, commands)
    except pytest.fail.Exception as missing:
        parser.exit(2, f"{missing}\n")


def _finished(running: Iterable[Future[Outcome]]) -> Iterator[Outcome]:
    """Outcomes as they come in; a play that hangs ends all."""
    pending = set(running)
    while pending:
        done, pending = wait(pending, timeout=_PATIENCE, return_when=FIRST_COMPLETED)
        if not done:
            for worker in active_children():
                worker.kill()
            raise TimeoutError(f"no game ended within {_PATIENCE} seconds")
        yield from (future.result() for future in done)


def untried(outcomes: Sequence[Outcome]) -> list[str]:
    """Kinds of commands that no engine has executed."""
    verbs = sum((outcome.verbs for outcome in outcomes), Counter[str]())
    return [verb for verb in VERBS if not verbs[verb]]


def report(console: Console, outcomes: Sequence[Outcome]) -> None:
    """Prints what was played by source and family, the commands by kind, and the differences."""
    table = Table("games", "family", "grammar", "played", "won", "steps", "differences", title="fast and real engine")
    for source in dict.fromkeys(outcome.job.source for outcome in outcomes):
        for family in FAMILIES:
            for grammar in GRAMMAR_NAMES:
                _row(table, source, family, grammar, [o for o in outcomes if _kind(o) == (source, family, grammar)])
    table.add_section()
    _row(table, "all", "", "", outcomes)
    console.print(table)
    verbs = sum((outcome.verbs for outcome in outcomes), Counter[str]())
    console.print("commands: " + ", ".join(f"{verb} {count}" for verb, count in sorted(verbs.items())), highlight=False)
    for verb in untried(outcomes):
        console.print(f"never tried: {verb}", style="red")
    for outcome in outcomes:
        if outcome.difference:
            job = outcome.job
            console.print(
                f"{job.game.name} ({job.source}, {job.grammar}, seed {job.seed}), {outcome.difference}", style="red"
            )


def _kind(outcome: Outcome) -> tuple[str, str, str]:
    return outcome.job.source, outcome.job.game.family, outcome.job.grammar


def _row(table: Table, source: str, family: str, grammar: str, outcomes: Sequence[Outcome]) -> None:
    numbers = (
        len(outcomes),
        sum(outcome.won for outcome in outcomes),
        sum(outcome.steps for outcome in outcomes),
        sum(bool(outcome.difference) for outcome in outcomes),
    )
    table.add_row(source, family, grammar, *map(str, numbers))


if __name__ == "__main__":
    main()
