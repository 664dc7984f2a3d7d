"""The environment component: episodes, panels, vocabulary and options."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.episode import canonical, policy_text
from creditlab.environments.alfworld.families import FAMILIES, LOOK, PICK
from creditlab.environments.alfworld.generator import rooms_of
from creditlab.environments.protocol import Environment, Task
from creditlab.rollouts import Transition
from tests.conftest import data_path

EVERYTHING = ALFWorld(families=FAMILIES, rooms=(), horizon=50)


def check_protocol(environment: Environment) -> Environment:
    """Typed as the protocol, so that mypy compares them."""
    return environment


def solve(environment: ALFWorld, task: Task, seed: int = 0) -> list[tuple[str, Transition]]:
    """An expert's episode: commands with what they led to, the start first."""
    episode, expert = environment.episode(task), environment.expert(task, np.random.default_rng(seed))
    played = [("", episode.start())]
    while not played[-1][1].done and len(played) < 150:
        command = expert.act(episode)
        played.append((command, episode.step(command)))
    return played


def test_it_is_an_environment_component_usable_with_defaults() -> None:
    environment = check_protocol(ALFWorld())
    assert (ALFWorld.axis, ALFWorld.name) == ("env", "alfworld")
    assert dataclasses.is_dataclass(ALFWorld)
    assert environment.horizon == 15
    tasks = environment.train_tasks()
    assert len(tasks) == 2000
    assert {task.family for task in tasks[:20]} == {PICK}
    assert len({task.id for task in tasks[:200]}) == 200
    assert tasks[-1].id == tasks[1999].id
    with pytest.raises(IndexError):
        tasks[2000]


def test_every_option_has_its_docstring_and_passes_through_configuration() -> None:
    adapter = TypeAdapter(ALFWorld)
    node = adapter.dump_python(ALFWorld(), mode="json")
    assert adapter.validate_python(node) == ALFWorld()
    with pytest.raises(ValidationError):
        adapter.validate_python({"engine": "slow"})
    source = Path(sys.modules[ALFWorld.__module__].__file__ or "").read_text()
    for field in dataclasses.fields(ALFWorld):
        assert re.search(rf'^    {field.name}: [^\n]*\n    """', source, re.MULTILINE), f"{field.name} has no docstring"


def test_the_policy_reads_neither_banner_nor_task_in_the_first_observation() -> None:
    task = ALFWorld().train_tasks()[0]
    first = ALFWorld().episode(task).start()
    raw = first.state.views["observation"]
    assert raw.startswith("-= Welcome to TextWorld, ALFRED! =-\n\n")
    assert raw.endswith(f"\n\nYour task is to: {task.goal}.")
    assert first.view.observation.startswith("You are in the middle of a room.")
    assert raw == f"-= Welcome to TextWorld, ALFRED! =-\n\n{first.view.observation}\n\nYour task is to: {task.goal}."
    assert policy_text("plain text") == "plain text"


def test_status_and_actions_belong_to_the_state_after_the_command() -> None:
    environment = ALFWorld()
    played = solve(environment, environment.train_tasks()[0])
    place, held = "the middle of a room", "nothing"
    for command, transition in played[1:]:
        if command.startswith("go to "):
            place = command.removeprefix("go to ")
        elif command.startswith("take "):
            held = command.removeprefix("take ").partition(" from ")[0]
        elif command.startswith("move "):
            held = "nothing"
        assert transition.view.status == f"at {place} holding {held}"
        assert f"go to {place}" not in transition.view.actions
        assert any(action.startswith("take ") for action in transition.view.actions) <= (held == "nothing")
    assert held == "nothing"


def test_success_gives_ten_and_ends_the_episode() -> None:
    environment = ALFWorld()
    played = solve(environment, environment.train_tasks()[3])
    *before, (_, last) = played
    assert [transition.reward for _, transition in before] == [0.0] * len(before)
    assert not any(transition.done for _, transition in before)
    assert (last.reward, last.done, last.success, last.score, last.effective) == (10.0, True, True, 1.0, True)


def test_commands_are_executed_in_canonical_form() -> None:
    environment = ALFWorld()
    episode = environment.episode(environment.train_tasks()[0])
    place = next(a for a in episode.start().view.actions if a.startswith("go to "))
    transition = episode.step(f"  {place.upper().replace(' ', '  ')} ")
    assert transition.effective
    assert transition.action_key == place
    assert canonical(" Go\tTO  desk 1\n") == "go to desk 1"


def test_an_inadmissible_command_only_costs_a_turn() -> None:
    environment = ALFWorld()
    episode = environment.episode(environment.train_tasks()[0])
    first = episode.start()
    transition = episode.step("fly to the moon")
    assert not transition.effective
    assert transition.view.observation == "Nothing happens."
    assert transition.view.actions == first.view.actions
    assert transition.state.views["exact"] == first.state.views["exact"]
    assert (transition.reward, transition.done) == (0.0, False)


def test_hidden_commands_are_not_listed_but_stay_admissible() -> None:
    environment = ALFWorld(hide_commands=("help", "look", "inventory", "examine"))
    episode = environment.episode(environment.train_tasks()[0])
    first = episode.start()
    assert all(action.startswith("go to ") for action in first.view.actions)
    arrived = episode.step(first.view.actions[0])
    assert not any(action.startswith("examine") for action in arrived.view.actions)
    assert episode.step("inventory").view.observation == "You are not carrying anything."
    assert "help" not in ALFWorld().episode(environment.train_tasks()[0]).start().view.actions
    assert "look" in ALFWorld().episode(environment.train_tasks()[0]).start().view.actions


@pytest.mark.parametrize("family", FAMILIES)
def test_the_expert_solves_episodes_and_the_rubric_ends_in_full(family: str) -> None:
    environment = ALFWorld(families=(family,), rooms=())
    for index in range(20):
        played = solve(environment, environment.train_tasks()[index], index)
        last = played[-1][1]
        assert last.success
        assert last.state.rubric["goal_progress"].satisfied
        assert "task_success" not in last.state.frontier
        assert all(transition.effective for _, transition in played)


def test_a_restored_episode_goes_on_from_the_snapshot() -> None:
    environment = ALFWorld()
    task = environment.train_tasks()[2]
    commands = [command for command, _ in solve(environment, task)[1:]]
    episode, other = environment.episode(task), environment.episode(task)
    episode.start()
    other.start()
    half = len(commands) // 2
    for command in commands[:half]:
        episode.step(command)
    snapshot = episode.snapshot()
    expected = [episode.step(command) for command in commands[half:]]
    other.restore(snapshot)
    assert [other.step(command) for command in commands[half:]] == expected
    episode.restore(snapshot)
    assert [episode.step(command) for command in commands[half:]] == expected
    assert environment.episode(task).start() == episode.start()


@settings(max_examples=30, deadline=None)
@given(index=st.integers(0, 199), seed=st.integers(0, 2**32), turns=st.integers(0, 8))
def test_slips_read_like_commands_but_are_not_admissible(index: int, seed: int, turns: int) -> None:
    episode, rng = EVERYTHING.episode(EVERYTHING.train_tasks()[index]), np.random.default_rng(seed)
    transition = episode.start()
    for _ in range(turns):
        transition = episode.step(transition.view.actions[int(rng.integers(len(transition.view.actions)))])
    slip = EVERYTHING.slip(episode, rng)
    assert slip.split()[0] in {"go", "open", "take", "move"}
    assert not episode.step(slip).effective


def test_a_panel_is_frozen_hashed_and_disjoint_from_training() -> None:
    environment = ALFWorld(train_games=300)
    panel = environment.panel(64, seed=5)
    assert (len(panel.tasks), len(panel.seeds)) == (64, 64)
    assert panel == ALFWorld(train_games=300).panel(64, seed=5)
    assert len({task.payload.digest for task in panel.tasks}) == 64
    assert not {t.payload.digest for t in panel.tasks} & {t.payload.digest for t in environment.train_tasks()}
    others = [environment.panel(64, seed=6), environment.panel(63, seed=5)]
    assert len({panel.hash, *(other.hash for other in others)}) == 3
    assert len(set(panel.seeds)) == 64
    with pytest.raises(ValueError, match="at least one episode, not 0"):
        environment.panel(0, seed=5)


def test_training_games_of_two_seeds_differ_and_face_the_same_panel() -> None:
    first, second = ALFWorld(train_games=300), ALFWorld(train_games=300, seed=1)
    assert not {t.payload.digest for t in first.train_tasks()} & {t.payload.digest for t in second.train_tasks()}
    assert first.panel(64, seed=5) == second.panel(64, seed=5)


def test_the_panel_is_the_same_in_another_process() -> None:
    code = (
        "from creditlab.environments.alfworld.environment import ALFWorld\n"
        "import sys\n"
        "sys.stdout.write(ALFWorld().panel(20, 7).hash)"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "77"}
    run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == ALFWorld().panel(20, 7).hash


def test_unseen_floor_plans_are_an_option() -> None:
    seen = {task.payload.plan for task in ALFWorld(train_games=200).train_tasks()}
    unseen = {task.payload.plan for task in ALFWorld(eval_plans="unseen").panel(60, 0).tasks}
    usual = {task.payload.plan for task in ALFWorld().panel(60, 0).tasks}
    assert not seen & unseen
    assert usual <= seen


def test_families_and_rooms_take_turns() -> None:
    kinds = [(task.family, task.payload.room) for task in ALFWorld(families=("pick", "look")).train_tasks()[:6]]
    assert kinds[:3] == kinds[3:]
    assert set(kinds) == {(PICK, "bathroom"), (PICK, "bedroom"), (LOOK, "bedroom")}


def test_the_vocabulary_holds_every_word_of_every_family() -> None:
    pattern = re.compile(r"[a-z]+|\d|[^\sa-z\d]")
    known = set(pattern.findall(" ".join(EVERYTHING.vocabulary()).lower()))
    rng = np.random.default_rng(0)
    for index in range(0, 140, 2):
        task = EVERYTHING.train_tasks()[index]
        episode, expert = EVERYTHING.episode(task), EVERYTHING.expert(task, rng)
        transition, texts = episode.start(), [task.goal]
        for _ in range(30):
            admissible = episode.engine.admissible
            texts += [transition.view.observation, transition.view.status, *admissible]
            random_one = admissible[int(rng.integers(len(admissible)))]
            transition = episode.step(expert.act(episode) if rng.random() < 0.6 else random_one)
            if transition.done:
                break
        assert set(pattern.findall(" ".join(texts).lower())) <= known


def test_phrases_are_few_lower_case_and_occur_in_the_texts() -> None:
    phrases = EVERYTHING.phrases
    assert len(phrases) == len(set(phrases))
    assert 20 <= len(phrases) <= 32
    played = [step for index in range(30) for step in solve(EVERYTHING, EVERYTHING.train_tasks()[index])]
    goals = " ".join(EVERYTHING.train_tasks()[index].goal for index in range(60))
    texts = [f"{t.view.observation} {t.view.status} {' '.join(t.view.actions)}".lower() for _, t in played]
    everything = " ".join([*texts, goals, "nothing happens.", "you close the drawer 1."])
    assert [phrase for phrase in phrases if phrase not in everything] == []
    assert all(phrase == phrase.lower() for phrase in phrases)


def test_construction_reads_and_generates_nothing() -> None:
    environment = ALFWorld(games="nowhere.jsonl")
    with pytest.raises(ValueError, match=r"env\.games: no games at nowhere\.jsonl"):
        environment.train_tasks()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"families": ("fly",)}, "unknown task family 'fly'; there are pick, look, clean, heat, cool, two"),
        ({"families": ()}, r"env\.families must name at least one of"),
        ({"rooms": ("cellar",)}, r"env\.rooms: unknown room 'cellar'; there are kitchen, living_room"),
        ({"families": ("heat",)}, r"heat_then_place_in_recep does not occur in bathroom, bedroom; it does in kitchen"),
        ({"horizon": 0}, r"env\.horizon must be at least 1, not 0"),
        ({"train_games": 0}, r"env\.train_games must be at least 1"),
        ({"budget_bins": 0}, r"env\.budget_bins must be at least 1"),
        ({"seed": -1}, r"env\.seed must lie in \[0, 2\^31\), not -1"),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ALFWorld(**options)


def test_a_game_that_cannot_be_parsed_is_named(tmp_path: Path) -> None:
    task = ALFWorld().train_tasks()[0]
    broken = dataclasses.replace(task.payload, problem=task.payload.problem.replace("(:init", "(:init (flies agent1)"))
    with pytest.raises(ValueError, match=re.escape(task.payload.name)):
        ALFWorld().episode(Task(task.id, task.family, task.goal, payload=broken))


def test_describe_names_source_counts_and_hashes() -> None:
    facts = ALFWorld(train_games=7).describe()
    assert facts["source"] == "generated"
    assert facts["train_games"] == 7
    assert facts["first_game"] == ALFWorld().train_tasks()[0].payload.digest
    assert facts["rooms"] == ["bathroom", "bedroom"]


def test_real_games_train_and_their_neighbours_evaluate() -> None:
    environment = ALFWorld(games=str(data_path("alfworld", "train.jsonl.xz")))
    tasks = environment.train_tasks()
    assert len(tasks) == 501  # pick-and-place in bathrooms and bedrooms: 264 + 237
    panel = environment.panel(256, seed=0)
    assert len({task.id for task in panel.tasks}) == 21
    assert len(set(zip((task.id for task in panel.tasks), panel.seeds, strict=True))) == 256
    assert max(np.unique([t.id for t in panel.tasks], return_counts=True)[1]) == 13  # 256 = 12 · 21 + 4
    assert environment.panel(10, seed=0).hash != environment.panel(10, seed=1).hash
    assert environment.describe()["train_games"] == 501
    for index in range(0, 500, 25):
        assert solve(environment, tasks[index])[-1][1].success


def test_held_out_games_that_are_training_games_are_left_out() -> None:
    path = str(data_path("alfworld", "valid_seen.jsonl.xz"))
    with pytest.raises(ValueError, match=r"is a training game: set env\.eval_games"):
        ALFWorld(games=path, eval_games=path).panel(4, 0)


def test_generated_training_with_real_evaluation() -> None:
    environment = ALFWorld(eval_games=str(data_path("alfworld", "valid_seen.jsonl.xz")))
    assert environment.describe()["source"] == "generated"
    assert all(task.id.startswith("valid_seen/") for task in environment.panel(30, 0).tasks)


def test_rooms_of_lists_where_a_family_occurs() -> None:
    assert rooms_of(LOOK) == ("living_room", "bedroom")
    assert rooms_of(PICK) == ("kitchen", "living_room", "bedroom", "bathroom")


def test_places_without_a_wanted_game_are_named_with_their_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALFWORLD_DATA", str(tmp_path))
    with pytest.raises(ValueError, match=r"^env\.games: no game of .*; run alfworld-download, or set \$ALFWORLD_DATA"):
        ALFWorld(games="auto").train_tasks()
    with pytest.raises(ValueError, match=rf"^env\.eval_games: no game of .* found in {re.escape(str(tmp_path))}$"):
        ALFWorld(eval_games=str(tmp_path)).panel(4, 0)
