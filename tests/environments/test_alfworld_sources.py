"""Loading games from packed files and from the official layout, whole and damaged."""

from __future__ import annotations

import json
import lzma
import time
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from creditlab.environments.alfworld.families import FAMILIES, LOOK, PICK
from creditlab.environments.alfworld.generator import generate
from creditlab.environments.alfworld.packing import pack
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.sources import find_evaluation_games, find_games, load_games
from tests.conftest import data_path


def record(family: str = PICK, room: str = "bathroom", seed: int = 0, **changes: Any) -> dict[str, Any]:
    game = generate(family, room, seed)
    return {
        "path": f"train/{game.name}",
        "task": f"{game.task}.",
        "task_type": family,
        "pddl_params": {},
        "floor_plan": f"FloorPlan{game.plan}",
        "pddl_problem": game.problem,
        **changes,
    }


def packed(path: Path, *lines: Any) -> Path:
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    path.write_bytes(lzma.compress(text.encode()) if path.suffix == ".xz" else text.encode())
    return path


def folder(
    root: Path, name: str, *, grammar: str = "", solvable: Any = True, trajectory: Any = None, bare: bool = False
) -> None:
    game = generate(PICK, "bathroom", 1)
    place = root / name
    place.mkdir(parents=True)
    default = {
        "task_type": PICK,
        "pddl_params": {"object_target": "SoapBar", "parent_target": "Toilet", "toggle_target": "", "object_sliced": False},
        "scene": {"floor_plan": f"FloorPlan{game.plan}"},
    }
    (place / "traj_data.json").write_text(json.dumps(default if trajectory is None else trajectory))
    if bare:
        (place / "initial_state.pddl").write_text(game.problem)
        return
    sentence = grammar or '"rhs": "Your task is to: put some soapbar on toilet."'
    content = {"pddl_problem": game.problem, "grammar": sentence, "solvable": solvable, "pddl_domain": "", "walkthrough": []}
    (place / "game.tw-pddl").write_text(json.dumps(content))


@pytest.mark.parametrize("name", ["games.jsonl", "games.jsonl.xz"])
def test_a_packed_file_gives_its_games_in_order(tmp_path: Path, name: str) -> None:
    path = packed(tmp_path / name, record(seed=3), record(LOOK, "bedroom", 4), record(seed=5))
    games = load_games(path)
    assert [game.problem for game in games.games] == [
        generate(PICK, "bathroom", 3).problem,
        generate(LOOK, "bedroom", 4).problem,
        generate(PICK, "bathroom", 5).problem,
    ]
    assert games.games[0].task == generate(PICK, "bathroom", 3).task, "the final period is dropped"
    assert games.games[1].room == "bedroom"
    assert games.skipped == {}


def test_families_and_rooms_filter(tmp_path: Path) -> None:
    path = packed(tmp_path / "g.jsonl", record(), record(PICK, "kitchen"), record(LOOK, "bedroom"))
    assert [g.room for g in load_games(path, (PICK,)).games] == ["bathroom", "kitchen"]
    assert [g.family for g in load_games(path, FAMILIES, ("bedroom",)).games] == [LOOK]
    with pytest.raises(ValueError, match=r"no game of look_at_obj_in_light in kitchen found in .*g\.jsonl"):
        load_games(path, (LOOK,), ("kitchen",))


def test_what_cannot_be_read_is_counted_under_its_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole = record()
    missing = {key: value for key, value in whole.items() if key != "task"}
    path = packed(
        tmp_path / "g.jsonl",
        whole,
        '{"path": "train/x", ',
        "[1, 2]",
        "",
        missing,
        record(task_type="juggle"),
        record(floor_plan="FloorPlan999"),
        record(floor_plan="attic"),
        record(pddl_problem=whole["pddl_problem"][:-40]),
        record(pddl_problem=whole["pddl_problem"].replace("(:goal", "(:gaol")),
        record(path="train/pick_and_place_with_movable_recep-x"),
        record(path="train/pick-AppleSliced-None-Desk-301/t"),
        record(pddl_problem=7),
    )
    loaded = load_games(path)
    assert len(loaded.games) == 1
    assert loaded.skipped == {
        "no valid JSON": 1,
        "no JSON object": 1,
        "field task is missing or no text": 1,
        "unknown task type 'juggle'": 1,
        "no room type has the floor plan 999": 1,
        "unknown floor plan 'attic'": 1,
        "PDDL syntax error: 7 parentheses are never closed": 1,
        "unknown section ':gaol'; a problem has :domain, :objects, :init, :goal": 1,
        "movable receptacle, not supported": 1,
        "sliced object, not supported": 1,
        "field pddl_problem is missing or no text": 1,
    }
    assert loaded.examples["no valid JSON"] == "g.jsonl line 2"
    assert len(caplog.records) == 1
    assert "1 skipped: no valid JSON (first g.jsonl line 2)" in caplog.text


def test_a_game_is_parsed_before_it_counts(tmp_path: Path) -> None:
    """Damage inside of a problem, and a problem that is not what its record says, are met here and not in a run."""
    whole, look = record(), record(LOOK, "bedroom", 4)
    problem = whole["pddl_problem"]
    loaded = load_games(
        packed(
            tmp_path / "g.jsonl",
            whole,
            record(pddl_problem=problem.replace("(atLocation ", "(atLocaction ", 1)),
            record(pddl_problem="(" * 5000 + problem),
            record(pddl_problem=look["pddl_problem"]),
            record(pddl_problem=problem.replace("-", "_")),
        )
    )
    assert len(loaded.games) == 1
    reasons = sorted(loaded.skipped)
    assert reasons[0].startswith("'")
    assert "has no type in :objects" in reasons[0]
    assert reasons[1:] == [
        "PDDL syntax error: more than 50 parentheses within each other",
        "the goal is that of look_at_obj_in_light, the task type is pick_and_place_simple",
        "unknown predicate 'atlocaction' in :init; the alfred domain has none such",
    ]


def test_a_line_that_is_no_text_costs_itself_alone(tmp_path: Path) -> None:
    lines = [json.dumps(record(seed=seed)).encode() for seed in (0, 1, 2)]
    lines[1] = lines[1][:100] + b"\xff\xfe" + lines[1][100:]
    (tmp_path / "g.jsonl").write_bytes(b"\n".join(lines))
    loaded = load_games(tmp_path / "g.jsonl")
    assert len(loaded.games) == 2
    assert loaded.skipped == {"no valid JSON": 1}


def test_an_archive_of_one_endless_line_ends_the_reading(tmp_path: Path) -> None:
    """64 MB of blanks in a few kB: no more than 16 MB of it are unpacked."""
    path = tmp_path / "g.jsonl.xz"
    compressor = lzma.LZMACompressor(preset=0)
    with path.open("wb") as file:
        file.write(compressor.compress(json.dumps(record()).encode() + b"\n"))
        file.writelines(compressor.compress(b" " * (1 << 20)) for _ in range(64))
        file.write(compressor.flush())
    tracemalloc.start()
    try:
        loaded = load_games(path)
        assert tracemalloc.get_traced_memory()[1] < 48 << 20
    finally:
        tracemalloc.stop()
    assert len(loaded.games) == 1
    assert loaded.skipped == {"the file is damaged from here on (endless line)": 1}


def test_a_long_sentence_is_read_in_no_time(tmp_path: Path) -> None:
    """Blanks without an end, and digits without an end, at which a careless pattern tries every split."""
    folder(tmp_path, "a/trial_1")
    folder(tmp_path, "b/trial_2", grammar="Your task is to: put" + " " * 200_000 + "x")
    folder(tmp_path, "c/trial_3", trajectory={"task_type": PICK, "pddl_params": {}, "floor_plan": "1" * 200_000 + "x"})
    start = time.process_time()
    assert len(load_games(tmp_path).games) == 1
    assert time.process_time() - start < 2


def test_many_reasons_are_told_of_in_one_short_line(tmp_path: Path) -> None:
    path = packed(tmp_path / "g.jsonl", *(record(task_type=f"kind {i % 9}" + "x" * 5000) for i in range(90)))
    with pytest.raises(ValueError, match="no game of") as caught:
        load_games(path)
    assert len(str(caught.value)) < 1500
    assert str(caught.value).endswith("; 40 skipped for other reasons")


def test_a_truncated_archive_keeps_what_came_before(tmp_path: Path) -> None:
    path = packed(tmp_path / "g.jsonl.xz", *(record(seed=seed) for seed in range(40)))
    path.write_bytes(path.read_bytes()[:-2000])
    loaded = load_games(path)
    assert 0 < len(loaded.games) < 40
    assert sum(loaded.skipped.values()) == 1
    assert any("the file is damaged from here on" in reason for reason in loaded.skipped)


UNPLAIN = (
    "put a mug {__import__('os').remove('x')} in desk",
    'put a "mug" in desk',
    "put a mug\\n in desk",
    "put a [mug] in desk",
    "put a mug | bowl in desk",
    "put a #mug# in desk",
    "put a mug <in> desk",
    "put a mug\nin desk",
    "put a müg in desk",
    "x" * 501,
    " . ",
)
"""Sentences with signs that mean something to the real engine, one of them code to run; or longer than any, or empty."""


@pytest.mark.parametrize("task", UNPLAIN)
def test_a_task_that_is_no_plain_sentence_is_left_out(tmp_path: Path, task: str) -> None:
    loaded = load_games(packed(tmp_path / "g.jsonl", record(), record(task=task)))
    [reason] = loaded.skipped
    assert reason.startswith("the task is no plain sentence (at most 500 letters")
    assert len(loaded.games) == 1


def test_no_part_of_the_official_layout_brings_in_code(tmp_path: Path) -> None:
    """Neither the stored grammar nor the names from which a sentence is made."""
    folder(tmp_path, "a/trial_1", grammar="Your task is to: put {len.__self__.exit()} in desk.")
    params = {"object_target": "{exit()}", "parent_target": "Toilet", "toggle_target": "", "object_sliced": False}
    trajectory = {"task_type": PICK, "pddl_params": params, "scene": {"floor_plan": "FloorPlan401"}}
    folder(tmp_path, "b/trial_1", trajectory=trajectory, bare=True)
    with pytest.raises(ValueError, match="2 skipped: the task is no plain sentence"):
        load_games(tmp_path)


@pytest.mark.parametrize("task", UNPLAIN)
def test_the_real_engine_is_given_plain_sentences_only(task: str) -> None:
    """Whatever a game comes from; refused before the engine's package is looked for."""
    game = replace(generate(PICK, "bathroom", 1), task=task.strip().removesuffix("."))
    with pytest.raises(ValueError, match="is no plain sentence"):
        pack(game)


def test_an_archive_that_is_none_is_an_error_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl.xz"
    path.write_bytes(b"no archive at all")
    with pytest.raises(
        ValueError, match=r"no game of .* found in .*1 skipped: the file is damaged .*first g\.jsonl\.xz after line 0"
    ):
        load_games(path)


def test_the_official_layout_with_its_filter(tmp_path: Path) -> None:
    train = tmp_path / "json_2.1.1" / "train"
    folder(train, "pick_and_place_simple-SoapBar-None-Toilet-401/trial_1")
    folder(train, "pick_and_place_simple-SoapBar-None-Toilet-401/trial_2", solvable=False)
    folder(train, "pick_and_place_simple-SoapBar-None-Toilet-401/trial_3", solvable=None)
    folder(train, "pick_and_place_with_movable_recep-a/trial_4")
    folder(train, "pick-AppleSliced-None/trial_5")
    folder(train, "pick_and_place_simple-x/trial_6", grammar="Your task is to: UNKNOWN GOAL.")
    folder(train, "pick_and_place_simple-x/trial_7", trajectory={"task_type": PICK})
    folder(train, "pick_and_place_simple-x/trial_8", bare=True)
    loaded = load_games(train)
    assert [game.name for game in loaded.games] == [
        "pick_and_place_simple-SoapBar-None-Toilet-401/trial_1",
        "pick_and_place_simple-x/trial_8",
    ]
    assert loaded.games[0].task == "put some soapbar on toilet"
    assert loaded.games[1].task == "put a soapbar in toilet", "without a stored sentence, the family's first one"
    assert loaded.skipped == {
        "not solvable, or not known to be": 2,
        "movable receptacle, not supported": 1,
        "sliced object, not supported": 1,
        "the grammar holds no task sentence": 1,
        "traj_data.json has no pddl_params": 1,
    }


def test_a_game_without_its_trajectory_file_is_skipped(tmp_path: Path) -> None:
    folder(tmp_path, "a/trial_1")
    folder(tmp_path, "a/trial_2")
    (tmp_path / "a" / "trial_2" / "traj_data.json").unlink()
    assert load_games(tmp_path).skipped == {"traj_data.json cannot be read (FileNotFoundError)": 1}


def test_an_empty_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"no game of .* found in"):
        load_games(tmp_path)


def test_the_downloaded_data_is_found_by_its_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "json_2.1.1" / "train").mkdir(parents=True)
    (tmp_path / "json_2.1.1" / "valid_seen").mkdir()
    (tmp_path / "json_2.1.1" / "valid_unseen").mkdir()
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    training = find_games("auto", "games", "train")
    assert training == tmp_path / "json_2.1.1" / "train"
    assert find_evaluation_games(training) == tmp_path / "json_2.1.1" / "valid_seen"
    assert find_games(str(tmp_path), "eval_games", "valid_unseen") == tmp_path / "json_2.1.1" / "valid_unseen"


def test_places_without_games_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"env\.games: no games at .*nowhere; run alfworld-download, set \$ALFWORLD_DATA"):
        find_games("auto", "games", "train")
    with pytest.raises(ValueError, match=r"env\.eval_games: no games at missing\.jsonl; give a directory"):
        find_games("missing.jsonl", "eval_games", "valid_seen")
    other = tmp_path / "games.csv"
    other.write_text("")
    with pytest.raises(ValueError, match=r"games\.csv is no packed file of games"):
        find_games(str(other), "games", "train")
    with pytest.raises(ValueError, match=r"no held-out games valid_seen\* beside .*set env\.eval_games"):
        find_evaluation_games(other)


def test_held_out_games_lie_beside_a_packed_file(tmp_path: Path) -> None:
    training = packed(tmp_path / "train.jsonl.xz", record())
    held_out = packed(tmp_path / "valid_seen.jsonl.xz", record(seed=1))
    assert find_evaluation_games(training) == held_out


def test_the_digest_depends_on_content_and_order(tmp_path: Path) -> None:
    one = load_games(packed(tmp_path / "a.jsonl", record(seed=1), record(seed=2))).digest
    renamed = load_games(packed(tmp_path / "b.jsonl", record(seed=1, path="p"), record(seed=2, path="q"))).digest
    swapped = load_games(packed(tmp_path / "c.jsonl", record(seed=2), record(seed=1))).digest
    assert one == renamed != swapped


def test_the_real_games_load() -> None:
    loaded = load_games(data_path("alfworld", "valid_seen.jsonl.xz"))
    counts = [sum(game.family == family for game in loaded.games) for family in FAMILIES]
    assert counts == [35, 13, 27, 16, 25, 24]
    assert loaded.skipped == {}
    for game in loaded.games[::10]:
        assert parse_problem(game.problem, game.task, game.name).family == game.family
