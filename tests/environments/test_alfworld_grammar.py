"""The texts of ALFWorld 0.3 (`put O in/on R`, `loc 12`, no `help`) through engine, tracker, expert and environment."""

from __future__ import annotations

import re

import kitchen
import numpy as np
import pytest

from creditlab.cli import compose_job
from creditlab.environments.alfworld.commands import GRAMMARS, GrammarName
from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.expert import solve
from creditlab.environments.alfworld.families import FAMILIES, PICK
from creditlab.environments.alfworld.problem import Game, parse_problem
from creditlab.environments.alfworld.scenes import FIRST_PLAN, PLANS, floor_plan
from creditlab.options import ConfigError
from creditlab.policy.tiny import build_tokenizer

OLD = ALFWorld(families=FAMILIES, rooms=(), horizon=50, grammar="0.3")
WORDS = re.compile(r"[a-z]+|\d+|[^\sa-z\d]")


def game(family: str = PICK, facts: str = kitchen.FACTS) -> Game:
    task, goal = kitchen.GOALS[family]
    return parse_problem(kitchen.problem(goal, facts=facts), task, f"kitchen/{family}")


def play(engine: Engine, *commands: str) -> str:
    feedback = ""
    for command in commands:
        feedback = engine.step(command)
        assert engine.effective, command
    return feedback


# seven locations loc_bar_0 … loc_bar_6: the first in order has the highest number, so loc_bar_5 is loc 2
def test_arrival_names_the_location() -> None:
    engine = Engine(game(), "0.3")
    assert play(engine, "go to sinkbasin 1") == "You arrive at loc 2. On the sinkbasin 1, you see a plate 1."
    assert play(engine, "go to microwave 1") == "You arrive at loc 3. The microwave 1 is closed."
    assert play(engine, "go to countertop 1").startswith("You arrive at loc 6. On the countertop 1, you see ")
    assert play(engine, "go to sidetable 1").startswith("You arrive at loc 1. ")


def test_placing_is_put_in_or_on() -> None:
    engine = Engine(game(), "0.3")
    play(engine, "go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to sidetable 1")
    assert "put mug 1 in/on sidetable 1" in engine.admissible
    assert engine.step("move mug 1 to sidetable 1") == "Nothing happens."
    assert play(engine, "put mug 1 in/on sidetable 1") == "You put the mug 1 in/on the sidetable 1."
    assert engine.won


def test_help_is_no_command() -> None:
    engine = Engine(game(), "0.3")
    assert "help" not in engine.admissible
    assert engine.step("help") == "Nothing happens."
    assert not engine.effective


def test_the_newer_grammar_knows_no_older_command() -> None:
    engine = Engine(game(), "0.4")
    play(engine, "go to cabinet 2", "open cabinet 2", "take mug 1 from cabinet 2", "go to sidetable 1")
    assert engine.step("put mug 1 in/on sidetable 1") == "Nothing happens."


@pytest.mark.parametrize(("grammar", "cleans"), [("0.3", True), ("0.4", False)])
def test_a_receptacle_of_type_sink_cleans_in_the_older_domain_only(grammar: GrammarName, cleans: bool) -> None:
    sink = kitchen.FACTS.replace("SinkBasin SinkBasinType)", "SinkBasin SinkType)")
    assert sink != kitchen.FACTS
    engine = Engine(game(facts=sink), grammar)
    play(engine, "go to sinkbasin 1", "take plate 1 from sinkbasin 1")
    assert ("clean plate 1 with sinkbasin 1" in engine.admissible) is cleans


@pytest.mark.parametrize("family", FAMILIES)
def test_one_history_in_both_grammars_reaches_equal_states(family: str) -> None:
    engines = [Engine(game(family), grammar) for grammar in ("0.4", "0.3")]
    lengths = [solve(engine, np.random.default_rng(3), 60) for engine in engines]
    assert lengths[0] == lengths[1] is not None
    assert engines[0].snapshot() == engines[1].snapshot()
    assert engines[0].won


@pytest.mark.parametrize("index", range(len(FAMILIES)))
def test_expert_and_tracker_follow_the_older_commands(index: int) -> None:
    new = ALFWorld(families=FAMILIES, rooms=(), horizon=50)
    played = []
    for environment in (new, OLD):
        task = environment.train_tasks()[index]
        episode, expert = environment.episode(task), environment.expert(task, np.random.default_rng(index))
        transition, views, verbs = episode.start(), [], []
        while not transition.done and len(views) < 120:
            command = expert.act(episode)
            transition = episode.step(command)
            assert transition.action_key == command
            verbs.append(command.split()[0])
            views.append((transition.state.views["exact"], transition.state.views["coarse"], transition.state.rubric))
        assert transition.success
        played.append((views, verbs))
    assert played[0][0] == played[1][0], "the states are those of the newer grammar"
    assert [{"move": "put"}.get(verb, verb) for verb in played[0][1]] == played[1][1]


def test_slips_use_the_grammar_in_force() -> None:
    for environment, verb, other in ((ALFWorld(), "move", "put"), (ALFWorld(grammar="0.3"), "put", "move")):
        episode = environment.episode(environment.train_tasks()[0])
        episode.start()
        rng = np.random.default_rng(0)
        verbs = {environment.slip(episode, rng).split()[0] for _ in range(200)}
        assert verb in verbs
        assert other not in verbs


def test_the_vocabulary_holds_every_word_and_every_location_of_generated_games() -> None:
    known = set(WORDS.findall(" ".join(OLD.vocabulary()).lower()))
    rng = np.random.default_rng(0)
    for index in range(0, 140, 4):
        task = OLD.train_tasks()[index]
        episode, expert = OLD.episode(task), OLD.expert(task, rng)
        transition, texts = episode.start(), [task.goal]
        for _ in range(30):
            admissible = episode.engine.admissible
            texts += [transition.view.observation, transition.view.status, *admissible]
            chosen = expert.act(episode) if rng.random() < 0.6 else admissible[int(rng.integers(len(admissible)))]
            transition = episode.step(chosen)
            if transition.done:
                break
        assert set(WORDS.findall(" ".join(texts).lower())) <= known
    plans = [floor_plan(room, first + n) for room, first in FIRST_PLAN.items() for n in range(PLANS)]
    locations = max(1 + max(r.place for r in plan.receptacles) + len(plan.fixtures) for plan in plans)
    assert {str(number) for number in range(locations + 1)} <= known


def test_a_tokenizer_of_the_older_grammar_knows_the_texts() -> None:
    tokenizer = build_tokenizer(OLD.vocabulary(), OLD.phrases)
    text = "you arrive at loc 17. on the desk 1, you see a mug 2. put mug 2 in/on desk 1"
    assert tokenizer.unk_token_id not in tokenizer(text)["input_ids"]
    assert tokenizer.decode(tokenizer("put mug 2 in/on desk 1")["input_ids"]) == "put mug 2 in/on desk 1"


@pytest.mark.parametrize("written", ["env.grammar=0.3", "env.grammar='0.3'"])
def test_a_command_line_chooses_the_grammar_as_number_or_text(written: str) -> None:
    assert compose_job([written]).env.grammar == "0.3"


def test_the_grammar_is_in_the_manifest_and_an_unknown_one_is_no_option() -> None:
    with pytest.raises(ConfigError, match=r"env\.grammar: must be '0\.4' or '0\.3', got '0\.5'"):
        compose_job(["env.grammar=0.5"])
    assert OLD.describe()["grammar"] == "0.3"
    assert ALFWorld().describe()["grammar"] == "0.4"
    assert set(GRAMMARS) == {"0.3", "0.4"}
