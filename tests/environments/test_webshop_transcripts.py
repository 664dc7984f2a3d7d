"""Sessions of the shop against transcripts of WebShop's own server: every field of every recorded step."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from webshop_recorded import MODES, RecordedNouns, catalogue, details, goals_and_prices, index, records, title_nouns

from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Page, Session, Shop


@cache
def recorded_shop(mode: str) -> tuple[Shop, tuple[Goal, ...]]:
    """The recorded server's shop and its goals, in the server's order."""
    goals, prices = goals_and_prices(mode)
    return Shop(catalogue(), prices, index().search, Scorer(RecordedNouns(title_nouns()))), goals


def episodes() -> list[dict[str, Any]]:
    return records("transcripts")


def offered(page: Page) -> dict[str, Any]:
    return {"has_search_bar": page.has_search_bar, "clickables": list(page.clickables)}


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
