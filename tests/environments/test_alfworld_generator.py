"""Generated games: the same for equal seeds, solvable, about as rich as the published ones."""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.expert import Expert
from creditlab.environments.alfworld.families import ALIASES, FAMILIES, GOALS, LOOK, TWO, family_name, task_sentences
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.generator import generate, rooms_of
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.scenes import FIRST_PLAN, ROOMS, floor_plan, plan_numbers, room_of_plan
from creditlab.environments.alfworld.sources import load_games
from creditlab.environments.alfworld.things import THINGS
from creditlab.environments.dice import Dice
from tests.conftest import data_path

KINDS = [(family, room) for family in FAMILIES for room in rooms_of(family)]
GAMES = st.builds(
    lambda kind, seed, unseen: generate(*kind, seed, unseen=unseen),
    st.sampled_from(KINDS),
    st.integers(0, 2**45),
    st.booleans(),
)
FACT = re.compile(r"\((\w+) ([^()]+)\)")


def facts(problem: str) -> dict[str, list[list[str]]]:
    """The initial facts by predicate, read without the parser under test."""
    initial = problem[problem.index("(:init") : problem.index("(:goal")]
    found: dict[str, list[list[str]]] = defaultdict(list)
    for predicate, arguments in FACT.findall(initial):
        found[predicate.lower()].append(arguments.split())
    return found


def test_equal_seeds_give_equal_games_and_others_differ() -> None:
    for family, room in KINDS:
        assert generate(family, room, 5) == generate(family, room, 5)
        assert generate(family, room, 5).digest != generate(family, room, 6).digest


def test_games_do_not_depend_on_the_process() -> None:
    code = (
        "from creditlab.environments.alfworld.generator import generate, rooms_of, FAMILIES\n"
        "import sys\n"
        "sys.stdout.write(''.join(generate(f, rooms_of(f)[-1], 3).digest for f in FAMILIES))"
    )
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == "".join(generate(f, rooms_of(f)[-1], 3).digest for f in FAMILIES)


def test_generation_leaves_global_random_states_alone() -> None:
    before = random.getstate(), np.random.get_state()[1].tolist()
    generate(LOOK, "bedroom", 1)
    assert (random.getstate(), np.random.get_state()[1].tolist()) == before


@settings(max_examples=60, deadline=None)
@given(game=GAMES)
def test_a_game_is_a_whole_problem_of_its_family(game: GameText) -> None:
    parsed = parse_problem(game.problem, game.task, game.name)
    assert parsed.family == game.family
    assert parsed.required == (2 if game.family == TWO else 1)
    assert (parsed.lamp_type is not None) == (game.family == LOOK)
    assert not parsed.receptacles_at(parsed.start), "the agent starts in the middle of the room"
    target, goal = parsed.target_type, parsed.receptacle_type or parsed.lamp_type
    assert game.task in task_sentences(game.family, target, str(goal))
    for constant in ("SinkBasinType - rtype", "MicrowaveType - rtype", "FridgeType - rtype", "KnifeType - otype"):
        assert f"\n{constant}\n" in game.problem
    assert "\nButterKnifeType - otype\n" in game.problem


@settings(max_examples=60, deadline=None)
@given(game=GAMES)
def test_the_target_never_starts_at_its_goal(game: GameText) -> None:
    parsed, found = parse_problem(game.problem, game.task, game.name), facts(game.problem)
    kinds = {identity: kind.removesuffix("Type").lower() for identity, kind in found["objecttype"] + found["receptacletype"]}
    targets = [identity for identity, kind in kinds.items() if kind == parsed.target_type]
    places = dict(found["inreceptacle"])
    assert len(targets) >= parsed.required
    for target in targets:
        assert kinds[places[target]] != parsed.receptacle_type


@settings(max_examples=60, deadline=None)
@given(game=GAMES)
def test_everything_lies_where_it_fits_and_at_the_spot_of_its_receptacle(game: GameText) -> None:
    found = facts(game.problem)
    spot, seen = dict(found["receptacleatlocation"]), dict(found["objectatlocation"])
    kinds = {identity: kind.removesuffix("Type") for identity, kind in found["objecttype"] + found["receptacletype"]}
    for identity, place in found["inreceptacle"]:
        assert kinds[place] in THINGS[kinds[identity]].homes
        assert seen[identity] == spot[place]
    assert "opened" not in found
    assert room_of_plan(game.plan) == game.room
    declared = re.findall(r"^(\S+_bar_\S+) - (object|receptacle)$", game.problem, re.MULTILINE)
    assert {name for name, kind in declared if kind == "object"} == set(seen)
    assert {name for name, kind in declared if kind == "receptacle"} == set(spot)
    assert len(declared) == len(seen) + len(spot), "no id is declared twice"


@pytest.mark.parametrize(("family", "room"), KINDS)
def test_the_expert_wins_every_game(family: str, room: str) -> None:
    for seed in range(20):
        game = generate(family, room, seed, unseen=seed % 4 == 0)
        parsed = parse_problem(game.problem, game.task, game.name)
        engine, expert = Engine(parsed), Expert(parsed, np.random.default_rng(seed))
        assert not engine.won
        for _ in range(120):
            engine.step(expert.act(engine))
            if engine.won:
                break
        assert engine.won, game.name


def test_floor_plans_for_evaluation_are_kept_apart() -> None:
    for room in ROOMS:
        seen, unseen = set(plan_numbers(room)), set(plan_numbers(room, unseen=True))
        assert len(seen) == 24
        assert len(unseen) == 6
        assert not seen & unseen
        assert {room_of_plan(number) for number in seen | unseen} == {room}
        assert len({floor_plan(room, number).receptacles for number in seen}) > 12, "plans differ"
    for family, room in KINDS:
        for seed in range(20):
            assert generate(family, room, seed).plan in plan_numbers(room)
            assert generate(family, room, seed, unseen=True).plan in plan_numbers(room, unseen=True)


@cache
def real_games() -> tuple[GameText, ...]:
    return load_games(data_path("alfworld", "train.jsonl.xz")).games


def like_the_real_ones(family: str, count: int) -> list[GameText]:
    """About `count` generated games, with rooms in the proportions of the real games of the family."""
    rooms = Counter(game.room for game in real_games() if game.family == family)
    shares = ((room, max(1, round(count * n / rooms.total()))) for room, n in rooms.items())
    return [generate(family, room, seed) for room, share in shares for seed in range(share)]


def within_a_fifth(measure: Callable[[GameText], float], made: Iterable[GameText], real: Iterable[GameText]) -> None:
    ours, theirs = statistics.median(map(measure, made)), statistics.median(map(measure, real))
    assert abs(ours - theirs) <= 0.2 * theirs, (measure.__name__, ours, theirs)


def receptacles(game: GameText) -> int:
    return len(facts(game.problem)["receptacleatlocation"])


def objects(game: GameText) -> int:
    return len(facts(game.problem)["objectatlocation"])


def commands_at_start(game: GameText) -> int:
    """One `go to` per receptacle elsewhere, and look, inventory and help."""
    found = facts(game.problem)
    here = found["atlocation"][0][1]
    return 3 + sum(spot != here for _, spot in found["receptacleatlocation"])


def commands_on_the_way(game: GameText) -> float:
    """Mean number of admissible commands over an expert's run."""
    parsed = parse_problem(game.problem, game.task, game.name)
    engine, expert, numbers = Engine(parsed), Expert(parsed, np.random.default_rng(0)), []
    while not engine.won and len(numbers) < 60:
        engine.step(expert.act(engine))
        numbers.append(len(engine.admissible))
    return statistics.mean(numbers)


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_games_are_as_rich_as_the_real_ones(family: str) -> None:
    """Medians within 20 % of the real games of the family, with rooms in the same proportions."""
    real = [game for game in real_games() if game.family == family][::8]
    made = like_the_real_ones(family, len(real))
    for measure in (receptacles, objects, commands_at_start):
        within_a_fifth(measure, made, real)
    within_a_fifth(commands_on_the_way, made[::2], real[::2])


@pytest.mark.parametrize("family", FAMILIES)
def test_an_environment_of_one_family_and_all_rooms_is_as_rich(family: str) -> None:
    """The same medians, with the rooms as the environment takes them in turn."""
    real = [game for game in real_games() if game.family == family][::4]
    made = [task.payload for task in ALFWorld(families=(family,), rooms=()).train_tasks()[:120]]
    for measure in (receptacles, objects, commands_at_start):
        within_a_fifth(measure, made, real)


def test_every_family_is_generated_in_every_room_where_it_really_occurs() -> None:
    assert {(game.family, game.room) for game in real_games()} == set(KINDS)


def test_a_real_problem_counts_like_the_published_figures() -> None:
    """Guards the counting above: every real game has start commands, objects and receptacles."""
    kinds = Counter(game.family for game in real_games())
    assert [kinds[family] for family in FAMILIES] == [790, 308, 650, 459, 533, 813]


def test_goal_tables_name_things_that_exist_and_fit() -> None:
    for (family, room), table in GOALS.items():
        assert family in FAMILIES
        assert room in FIRST_PLAN
        for target in table.targets:
            assert any(goal in THINGS[target].homes for goal in table.receptacles) or family == LOOK, (family, room, target)


def test_errors_list_what_exists() -> None:
    with pytest.raises(ValueError, match=r"unknown task family 'fly'; there are pick, look"):
        family_name("fly")
    with pytest.raises(
        ValueError, match="pick_heat_then_place_in_recep does not occur in room 'bathroom'; it does in kitchen"
    ):
        generate("pick_heat_then_place_in_recep", "bathroom", 0)
    with pytest.raises(ValueError, match="kitchen has the floor plans 1 to 30, not 31"):
        floor_plan("kitchen", 31)
    with pytest.raises(ValueError, match="no room type has the floor plan 99"):
        room_of_plan(99)
    assert {family_name(alias) for alias in ALIASES} == set(FAMILIES)


@given(st.lists(st.floats(0.01, 10), min_size=1, max_size=8), st.integers(0, 2**32))
def test_dice_choose_only_what_is_there(weights: Iterable[float], seed: int) -> None:
    dice, items = Dice(seed), list(range(len(list(weights))))
    assert dice.weighted(items, list(weights)) in items
    assert dice.one_of(items) in items


def test_dice_follow_the_weights() -> None:
    dice = Dice(11)
    drawn = Counter(dice.weighted("abc", (1.0, 0.0, 3.0)) for _ in range(4000))
    assert drawn["b"] == 0
    assert drawn["c"] / 4000 == pytest.approx(0.75, abs=0.03)  # four standard errors
