"""What was recorded from WebShop's own server: its products, goals, and the nouns that its tagger found."""

from __future__ import annotations

import json
import lzma
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from typing import Any

from conftest import data_path

from creditlab.environments.webshop.catalogue import Catalogue, read_catalogue
from creditlab.environments.webshop.goals import server_goals
from creditlab.environments.webshop.index import Index, build_index
from creditlab.environments.webshop.records import Goal, Score

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
def title_nouns() -> dict[str, tuple[str, ...]]:
    """Title to its nouns."""
    nouns = json.loads(data_path("webshop", "title_nouns.json").read_text())
    return {catalogue().get(asin).name: tuple(found) for asin, found in nouns.items()}


@cache
def goals_and_prices(mode: str) -> tuple[tuple[Goal, ...], dict[str, float]]:
    """The recorded server's goals, in its order, and its prices."""
    return server_goals(catalogue(), mode, SEED)


@cache
def records(name: str) -> list[dict[str, Any]]:
    """The lines of a recorded file."""
    with lzma.open(data_path("webshop", f"{name}.jsonl.xz"), "rt") as lines:
        return [json.loads(line) for line in lines]


def details(score: Score) -> dict[str, Any]:
    """A score as the server's `reward_info`: no reward, and nothing about options where the goal has none."""
    return {name: value for name, value in asdict(score).items() if name != "reward" and value is not None}
