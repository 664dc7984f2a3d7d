"""The fast engine equals the real one, played side by side; `make parity` does the same with many more games."""

from __future__ import annotations

import argparse
import os
from collections import Counter
from io import StringIO
from pathlib import Path

import pytest
from conftest import data_path
from parity import (
    GRAMMAR_NAMES,
    Job,
    Outcome,
    compare,
    generated_games,
    play,
    prepare,
    real_engine,
    report,
    untried,
    written_games,
)
from rich.console import Console

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.families import FAMILIES
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.packing import domain_and_texts, old_texts
from creditlab.environments.alfworld.problem import parse_problem
from creditlab.environments.alfworld.sources import load_games

COMMANDS = 12
"""Errands or random commands in each play, before the expert's."""


def games(source: str, family: str) -> list[GameText]:
    """Small games, for the real engine takes long: a real one at a tenth and at a fifth of the sizes, two generated ones."""
    if source == "written":
        return [game for game in written_games() if game.family == family]
    if source == "generated":
        return [game for game in generated_games(2) if game.family == family]
    sized = sorted(
        load_games(data_path("alfworld", "valid_seen.jsonl.xz"), [family]).games, key=lambda game: len(game.problem)
    )
    return [sized[len(sized) // 10], sized[len(sized) // 5]]


def jobs(source: str, family: str, grammar: GrammarName) -> list[Job]:
    """The plays of one case: errands in the written game; in others errands in one grammar, random commands in the other."""
    found, index, shift = games(source, family), FAMILIES.index(family), GRAMMAR_NAMES.index(grammar)
    if source == "written":
        return [Job(source, game, grammar, 2 * index + 1, 3 * COMMANDS) for game in found]
    return [Job(source, found[shift], grammar, index + shift, COMMANDS)]


CASES = [
    pytest.param(source, family, grammar, id=f"{source}-{family}-{grammar}")
    for source in ("real", "generated", "written")
    for family in FAMILIES
    for grammar in GRAMMAR_NAMES
]


@pytest.fixture(scope="module")
def _real_packages() -> None:
    try:
        real_engine()
    except ImportError as error:
        if os.environ.get("CREDITLAB_REQUIRE_DATA") == "1":
            pytest.fail(f"the extra alfworld is not installed: {error}")
        pytest.skip("the extra alfworld is not installed")


@pytest.mark.slow
@pytest.mark.usefixtures("_real_packages")
@pytest.mark.parametrize(("source", "family", "grammar"), CASES)
def test_every_text_command_list_and_result_is_the_real_engine_s(source: str, family: str, grammar: GrammarName) -> None:
    for job in jobs(source, family, grammar):
        outcome = play(job)
        assert not outcome.difference
        assert outcome.won
        assert outcome.steps > COMMANDS


def fast(job: Job, grammar: GrammarName | None = None) -> Engine:
    return Engine(parse_problem(job.game.problem, job.game.task, job.game.name), grammar or job.grammar)


def test_the_plays_try_every_kind_of_command() -> None:
    outcomes = []
    for source in ("real", "generated", "written"):
        for family in FAMILIES:
            for grammar in GRAMMAR_NAMES:
                outcomes += [compare(job, fast(job)) for job in jobs(source, family, grammar)]
    assert untried(outcomes) == []
    assert sum((outcome.verbs for outcome in outcomes), Counter[str]())["Nothing happens."] > 50


class Altered:
    """The fast engine with one fault; what a comparison must find."""

    def __init__(self, engine: Engine, fault: str) -> None:
        self._engine, self._fault = engine, fault

    def reset(self) -> str:
        text = self._engine.reset()
        return text.replace("a cabinet 2, a cabinet 1", "a cabinet 1, a cabinet 2") if self._fault == "start" else text

    def step(self, command: str) -> str:
        text = self._engine.step(command)
        return text.replace("You open", "You  open") if self._fault == "text" else text

    @property
    def admissible(self) -> tuple[str, ...]:
        commands = self._engine.admissible
        return tuple(c for c in commands if not c.startswith("close")) if self._fault == "admissible" else commands

    @property
    def won(self) -> bool:
        return self._fault != "won" and self._engine.won


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("start", "after the start: "),
        ("text", "after 'open "),
        ("admissible", "only here ['close "),
        ("won", "won is True, in the other engine False"),
    ],
)
def test_a_difference_is_found_and_ends_the_play(fault: str, message: str) -> None:
    job = jobs("written", FAMILIES[0], "0.4")[0]
    whole, outcome = compare(job, fast(job)), compare(job, Altered(fast(job), fault))
    assert not whole.difference
    assert message in outcome.difference
    assert outcome.steps <= whole.steps


def test_the_other_grammar_is_a_difference() -> None:
    job = jobs("written", FAMILIES[0], "0.4")[0]
    assert "help" in compare(job, fast(job, "0.3")).difference


def test_the_report_counts_and_names_differences_and_what_was_never_tried() -> None:
    job = jobs("written", FAMILIES[0], "0.4")[0]
    console = Console(width=160, file=StringIO())
    report(console, [compare(job, fast(job)), Outcome(job, steps=3, verbs=Counter(go=3), difference="after 'look': 'x'")])
    text = console.file.getvalue()
    assert "after 'look': 'x'" in text
    assert f"{job.game.name} (written, 0.4, seed {job.seed})" in text
    assert "never tried: put" in text


def test_without_the_real_games_the_others_are_played(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parity.installed", lambda: True)
    monkeypatch.setattr("tests.conftest.DATA_ROOT", tmp_path)
    monkeypatch.delenv("CREDITLAB_REQUIRE_DATA", raising=False)
    parser = argparse.ArgumentParser()
    assert {job.source for job in prepare(parser, 1, COMMANDS)} == {"generated", "written"}


@pytest.mark.parametrize(
    ("there", "message"),
    [(True, "test data alfworld/train.jsonl.xz not found; set CREDITLAB_TEST_DATA"), (False, "the real engine is not inst")],
    ids=["required data", "the engine"],
)
def test_what_is_missing_is_one_line(
    there: bool, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("parity.installed", lambda: there)
    monkeypatch.setattr("tests.conftest.DATA_ROOT", tmp_path)
    monkeypatch.setenv("CREDITLAB_REQUIRE_DATA", "1")
    with pytest.raises(SystemExit, match=r"^2$"):
        prepare(argparse.ArgumentParser(), 1, COMMANDS)
    shown = capsys.readouterr().err
    assert shown.startswith(message)
    assert shown.count("\n") == 1


@pytest.mark.usefixtures("_real_packages")
def test_the_older_texts_are_made_from_the_newer_and_miss_nothing_silently() -> None:
    domain, grammar = domain_and_texts("0.4")
    older_domain, older_grammar = domain_and_texts("0.3")
    assert "(:action help" in domain
    assert "(:action help" not in older_domain
    assert older_domain.count("(:action ") == domain.count("(:action ") - 1
    assert 'template :: "put {o} in/on {r}"' in older_grammar
    assert "move {o}" not in older_grammar
    for text, file in (
        (domain.replace("SinkType", "TubType"), "alfred.pddl"),
        (domain.replace(":action help", ":action aid"), "alfred.pddl"),
    ):
        with pytest.raises(ValueError, match=rf"{file} of the alfworld package has no passage"):
            old_texts(text, grammar)
    with pytest.raises(ValueError, match=r"alfred\.twl2 of the alfworld package has no passage"):
        old_texts(domain, grammar.replace("You arrive at", "You reach"))
