"""ALFWorld as an environment of creditlab: household tasks in text, six families, no download needed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, overload

import numpy as np
from pydantic import BeforeValidator

from creditlab.environments.alfworld.commands import GRAMMARS, GrammarName
from creditlab.environments.alfworld.episode import AlfworldEpisode, task_info
from creditlab.environments.alfworld.expert import Expert
from creditlab.environments.alfworld.families import FAMILIES, SHARES, family_name
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.generator import generate, rooms_of
from creditlab.environments.alfworld.packing import installed, versions
from creditlab.environments.alfworld.problem import Game, parse_problem
from creditlab.environments.alfworld.remote import WORKER, RemoteEpisode
from creditlab.environments.alfworld.scenes import ROOMS
from creditlab.environments.alfworld.sources import (
    DATA_VARIABLE,
    GameSet,
    find_evaluation_games,
    find_games,
    load_games,
)
from creditlab.environments.alfworld.views import Tracker
from creditlab.environments.alfworld.vocabulary import phrases, texts
from creditlab.environments.panels import freeze_panel
from creditlab.environments.pool import WorkerPool
from creditlab.environments.protocol import Panel, Task
from creditlab.limits import own_cores

_EVALUATION_SEEDS = 1 << 31
"""Generated games have a seed of (user's seed, number), the number in the lower 32 bits: training games in the lower half of
them, evaluation games in the upper, so that no two coincide whatever the two seeds are."""
_LONGEST_TIMEOUT = 1e7
"""Four months; the system's clocks refuse much larger numbers."""
_PARSED_GAMES = 1024
"""Parsed games kept in memory; the others are parsed again when they are played."""


@dataclass(frozen=True)
class ALFWorld:
    """Household tasks in text (ALFWorld): find, process and place objects, or look at them under a lamp.

    Without `games`, training and evaluation games come from the seeded generator. Nothing is read or generated before the
    first use.
    """

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "alfworld"
    provides: ClassVar[tuple[str, ...]] = ("rubric",)
    views: ClassVar[tuple[str, ...]] = ("observation", "graph", "exact", "coarse")
    operational: ClassVar[tuple[str, ...]] = ("workers", "timeout", "recycle")

    games: str | None = None
    """Training games: null for generated ones, a packed `.jsonl` or `.jsonl.xz` file, a directory laid out like the official
    data, or `auto` for the data that alfworld-download stored ($ALFWORLD_DATA)."""
    eval_games: str | None = None
    """Evaluation games, in the same forms; null takes the `valid_seen*` beside `games`, or generates them."""
    families: tuple[str, ...] = ("pick_and_place_simple",)
    """Task families, by name or alias: pick, look, clean, heat, cool, two."""
    rooms: tuple[str, ...] = ("bathroom", "bedroom")
    """Room types: kitchen, living_room, bedroom, bathroom; empty for all."""
    horizon: int = 15
    """Largest number of decisions in an episode (50 in the published experiments)."""
    train_games: int = 2000
    """Number of generated training games."""
    eval_plans: Literal["seen", "unseen"] = "seen"
    """Whether generated evaluation games use floor plans of the training games or ones kept apart."""
    seed: int = 0
    """Seed of the generated games."""
    engine: Literal["fast", "textworld"] = "fast"
    """What plays the games: `fast`, this project's own engine, or `textworld`, the real one in worker processes (needs the
    extra `alfworld`)."""
    workers: int | None = None
    """Worker processes of the real engine, each with one episode at a time; null for as many as there are cores, divided
    among the ranks on the machine."""
    timeout: float = 60.0
    """Seconds that a worker may take to start, to begin a game or to play a command; a slower one is stopped and replaced."""
    recycle: int = 200
    """Episodes after which a worker is replaced by a fresh one."""
    grammar: Annotated[GrammarName, BeforeValidator(str)] = "0.4"  # a command line reads 0.3 as a number
    """The version of ALFWorld whose commands and texts are used: 0.4 (`move O to R`, `help`) or 0.3 and older
    (`put O in/on R`, arrival at `loc 12`, no `help`)."""
    hide_commands: tuple[str, ...] = ("help",)
    """Commands, by first word, that are not listed to the policy; they remain admissible."""
    budget_bins: int = 5
    """Equal bins of the remaining budget in the coarse state view (MCGPO, Table 5)."""
    frontier_excludes_satisfied: bool = True
    """Whether the frontier F leaves out criteria that hold in full; otherwise it holds every enabled one."""

    def __post_init__(self) -> None:
        unknown = [room for room in self.rooms if room not in ROOMS]
        if unknown:
            raise ValueError(f"env.rooms: unknown room {unknown[0]!r}; there are {', '.join(ROOMS)}")
        for key in ("horizon", "train_games", "budget_bins", "workers", "recycle"):
            value = getattr(self, key)
            if value is not None and value < 1:
                raise ValueError(f"env.{key} must be at least 1, not {value}")
        if not 0 < self.timeout <= _LONGEST_TIMEOUT:
            raise ValueError(
                f"env.timeout must be above 0 and at most {_LONGEST_TIMEOUT:g} seconds, not {self.timeout:g}; "
                "there is no value for no limit"
            )
        if self.engine == "textworld" and not installed():
            raise ValueError("env.engine=textworld needs the alfworld package: pip install 'creditlab[alfworld]'")
        if not 0 <= self.seed < 1 << 31:
            raise ValueError(f"env.seed must lie in [0, 2^31), not {self.seed}")
        for key in ("games", "eval_games"):
            if getattr(self, key) is not None and not getattr(self, key).strip():
                raise ValueError(f"env.{key} is empty; give a path or auto, or leave it out for generated games")
        if not self.families:
            raise ValueError(f"env.families must name at least one of {', '.join(FAMILIES)}")
        for family in self._families:
            if not set(rooms_of(family)) & set(self._rooms):
                there = ", ".join(rooms_of(family))
                raise ValueError(f"env.rooms: {family} does not occur in {', '.join(self._rooms)}; it does in {there}")

    @property
    def width(self) -> int | None:
        """Number of workers of the real engine; None for the fast one."""
        return (self.workers or own_cores()) if self.engine == "textworld" else None

    @property
    def role(self) -> str:
        """One sentence that tells the policy who it is."""
        return "You are a skilled household agent that acts in a text world by choosing one command at a time."

    @property
    def phrases(self) -> tuple[str, ...]:
        """Fixed phrases of the texts, in lower case."""
        return phrases(self.grammar)

    def train_tasks(self) -> Sequence[Task]:
        """The training tasks, in a fixed order; generated ones are made when they are asked for."""
        return self._train

    def panel(self, episodes: int, seed: int) -> Panel:
        """A frozen list of evaluation episodes: as many different games as there are, then again with other seeds.

        Raises ValueError for fewer than one episode, or where every held-out game is a training game.
        """
        tasks = self._evaluation(episodes, seed)
        return freeze_panel(self.name, tasks, lambda task: str(task.payload.digest), episodes, seed)

    def episode(self, task: Task) -> AlfworldEpisode | RemoteEpisode:
        """A new episode of a task; `start` begins it. Raises ValueError naming a game that cannot be parsed."""
        game, hidden = self._parse(task.payload), frozenset(self.hide_commands)
        tracker = Tracker(
            task_info(game),
            self.horizon,
            budget_bins=self.budget_bins,
            frontier_excludes_satisfied=self.frontier_excludes_satisfied,
        )
        if self.engine == "textworld":
            return RemoteEpisode(task, tracker, hidden, self.grammar, self._pool)
        return AlfworldEpisode(task, game, tracker, hidden, self.grammar)

    def rehearsal(self) -> ALFWorld:
        """The same games and texts on the fast engine, whose state expert and slips look into."""
        unused: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name in self.operational}
        fast = replace(self, engine="fast", **unused)
        return self if fast == self else fast

    def close(self) -> None:
        """Ends the workers of the real engine; the next episode starts others."""
        pool = self.__dict__.pop("_pool", None)
        if pool is not None:
            pool.close()

    def expert(self, task: Task, rng: np.random.Generator) -> EpisodeExpert:
        """A policy that solves episodes of a task by exploring."""
        return EpisodeExpert(Expert(self._parse(task.payload), rng))

    def slip(self, episode: AlfworldEpisode, rng: np.random.Generator) -> str:
        """A command that reads well but is not admissible now: of the kinds that a careless policy gives."""
        names = sorted(name for name in episode.game.names.values() if not name.startswith("loc "))  # no text names a spot
        here = episode.location
        admissible = set(episode.engine.admissible)
        for _ in range(100):
            thing, place = (names[int(rng.integers(len(names)))] for _ in range(2))
            candidates = (
                f"go to {here}",
                f"open {place}",
                f"take {thing} from {here}",
                f"take {thing} from {place}",
                GRAMMARS[self.grammar].move.format(item=thing, receptacle=here),
            )
            command = candidates[int(rng.integers(len(candidates)))]
            if command not in admissible:
                return command
        return f"go to {here}"

    def vocabulary(self) -> Iterable[str]:
        """Texts that together hold every word of the observations, commands and tasks."""
        return texts(self.grammar, (game.problem for games in self._loaded_sets() for game in games.games))

    def describe(self) -> dict[str, Any]:
        """Facts for the run's manifest: where the games come from, how many, and their hashes."""
        facts: dict[str, Any] = {
            "environment": self.name,
            "engine": self.engine,
            **({"engine_versions": versions()} if self.engine == "textworld" else {}),
            "grammar": self.grammar,
            "families": list(self._families),
            "rooms": list(self._rooms),
            "horizon": self.horizon,
            "train_games": len(self._train),
        }
        if self.games is None:
            return {**facts, "source": "generated", "seed": self.seed, "first_game": self._train[0].payload.digest}
        loaded = self._loaded_training
        return {**facts, "source": loaded.source, "games_hash": loaded.digest, "skipped": dict(loaded.skipped)}

    @cached_property
    def _families(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(family_name(name) for name in self.families))

    @cached_property
    def _rooms(self) -> tuple[str, ...]:
        return self.rooms or ROOMS

    @cached_property
    def _parse(self) -> Callable[[GameText], Game]:
        return lru_cache(maxsize=_PARSED_GAMES)(lambda game: parse_problem(game.problem, game.task, game.name))

    @cached_property
    def _pool(self) -> WorkerPool:
        return WorkerPool(WORKER, self.width or 1, self.timeout, self.recycle)

    @cached_property
    def _train(self) -> Sequence[Task]:
        if self.games is None:
            return GeneratedTasks(self._families, self._rooms, self.seed << 32, self.train_games, unseen=False)
        return tuple(map(_task, self._loaded_training.games))

    @property
    def _training_path(self) -> Path:
        return find_games(self.games or "auto", "games", "train")

    @cached_property
    def _loaded_training(self) -> GameSet:
        return self._load("games", self._training_path)

    @cached_property
    def _loaded_evaluation(self) -> GameSet:
        where = self.eval_games
        path = find_games(where, "eval_games", "valid_seen") if where else find_evaluation_games(self._training_path)
        return self._load("eval_games", path)

    def _load(self, key: str, path: Path) -> GameSet:
        try:
            return load_games(path, self._families, self._rooms)
        except ValueError as error:
            downloaded = (getattr(self, key) or self.games) == "auto"
            hint = f"; run alfworld-download, or set ${DATA_VARIABLE} to where its data lies" if downloaded else ""
            raise ValueError(f"env.{key}: {error}{hint}") from None

    def _loaded_sets(self) -> list[GameSet]:
        training = [] if self.games is None else [self._loaded_training]
        evaluation = [] if self.games is None and self.eval_games is None else [self._loaded_evaluation]
        return training + evaluation

    def _evaluation(self, episodes: int, seed: int) -> Sequence[Task]:
        """Held-out tasks: as many generated ones as asked for, or every loaded one that is no training game."""
        if self.games is None and self.eval_games is None:
            start = (seed << 32) + _EVALUATION_SEEDS
            return GeneratedTasks(self._families, self._rooms, start, episodes, unseen=self.eval_plans == "unseen")
        known = set() if self.games is None else {game.digest for game in self._loaded_training.games}
        held_out = tuple(_task(game) for game in self._loaded_evaluation.games if game.digest not in known)
        if not held_out:
            raise ValueError(
                f"every game of {self._loaded_evaluation.source} is a training game: set env.eval_games to others"
            )
        return held_out


class EpisodeExpert:
    """The engine's expert behind the interface of an environment."""

    def __init__(self, expert: Expert) -> None:
        self._expert = expert

    def act(self, episode: AlfworldEpisode) -> str:
        """The next command in the episode's present state."""
        return self._expert.act(episode.engine)


class GeneratedTasks(Sequence[Task]):
    """Generated tasks over every (family, room) in turn, by its share, each made when it is first asked for."""

    def __init__(self, families: Sequence[str], rooms: Sequence[str], first_seed: int, count: int, *, unseen: bool) -> None:
        kinds = [(family, room) for family in families for room in rooms_of(family) if room in rooms]
        self._kinds = [kind for kind in kinds for _ in range(SHARES.get(kind, 1))]
        self._first_seed = first_seed
        self._count = count
        self._unseen = unseen
        self._made: dict[int, Task] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Task: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Task, ...]: ...

    def __getitem__(self, index: int | slice) -> Task | tuple[Task, ...]:
        if isinstance(index, slice):
            return tuple(self[i] for i in range(*index.indices(self._count)))
        position = range(self._count)[index]
        if position not in self._made:
            family, room = self._kinds[position % len(self._kinds)]
            self._made[position] = _task(generate(family, room, self._first_seed + position, unseen=self._unseen))
        return self._made[position]


def _task(game: GameText) -> Task:
    return Task(game.name, game.family, game.task, payload=game)
