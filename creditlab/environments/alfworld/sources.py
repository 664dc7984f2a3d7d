"""Loading games from disk: the official layout, or a packed file with one JSON object a line.

A directory holds `game.tw-pddl` files (JSON) or `initial_state.pddl` files, each beside its `traj_data.json`. A packed file
(`.jsonl` or `.jsonl.xz`) has the fields path, task, task_type, floor_plan and pddl_problem. A game that cannot be read is
left out and counted under a named reason; where no game is left, that is an error.
"""

from __future__ import annotations

import hashlib
import logging
import lzma
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from creditlab import strict_json
from creditlab.environments.alfworld.families import FAMILIES, task_sentences
from creditlab.environments.alfworld.gametext import PLAIN_SENTENCE, GameText, is_plain
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.scenes import room_of_plan
from creditlab.limits import user_path

_log = logging.getLogger(__name__)

GAME_FILE = "game.tw-pddl"
PROBLEM_FILE = "initial_state.pddl"
TRAJECTORY_FILE = "traj_data.json"
DATA_VARIABLE = "ALFWORLD_DATA"
_DEFAULT_DATA = "~/.cache/alfworld"
SPLITS = ("train", "valid_seen", "valid_unseen")
"""The official splits that have games to play."""
_SUFFIXES = (".jsonl", ".jsonl.xz")
_TASK = re.compile(r'Your task is to: ([^"\n]{1,500})(?:["\n]|$)')
_PLAN = re.compile(r"(?<!\d)(\d{1,6})$")
_LONGEST_RECORD = 1 << 24
"""Bytes of a line in a packed file from which it is no game; real ones have about 50,000."""
_REASONS = 5
"""Reasons that a message lists."""
_LONGEST_REASON = 160


Wanted = Callable[[str, int], bool]
"""Whether games of a family and floor plan are asked for."""
Reader = Callable[[Wanted], GameText | None]
"""Reads one game; none where it is not asked for. Raises UnreadableGameError with the reason where it cannot be read."""


class UnreadableGameError(ValueError):
    """A game that is left out; the message, without the game's name, is the reason it is counted under."""


@dataclass(frozen=True)
class GameSet:
    """Games in a fixed order, and how many were left out for which reason."""

    source: str
    games: tuple[GameText, ...]
    skipped: Mapping[str, int]
    examples: Mapping[str, str]
    """The first game that was left out for each reason."""

    @property
    def digest(self) -> str:
        """SHA-256 over the games and their order."""
        return hashlib.sha256("".join(game.digest for game in self.games).encode()).hexdigest()


def load_games(path: Path, families: Collection[str] = FAMILIES, rooms: Collection[str] = ()) -> GameSet:
    """Every readable game of these families and rooms (any, where none is named) under a directory or in a packed file.

    Games that are left out are logged in one line. Raises ValueError where nothing is found, with the reasons.
    """
    skipped: Counter[str] = Counter()
    examples: dict[str, str] = {}
    games = []

    def wanted(family: str, plan: int) -> bool:
        return family in families and (not rooms or room_of_plan(plan) in rooms)

    for name, read in _candidates(path):
        try:
            game = read(wanted)
        except UnreadableGameError as error:
            reason = str(error)[:_LONGEST_REASON]
            skipped[reason] += 1
            examples.setdefault(reason, name)
            continue
        if game is not None:
            games.append(game)
    reasons = _listed(skipped, examples)
    if not games:
        wanted_games = f"{', '.join(families)} in {', '.join(rooms) or 'any room'}"
        raise ValueError("; ".join(filter(None, [f"no game of {wanted_games} found in {path}", reasons])))
    if reasons:
        _log.warning("%s: %s", path, reasons)
    return GameSet(str(path), tuple(games), dict(skipped), examples)


def _listed(skipped: Counter[str], examples: Mapping[str, str]) -> str:
    """The most frequent reasons in words, with the first game of each."""
    frequent = skipped.most_common(_REASONS)
    listed = [f"{count} skipped: {reason} (first {examples[reason]})" for reason, count in frequent]
    others = skipped.total() - sum(count for _, count in frequent)
    return "; ".join([*listed, f"{others} skipped for other reasons"] if others else listed)


def find_games(where: str, key: str, split: str) -> Path:
    """The path that `where` stands for: a packed file, a directory, or `auto` for the data that alfworld-download stored.

    A directory with splits gives the named one. Raises ValueError naming the configuration key and what was looked for.
    """
    if where == "auto":
        root = data_root()
        hint = f"run alfworld-download, set ${DATA_VARIABLE} to where its data lies, or give a path"
    else:
        root = user_path(f"env.{key}", where)
        hint = "give a directory, a .jsonl or .jsonl.xz file, or auto"
    if not root.exists():
        raise ValueError(f"env.{key}: no games at {root}; {hint}")
    if root.is_file():
        if not root.name.endswith(_SUFFIXES):
            raise ValueError(f"env.{key}: {root} is no packed file of games; {hint}")
        return root
    parts = [root / split, *sorted(root.glob(f"json_2.1.*/{split}"), reverse=True)]
    return next((part for part in parts if part.is_dir()), root)


def data_root() -> Path:
    """Where alfworld-download stores its data."""
    return user_path(f"${DATA_VARIABLE}", os.environ.get(DATA_VARIABLE) or _DEFAULT_DATA)


def count_games(path: Path) -> int:
    """Number of games in a directory or a packed file, readable or not."""
    return sum(1 for _ in _candidates(path))


def find_evaluation_games(training: Path) -> Path:
    """The held-out games that belong to training games: the first `valid_seen*` beside them."""
    beside = sorted(p for p in training.parent.glob("valid_seen*") if p.is_dir() or p.name.endswith(_SUFFIXES))
    if not beside:
        raise ValueError(f"no held-out games valid_seen* beside {training}: set env.eval_games to a directory or packed file")
    return beside[0]


def _candidates(path: Path) -> Iterator[tuple[str, Reader]]:
    """Names of what may be a game, in a fixed order, each with a function that reads it."""
    if path.is_file():
        yield from _packed(path)
        return
    for folder in sorted({file.parent for name in (GAME_FILE, PROBLEM_FILE) for file in path.rglob(name)}):
        name = folder.relative_to(path).as_posix()
        yield name, partial(_read_folder, folder, name)


def _packed(path: Path) -> Iterator[tuple[str, Reader]]:
    opened = lzma.open if path.name.endswith(".xz") else open
    number = 0
    try:
        with opened(path, "rb") as lines:
            while line := lines.readline(_LONGEST_RECORD):  # a damaged archive may unpack to whatever fits
                number += 1
                if len(line) == _LONGEST_RECORD:
                    yield f"{path.name} line {number}", partial(_refuse, "the file is damaged from here on (endless line)")
                    return
                if line.strip():
                    yield f"{path.name} line {number}", partial(_read_line, line)
    except (EOFError, lzma.LZMAError, OSError) as error:
        reason = f"the file is damaged from here on ({type(error).__name__})"
        yield f"{path.name} after line {number}", partial(_refuse, reason)


def _refuse(reason: str, wanted: Wanted) -> None:
    raise UnreadableGameError(reason)


def _read_line(line: bytes, wanted: Wanted) -> GameText | None:
    record = _json_object(line)
    path = _text(record, "path")
    _official_filter(path)
    family, plan = _family(record), _plan(_text(record, "floor_plan"))
    if not wanted(family, plan):
        return None
    return _game(path, _text(record, "task"), family, plan, _text(record, "pddl_problem"))


def _read_folder(folder: Path, name: str, wanted: Wanted) -> GameText | None:
    _official_filter(name)
    trajectory = _json_object(_read_bytes(folder / TRAJECTORY_FILE))
    family, params = _family(trajectory), trajectory.get("pddl_params")
    if not isinstance(params, dict):
        raise UnreadableGameError(f"{TRAJECTORY_FILE} has no pddl_params")
    if params.get("object_sliced"):
        raise UnreadableGameError("sliced object, not supported")
    scene = trajectory.get("scene")
    plan = _plan(_text(scene if isinstance(scene, dict) else trajectory, "floor_plan"))
    if not wanted(family, plan):
        return None
    if not (folder / GAME_FILE).exists():
        goal = "toggle_target" if params.get("toggle_target") else "parent_target"
        sentence = task_sentences(family, _text(params, "object_target"), _text(params, goal))[0]
        return _game(name, sentence, family, plan, _read_text(folder / PROBLEM_FILE))
    record = _json_object(_read_bytes(folder / GAME_FILE))
    if record.get("solvable") is not True:
        raise UnreadableGameError("not solvable, or not known to be")
    found = _TASK.search(_text(record, "grammar"))
    task = found.group(1).strip().removesuffix(".") if found else ""
    if task in ("", "UNKNOWN GOAL"):
        raise UnreadableGameError("the grammar holds no task sentence")
    return _game(name, task, family, plan, _text(record, "pddl_problem"))


def _official_filter(name: str) -> None:
    """Leaves out what the official environment leaves out."""
    if "movable" in name:
        raise UnreadableGameError("movable receptacle, not supported")
    if "Sliced" in name:
        raise UnreadableGameError("sliced object, not supported")


def _game(name: str, task: str, family: str, plan: int, problem: str) -> GameText:
    """The game, once its problem has been parsed, so that a damaged one is not met in the middle of a run."""
    sentence = task.strip().removesuffix(".")
    if not is_plain(sentence):
        raise UnreadableGameError(f"the task is no plain sentence ({PLAIN_SENTENCE})")
    try:
        game = parse_problem(problem, sentence, name)
    except ValueError as error:
        raise UnreadableGameError(str(error).removeprefix(f"{name}: ")) from None
    if game.family != family:
        raise UnreadableGameError(f"the goal is that of {game.family}, the task type is {family}")
    if len(game.targets) < game.required or not (game.goal_receptacles or game.lamps):
        raise UnreadableGameError("nothing in it can satisfy the goal")
    return GameText(name, sentence, family, room_of_plan(plan), plan, problem)


def _family(record: Mapping[str, Any]) -> str:
    family = _text(record, "task_type")
    if family not in FAMILIES:
        raise UnreadableGameError(f"unknown task type {family[:40]!r}")
    return family


def _plan(text: str) -> int:
    match = _PLAN.search(text)
    if match is None:
        raise UnreadableGameError(f"unknown floor plan {text[:40]!r}")
    number = int(match.group(1))
    try:
        room_of_plan(number)
    except ValueError as error:
        raise UnreadableGameError(str(error)) from None
    return number


def _text(record: Mapping[str, Any], key: str) -> str:
    value = record.get(key)
    if not isinstance(value, str) or not value:
        raise UnreadableGameError(f"field {key} is missing or no text")
    return value


def _json_object(text: bytes) -> Mapping[str, Any]:
    try:
        record = strict_json.parse(text)
    except ValueError:
        raise UnreadableGameError("no valid JSON") from None
    if not isinstance(record, dict):
        raise UnreadableGameError("no JSON object")
    return record


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UnreadableGameError(f"{path.name} cannot be read ({type(error).__name__})") from None


def _read_text(path: Path) -> str:
    try:
        return _read_bytes(path).decode()
    except UnicodeDecodeError as error:
        raise UnreadableGameError(f"{path.name} cannot be read ({type(error).__name__})") from None
