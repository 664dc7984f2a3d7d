"""The fast ALFWorld engine against the real engine's transcripts, the written rules, and its own invariants."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import kitchen
import numpy as np
import pytest
from conftest import data_path
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.problem import Game, UnknownDomainError, parse_problem

FAMILIES = tuple(kitchen.GOALS)


def game(family: str = "pick_and_place_simple") -> Game:
    task, goal = kitchen.GOALS[family]
    return parse_problem(kitchen.problem(goal), task, f"kitchen/{family}")


def play(engine: Engine, *commands: str) -> str:
    """The feedback to the last command; each must be admissible."""
    feedback = ""
    for command in commands:
        feedback = engine.step(command)
        assert engine.effective, command
    return feedback


RECORDED: dict[GrammarName, str] = {"0.4": "kitchen_transcripts.jsonl", "0.3": "kitchen_transcripts_0.3.jsonl"}


def transcripts() -> Iterator[tuple[GrammarName, str, list[dict[str, Any]]]]:
    """Games played in alfworld 0.4.2 on textworld 1.7.0 with the kitchen's problems: every text, command list and `won`.

    Those of the older grammar are the same games, played with the older domain and texts.
    """
    for grammar, file in RECORDED.items():
        lines = (Path(__file__).parent / file).read_text().splitlines()
        for family, steps in groupby(map(json.loads, lines), key=lambda step: str(step["family"])):
            yield grammar, family, list(steps)


CASES = [pytest.param(*case, id=f"{case[1]}-{case[0]}") for case in transcripts()]


@pytest.mark.parametrize(("grammar", "family", "steps"), CASES)
def test_equals_the_real_engine_on_the_kitchen(grammar: GrammarName, family: str, steps: list[dict[str, Any]]) -> None:
    engine = Engine(game(family), grammar)
    for step in steps:
        feedback = engine.reset() if step["command"] is None else engine.step(step["command"])
        assert feedback == step["feedback"], step["command"]
        assert list(engine.admissible) == step["admissible"], step["command"]
        assert engine.won == step["won"], step["command"]


def test_transcripts_cover_every_family_and_verb() -> None:
    common = {"look", "inventory", "examine", "go", "open", "close", "take", "use", "heat", "clean", "cool", "slice"}
    for grammar, own in (("0.4", {"move", "help"}), ("0.3", {"put"})):
        played = [step for version, _, steps in transcripts() if version == grammar for step in steps]
        assert {step["family"] for step in played} == set(FAMILIES)
        executed = [step for step in played if step["command"] and step["feedback"] != "Nothing happens."]
        assert {step["command"].split()[0] for step in executed} == common | own


def test_introduction_names_receptacles_in_id_order_with_descending_numbers() -> None:
    assert Engine(game()).reset() == (
        "-= Welcome to TextWorld, ALFRED! =-\n\nYou are in the middle of a room. Looking quickly around you, you see "
        "a cabinet 2, a cabinet 1, a countertop 1, a diningtable 1, a fridge 1, a microwave 1, a sidetable 1, "
        "and a sinkbasin 1.\n\nYour task is to: put a mug in sidetable."
    )


@pytest.mark.parametrize(
    ("setup", "command", "feedback"),
    [
        ((), "look", "You are in the middle of a room. Looking quickly around you, you see nothing."),
        ((), "inventory", "You are not carrying anything."),
        ((), "go to microwave 1", "You arrive at microwave 1. The microwave 1 is closed."),
        ((), "go to sinkbasin 1", "You arrive at sinkbasin 1. On the sinkbasin 1, you see a plate 1."),
        (
            ("go to cabinet 2",),
            "open cabinet 1",
            "You open the cabinet 1. The cabinet 1 is open. In it, you see nothing.",
        ),
        (
            ("go to cabinet 2", "open cabinet 2", "go to fridge 1"),
            "go to cabinet 2",
            "You arrive at cabinet 2. The cabinet 2 is open. In it, you see a mug 1, and a spoon 1.",
        ),
        (
            ("go to countertop 1",),
            "take apple 2 from countertop 1",
            "You pick up the apple 2 from the countertop 1.",
        ),
        (("go to countertop 1", "take apple 2 from countertop 1"), "inventory", "You are carrying: a apple 2."),
        (
            ("go to countertop 1", "take apple 2 from countertop 1", "go to microwave 1", "heat apple 2 with microwave 1"),
            "examine apple 2",
            "This is a hot apple 2.",
        ),
        (
            ("go to countertop 1", "take apple 2 from countertop 1", "go to fridge 1", "cool apple 2 with fridge 1"),
            "examine apple 2",
            "This is a cold apple 2.",
        ),
        (
            ("go to countertop 1", "take apple 2 from countertop 1", "go to sinkbasin 1", "clean apple 2 with sinkbasin 1"),
            "examine apple 2",
            "This is a clean apple 2.",
        ),
        (
            ("go to countertop 1", "take knife 1 from diningtable 1"),
            "examine knife 1",
            "There's nothing special about knife 1.",
        ),
        (("go to sidetable 1", "use desklamp 1"), "use desklamp 1", "You turn on the desklamp 1."),
    ],
)
def test_feedback(setup: tuple[str, ...], command: str, feedback: str) -> None:
    engine = Engine(game())
    play(engine, *setup)
    assert play(engine, command) == feedback


@pytest.mark.parametrize(
    ("setup", "command"),
    [
        (("go to countertop 1",), "go to countertop 1"),
        (("go to countertop 1",), "go to diningtable 1"),  # shares the location
        ((), "Look"),
        ((), "take  plate 1 from sinkbasin 1"),
        (("go to cabinet 2",), "take mug 1 from cabinet 2"),  # closed
        (("go to sinkbasin 1",), "examine plate 1"),  # not in hand
        (("go to sidetable 1",), "take desklamp 1 from sidetable 1"),  # not pickupable
        (
            ("go to sinkbasin 1", "take plate 1 from sinkbasin 1", "go to fridge 1", "open fridge 1"),
            "move plate 1 to fridge 1",
        ),
        (("go to sinkbasin 1", "take plate 1 from sinkbasin 1"), "heat plate 1 with microwave 1"),
        ((), ""),
    ],
)
def test_inadmissible_commands_change_nothing(setup: tuple[str, ...], command: str) -> None:
    engine = Engine(game())
    play(engine, *setup)
    before, admissible = engine.snapshot(), engine.admissible
    assert engine.step(command) == "Nothing happens."
    assert not engine.effective
    assert engine.last is None
    assert engine.snapshot() == before
    assert engine.admissible == admissible


def test_spaces_around_a_command_are_ignored() -> None:
    assert Engine(game()).step("  go to fridge 1 \n") == "You arrive at fridge 1. The fridge 1 is closed."


def test_state_flags_and_contents_follow_the_commands() -> None:
    engine = Engine(game())
    play(engine, "go to countertop 1", "take apple 2 from countertop 1")
    assert engine.held == "apple_bar_1"
    assert engine.contents("countertop_bar_1") == ("egg_bar_1",)
    play(engine, "go to microwave 1", "heat apple 2 with microwave 1")
    assert engine.flags["ishot"] == {"apple_bar_1"}
    play(engine, "go to fridge 1", "cool apple 2 with fridge 1", "go to sinkbasin 1", "clean apple 2 with sinkbasin 1")
    assert engine.flags["ishot"] == frozenset()
    assert engine.flags["iscool"] == {"apple_bar_1", "apple_bar_2"}
    assert engine.flags["isclean"] == {"apple_bar_1"}
    assert not engine.is_open("fridge_bar_1")
    play(engine, "go to fridge 1", "open fridge 1", "move apple 2 to fridge 1")
    assert engine.is_open("fridge_bar_1")
    assert [r for r in engine.game.openable if engine.is_open(r)] == ["fridge_bar_1"]
    assert engine.held is None
    assert engine.contents("fridge_bar_1") == ("apple_bar_1", "apple_bar_2", "lettuce_bar_1")
    assert engine.location == "loc_bar_3"
    assert engine.here == ("fridge_bar_1",)


def test_two_objects_must_be_in_the_same_receptacle() -> None:
    task, goal = "put two apple in diningtable", kitchen.place_two("Apple", "Cabinet")
    facts = kitchen.FACTS + "(canContain CabinetType AppleType)"
    engine = Engine(parse_problem(kitchen.problem(goal, facts=facts), task, "two"))
    play(
        engine, "go to countertop 1", "take apple 2 from countertop 1", "go to cabinet 1", "open cabinet 1", "open cabinet 2"
    )
    play(engine, "move apple 2 to cabinet 1", "go to fridge 1", "open fridge 1", "take apple 1 from fridge 1")
    play(engine, "go to cabinet 2", "move apple 1 to cabinet 2")
    assert not engine.won
    play(engine, "take apple 1 from cabinet 2", "move apple 1 to cabinet 1")
    assert engine.won
    play(engine, "take apple 2 from cabinet 1")
    assert not engine.won


def test_looking_needs_the_lamp_on_here_and_the_target_in_hand() -> None:
    engine = Engine(game("look_at_obj_in_light"))
    play(engine, "go to sidetable 1", "use desklamp 1", "go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2")
    assert not engine.won
    play(engine, "go to sidetable 1")
    assert engine.won
    play(engine, "move mug 1 to sidetable 1")
    assert not engine.won


def test_processing_counts_only_while_its_flag_holds() -> None:
    engine = Engine(game("pick_heat_then_place_in_recep"))
    play(engine, "go to countertop 1", "take apple 2 from countertop 1", "go to microwave 1", "heat apple 2 with microwave 1")
    play(engine, "go to fridge 1", "cool apple 2 with fridge 1", "go to diningtable 1", "move apple 2 to diningtable 1")
    assert not engine.won


@pytest.mark.parametrize(
    ("family", "target", "receptacle", "lamp", "required"),
    [
        ("pick_and_place_simple", "mug", "sidetable", None, 1),
        ("look_at_obj_in_light", "mug", None, "desklamp", 1),
        ("pick_clean_then_place_in_recep", "plate", "cabinet", None, 1),
        ("pick_heat_then_place_in_recep", "apple", "diningtable", None, 1),
        ("pick_cool_then_place_in_recep", "egg", "countertop", None, 1),
        ("pick_two_obj_and_place", "apple", "sidetable", None, 2),
    ],
)
def test_goal_is_recognised(family: str, target: str, receptacle: str | None, lamp: str | None, required: int) -> None:
    parsed = game(family)
    assert (parsed.family, parsed.target_type, parsed.receptacle_type) == (family, target, receptacle)
    assert (parsed.lamp_type, parsed.required) == (lamp, required)


def test_goal_is_recognised_whatever_its_names_and_order() -> None:
    goal = """(exists (?where - receptacle ?what - object)
        (and (receptacleType ?where SideTableType) (objectType ?what MugType) (inReceptacle ?what ?where)))"""
    assert parse_problem(kitchen.problem(goal), "put a mug in sidetable", "named").goal == game().goal


def test_task_sentence_loses_its_period() -> None:
    parsed = parse_problem(kitchen.problem(kitchen.GOALS["pick_and_place_simple"][1]), "put a mug in sidetable.", "dot")
    assert parsed.task == "put a mug in sidetable"


MUG = kitchen.GOALS["pick_and_place_simple"][1]


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        (kitchen.problem(MUG, domain="blocks"), UnknownDomainError, "blocks"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(painted Mug_bar_1)"), UnknownDomainError, "painted"),
        (kitchen.problem("(and (painted Mug_bar_1))"), UnknownDomainError, "painted"),
        (kitchen.problem("(or (opened Fridge_bar_1))"), UnknownDomainError, "form"),
        (kitchen.problem("(opened Fridge_bar_1)"), UnknownDomainError, "none of the families"),
        (kitchen.problem(kitchen.place("Apple", "SideTable", "sliceable", "isSliced")), UnknownDomainError, "none of the"),
        (kitchen.problem(kitchen.place("Sofa", "SideTable")), ValueError, "sofatype"),
        (kitchen.problem(MUG, objects=kitchen.OBJECTS + "x - gadget"), UnknownDomainError, "gadget"),
        (kitchen.problem(MUG, objects=kitchen.OBJECTS + "x"), ValueError, "'x' has no type"),
        (kitchen.problem(MUG, objects=kitchen.OBJECTS + "Mug_bar_1 - receptacle"), ValueError, "mug_bar_1"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(pickupable Ghost_bar_1)"), ValueError, "ghost_bar_1"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(pickupable Fridge_bar_1)"), ValueError, "receptacle"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(pickupable)"), ValueError, "takes 1"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(= (weight) 3)"), ValueError, "weight"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(atLocation agent1 loc_bar_1)"), ValueError, "atlocation"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(objectType Mug_bar_1 EggType)"), ValueError, "objecttype"),
        (kitchen.problem(MUG, facts=kitchen.FACTS + "(holds agent1 Mug_bar_1)"), ValueError, "holds"),
        (kitchen.problem(MUG).replace("Mug_bar_1", "mug1"), ValueError, "mug1"),
        (kitchen.problem(MUG)[:-1], ValueError, "never closed"),
        (kitchen.problem(MUG) + ")", ValueError, "too many"),
        (kitchen.problem(MUG) + "(define)", ValueError, "found 2"),
        (kitchen.problem(MUG).replace("(:goal", "(:gaol"), ValueError, ":gaol"),
        (kitchen.problem(MUG).replace("(:domain alfred)", ""), ValueError, ":domain"),
        (kitchen.problem(MUG).replace("(:domain alfred)", "(:domain alfred) (:domain alfred)"), ValueError, "twice"),
        ("", ValueError, "found 0"),
        ("(problem)", ValueError, "define"),
    ],
)
def test_bad_problems_are_refused_by_name(text: str, error: type[ValueError], message: str) -> None:
    with pytest.raises(error) as caught:
        parse_problem(text, "put a mug in sidetable", "games/broken-7")
    assert "games/broken-7" in str(caught.value)
    assert message in str(caught.value)
    assert (error is UnknownDomainError) == isinstance(caught.value, UnknownDomainError)


def test_a_snapshot_of_another_game_is_refused() -> None:
    facts = kitchen.FACTS.replace("(receptacleAtLocation Cabinet_bar_2 loc_bar_2)", "")
    other = Engine(parse_problem(kitchen.problem(MUG, facts=facts), "put a mug in sidetable", "smaller"))
    with pytest.raises(ValueError, match="another game"):
        other.restore(Engine(game()).snapshot())


def wander(engine: Engine, choices: list[int]) -> None:
    """Random play: every fifth choice is no command of the game."""
    for choice in choices:
        engine.step("dance" if choice % 5 == 0 else engine.admissible[choice % len(engine.admissible)])


def facts_of(engine: Engine) -> tuple[object, ...]:
    """Everything an observer can read."""
    inside = tuple((engine.contents(r), engine.is_open(r)) for r in engine.game.receptacles)
    return engine.location, engine.held, inside, dict(engine.flags), engine.admissible, engine.won


CHOICES = st.lists(st.integers(0, 10_000), max_size=40)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FAMILIES), CHOICES, CHOICES)
def test_restoring_equals_replaying(family: str, first: list[int], second: list[int]) -> None:
    shared = game(family)
    engine, replay = Engine(shared), Engine(shared)
    wander(engine, first)
    snapshot = engine.snapshot()
    wander(engine, second)
    after = facts_of(engine)
    engine.restore(snapshot)
    wander(replay, first)
    assert facts_of(engine) == facts_of(replay)
    wander(engine, second)
    assert facts_of(engine) == after


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FAMILIES), CHOICES)
def test_every_admissible_command_is_executed(family: str, choices: list[int]) -> None:
    engine = Engine(game(family))
    wander(engine, choices)
    assert list(engine.admissible) == sorted(set(engine.admissible))
    assert {"look", "inventory", "help"} <= set(engine.admissible)
    snapshot = engine.snapshot()
    for command in engine.admissible:
        feedback = engine.step(command)
        assert feedback != "Nothing happens."
        assert engine.effective
        assert engine.last is not None
        engine.restore(snapshot)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(FAMILIES), CHOICES)
def test_objects_are_neither_lost_nor_doubled(family: str, choices: list[int]) -> None:
    engine = Engine(game(family))
    wander(engine, choices)
    # The egg starts in two receptacles at once, as some objects of the real games do.
    single = [item for item in engine.game.pickupable if item != "egg_bar_1"]
    for item in single:
        places = [r for r in engine.game.receptacles if item in engine.contents(r)]
        assert len(places) + (engine.held == item) == 1


def test_real_games_are_read_and_their_families_recognised() -> None:
    with lzma.open(data_path("alfworld", "valid_seen.jsonl.xz"), "rt") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        parsed = parse_problem(row["pddl_problem"], row["task"], row["path"])
        params = row["pddl_params"]
        assert parsed.family == row["task_type"]
        assert parsed.target_type == params["object_target"].lower()
        assert (parsed.receptacle_type or "") == params["parent_target"].lower()
        assert (parsed.lamp_type or "") == params["toggle_target"].lower()
        assert Engine(parsed).reset().endswith(f"Your task is to: {row['task']}")
    assert len(rows) == 140


def test_random_play_in_real_games_keeps_the_invariants() -> None:
    with lzma.open(data_path("alfworld", "valid_seen.jsonl.xz"), "rt") as lines:
        rows = [json.loads(line) for line in lines][::10]
    rng = np.random.default_rng(0)
    for row in rows:
        shared = parse_problem(row["pddl_problem"], row["task"], row["path"])
        engine, replay = Engine(shared), Engine(shared)
        choices = rng.integers(0, 10_000, size=100).tolist()
        wander(engine, choices[:50])
        snapshot = engine.snapshot()
        wander(engine, choices[50:])
        wander(replay, choices)
        assert facts_of(engine) == facts_of(replay)
        engine.restore(snapshot)
        wander(engine, choices[50:])
        assert facts_of(engine) == facts_of(replay)
