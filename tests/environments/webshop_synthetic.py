"""Synthetic shops with everything that sessions need, made once per test run."""

from __future__ import annotations

from functools import cache

from creditlab.environments.webshop.catalogue import Catalogue, read_catalogue
from creditlab.environments.webshop.goals import Mode, server_goals
from creditlab.environments.webshop.index import build_index
from creditlab.environments.webshop.nouns import find_nouns
from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Shop
from creditlab.environments.webshop.synthetic import synthetic_records


@cache
def catalogue(products: int, seed: int, kinds: int | None = None, breadth: int | None = None) -> Catalogue:
    return read_catalogue(*synthetic_records(products, seed, kinds=kinds, breadth=breadth), source="synthetic")


@cache
def shop(
    products: int, seed: int, kinds: int | None = None, breadth: int | None = None, mode: Mode = "human"
) -> tuple[Shop, tuple[Goal, ...]]:
    """A shop and its goals in the server's order."""
    sold = catalogue(products, seed, kinds, breadth)
    goals, prices = server_goals(sold, mode, seed)
    return Shop(sold, prices, build_index(sold.products).search, Scorer(find_nouns("rules"))), goals
