"""Sessions of the shop against transcripts of WebShop's own server: every field of every recorded step."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

import pytest
from conftest import data_path

from creditlab.environments.webshop.catalogue import Catalogue, read_catalogue
from creditlab.environments.webshop.goals import server_goals
from creditlab.environments.webshop.index import Index, build_index
from creditlab.environments.webshop.records import Goal, Score
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Page, Session, Shop

MODES = ("human", "synthetic")
SEED = 5
"""Of the recorded prices and goals."""


class RecordedNouns:
    """The nouns that the recording's tagger found, by title."""

    name = "recorded"

    def __init__(self, by_title: Mapping[str, tuple[str, ...]]) -> None:
        self._by_title = by_title

    def __call__(self, title: str) -> tuple[str, ...]:
        return self._by_title[title]


@cache
def catalogue() -> Catalogue:
    items, attributes, human = (
        json.loads(data_path("webshop", name).read_text())
        for name in ("items.json", "items_ins.json", "items_human_ins.json")
    )
    return read_catalogue(items, attributes, human, "recorded")


@cache
def index() -> Index:
    return build_index(catalogue().products)


@cache
def recorded_shop(mode: str) -> tuple[Shop, tuple[Goal, ...]]:
    """The recorded server's shop and its goals, in the server's order."""
    nouns = json.loads(data_path("webshop", "title_nouns.json").read_text())
    scorer = Scorer(RecordedNouns({catalogue().get(asin).name: tuple(found) for asin, found in nouns.items()}))
    goals, prices = server_goals(catalogue(), mode, SEED)
    return Shop(catalogue(), prices, index().search, scorer), goals


@cache
def episodes() -> list[dict[str, Any]]:
    with lzma.open(data_path("webshop", "transcripts.jsonl.xz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def offered(page: Page) -> dict[str, Any]:
    return {"has_search_bar": page.has_search_bar, "clickables": list(page.clickables)}


def details(score: Score) -> dict[str, Any]:
    """A score as the server's `reward_info`: no reward, and nothing about options where the goal has none."""
    return {name: value for name, value in asdict(score).items() if name != "reward" and value is not None}


@pytest.mark.parametrize("mode", MODES)
def test_every_field_of_every_step_equals_the_recording(mode: str) -> None:
    shop, goals = recorded_shop(mode)
    for episode in (episode for episode in episodes() if episode["mode"] == mode):
        session = Session(shop, goals[episode["goal_index"]])
        page = session.reset()
        where = episode["episode"]
        assert page.text == episode["initial"]["observation"], where
        assert offered(page) == episode["initial"]["available_actions"], where
        if "observation_text_rich" in episode["initial"]:
            assert session.rich() == episode["initial"]["observation_text_rich"], where
        for number, step in enumerate(episode["steps"]):
            where = f"{episode['episode']}, step {number}: {step['action']}"
            bought_with = dict(session.options)
            outcome = session.step(step["action"])
            assert outcome.page.text == step["observation"], where
            assert offered(outcome.page) == step["available_actions"], where
            assert outcome.reward == step["reward"], where
            assert outcome.done == step["done"], where
            if "observation_text_rich" in step:
                assert session.rich() == step["observation_text_rich"], where
            assert (outcome.score is not None) == ("purchase" in step), where
            if outcome.score is not None:
                assert session.asin is not None
                purchase = {"asin": session.asin, "options": bought_with, "price": shop.prices[session.asin]}
                assert purchase == step["purchase"], where
                assert details(outcome.score) == step["reward_info"], where
                assert outcome.reward == outcome.score.reward, where


def test_the_recording_holds_what_it_is_said_to_hold() -> None:
    steps = [step for episode in episodes() for step in episode["steps"]]
    assert len(episodes()) == 150
    assert len(steps) == 1248
    assert sum("purchase" in step for step in steps) == 94
    assert sum("purchase" in step and step["reward"] == 1.0 for step in steps) == 43
    assert sum("observation_text_rich" in step for step in steps) > 100
    assert sum("Total results: 0" in step["observation"] for step in steps) > 0
