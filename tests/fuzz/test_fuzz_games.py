"""Damaged game files: every game is played, or left out under a named reason, or the file is refused by name."""

from __future__ import annotations

import json
import lzma
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Rng, check_message, fuzz
from mutations import damaged, damaged_json, damaged_text, pick

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.families import FAMILIES, HEAT, LOOK, PICK, TWO
from creditlab.environments.alfworld.gametext import GameText, is_plain
from creditlab.environments.alfworld.generator import generate
from creditlab.environments.alfworld.sources import GameSet, load_games
from creditlab.environments.protocol import Task
from creditlab.training.seeds import derive

KINDS = ((PICK, "bathroom"), (LOOK, "bedroom"), (HEAT, "kitchen"), (TWO, "bathroom"))
GAMES = [generate(family, room, seed) for seed, (family, room) in enumerate(KINDS)]
SIGNS = ("{exit()}", "{", "}", '"', "\\", "[", "]", "|", "#task#", "<", "\n", "ä", "9" * 500, "-", "'", ",", "")
"""What may get into a task sentence: signs that mean something to the real engine, and a few that do not."""
WITNESS = generate(PICK, "bedroom", 99)
"""A whole game beside the damaged one, which has to be there afterwards."""


def record(game: GameText) -> dict[str, Any]:
    return {
        "path": f"train/{game.name}",
        "task": game.task,
        "task_type": game.family,
        "floor_plan": f"FloorPlan{game.plan}",
        "pddl_problem": game.problem,
    }


def trajectory(game: GameText) -> dict[str, Any]:
    params = {"object_target": "Mug", "parent_target": "Desk", "toggle_target": "DeskLamp", "object_sliced": False}
    return {"task_type": game.family, "pddl_params": params, "scene": {"floor_plan": f"FloorPlan{game.plan}"}}


def played(game: GameText) -> None:
    """A game that was loaded can be played."""
    assert game.family in FAMILIES
    env = ALFWorld(families=(game.family,), rooms=(), horizon=6)
    episode = env.episode(Task(game.name, game.family, game.task, payload=game))
    now, rng = episode.start(), derive("played")
    for _ in range(5):
        if now.done:
            break
        now = episode.step(pick(rng, now.view.actions))
        assert now.view.observation


def outcome(loaded: GameSet, damaged_games: int = 1) -> str:
    """Nothing is lost: what is not loaded is counted, and what is loaded can be played."""
    assert len(loaded.games) + sum(loaded.skipped.values()) >= damaged_games
    assert all(reason.strip() and "\n" not in reason for reason in loaded.skipped)
    assert set(loaded.examples) == set(loaded.skipped)
    for game in loaded.games:
        assert is_plain(game.task)
        if game.problem != WITNESS.problem:
            played(game)
    return "skipped" if loaded.skipped else "loaded"


def make_line(rng: Rng) -> bytes:
    """A line of a packed file: damaged in its bytes, its JSON or its problem."""
    whole = record(pick(rng, GAMES))
    match int(rng.integers(5)):
        case 0:
            return damaged(json.dumps(whole).encode(), rng)
        case 1:
            return damaged_json(whole, rng).encode("utf-8", "surrogatepass")
        case 2:
            return json.dumps({**whole, "pddl_problem": damaged_text(whole["pddl_problem"], rng)}).encode()
        case 3:
            place, sign = int(rng.integers(len(whole["task"]) + 1)), pick(rng, SIGNS)
            return json.dumps({**whole, "task": whole["task"][:place] + sign + whole["task"][place:]}).encode()
    return json.dumps({**whole, "task_type": pick(rng, FAMILIES), "path": pick(rng, ("a", "movable", "Sliced", ""))}).encode()


def test_lines_of_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl"

    def check(line: bytes, rng: Rng) -> str:
        path.write_bytes(json.dumps(record(WITNESS)).encode() + b"\n" + line)
        loaded = load_games(path)
        assert loaded.games[0].problem == WITNESS.problem
        lines = [part for part in line.split(b"\n") if part.strip()]
        assert len(loaded.games) + sum(loaded.skipped.values()) == 1 + len(lines)
        if loaded.skipped:
            [*_, example] = loaded.examples.values()
            assert example.startswith("games.jsonl line ")
        return outcome(loaded)

    fuzz("lines of packed files", 260, make_line, check)


def test_archives(tmp_path: Path) -> None:
    path = tmp_path / "games.jsonl.xz"
    whole = lzma.compress("".join(f"{json.dumps(record(game))}\n" for game in GAMES).encode(), preset=0)

    def check(content: bytes, rng: Rng) -> str:
        path.write_bytes(content)
        try:
            loaded = load_games(path)
        except ValueError as error:
            check_message(error, [path])
            return "refused"
        expected = [game.problem for game in GAMES]
        assert all(game.problem in expected for game in loaded.games), "xz's own checks let a change pass"
        return outcome(loaded)

    fuzz("archives", 120, lambda rng: damaged(whole, rng), check)


def make_folder(rng: Rng) -> Mapping[str, bytes]:
    """The files of a game in the official layout, one of them damaged or away."""
    game = pick(rng, GAMES)
    files = {"traj_data.json": json.dumps(trajectory(game)).encode()}
    if rng.random() < 0.5:
        files["initial_state.pddl"] = game.problem.encode()
    else:
        sentence = f'"rhs": "Your task is to: {game.task}."'
        content = {"pddl_problem": game.problem, "grammar": sentence, "solvable": True, "pddl_domain": ""}
        files["game.tw-pddl"] = json.dumps(content).encode()
    name = pick(rng, sorted(files))
    match int(rng.integers(4)):
        case 0:
            del files[name]
        case 1:
            files[name] = damaged(files[name], rng)
        case 2 if name != "initial_state.pddl":
            files[name] = damaged_json(json.loads(files[name]), rng).encode("utf-8", "surrogatepass")
        case _:
            files[name] = damaged_text(files[name].decode(), rng).encode()
    return files


def test_folders_of_the_official_layout(tmp_path: Path) -> None:
    def check(files: Mapping[str, bytes], rng: Rng) -> str:
        place = tmp_path / "train" / "some-game" / "trial_1"
        shutil.rmtree(tmp_path / "train", ignore_errors=True)
        place.mkdir(parents=True)
        for name, content in files.items():
            (place / name).write_bytes(content)
        alone = files.keys() == {"traj_data.json"}  # which nobody takes for a game
        try:
            loaded = load_games(tmp_path / "train")
        except ValueError as error:
            check_message(error, [f"found in {tmp_path / 'train'}{'' if alone else '; 1 skipped: '}"])
            return "refused"
        return outcome(loaded)

    fuzz("folders", 220, make_folder, check)


def test_a_damaged_file_is_the_error_of_the_configuration_key(tmp_path: Path) -> None:
    """Through the environment, as a run meets it: the error names `env.games` and the file."""
    path, other = tmp_path / "games.jsonl", tmp_path / "valid_seen.jsonl"
    other.write_text(json.dumps(record(WITNESS)))

    def check(line: bytes, rng: Rng) -> str:
        path.write_bytes(line)
        env = ALFWorld(games=str(path), families=FAMILIES, rooms=())
        try:
            assert env.train_tasks()
        except ValueError as error:
            check_message(error, ["env.games"])
            check_message(error, [path])
            return "refused"
        assert sum(env.describe()["skipped"].values()) + len(env.train_tasks()) >= 1
        return "loaded"

    fuzz("games of a run", 100, make_line, check)


@pytest.mark.parametrize("game", GAMES, ids=lambda game: game.family)
def test_the_undamaged_games_load_and_can_be_played(game: GameText, tmp_path: Path) -> None:
    """Without damage nothing is skipped: otherwise the tests above could not fail."""
    path = tmp_path / "games.jsonl"
    path.write_text(json.dumps(record(game)))
    assert outcome(load_games(path)) == "loaded"
