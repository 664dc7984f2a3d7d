"""Sessions of the shop under any sequence of actions: equal to pages rendered and parsed as HTML, and never out of bounds."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from conftest import benchmark_module
from hose_shop import GOAL, product, shop
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.index import build_index
from creditlab.environments.webshop.nouns import find_nouns
from creditlab.environments.webshop.records import Product
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Session, Shop, parse_action

plain_webshop = benchmark_module("plain_webshop")
"""The shop whose pages are rendered as HTML and parsed back."""

PIECES = (
    '"', "'", "&", "<", ">", "&amp;", "&#39", "<b>", "\\", "\n", "\r", "\t", "\f", "\x0b", " ", "  ", "\u00a0", "\u2028", "[",
    "]", "[SEP]", "{{", "%}", "ü", "İ", "\U0001f600", "\ud800", "Red", "red", "buy now",
)  # fmt: skip
LABELS = ("buy now", "description", "attributes", "< prev", "next >", "search", "back to search", "red", '"', "")
texts = st.lists(st.sampled_from(PIECES), max_size=4).map("".join)
values = st.one_of(texts.map(str.lower), st.sampled_from(LABELS))
odd_products = st.builds(
    product,
    asin=st.sampled_from(("B0AAAAAAAA", "1234567890", "X")),
    name=texts,
    price_tag=texts,
    description=texts,
    bullets=st.lists(texts, max_size=3).map(tuple),
    attributes=st.lists(texts, max_size=3).map(tuple),
    category=texts,
    query=texts,
    product_category=texts,
    options=st.dictionaries(values, st.lists(values, max_size=3).map(tuple), max_size=3),
)
arguments = st.one_of(texts, st.sampled_from(("search_results", "item_page", '"red"', "nothing", "red")))
moves = st.one_of(
    st.tuples(st.just("click"), st.integers(0, 40)),
    st.tuples(st.just("search"), arguments),
    st.tuples(st.just("raw"), st.one_of(st.text(), arguments)),
)


def action_of(move: tuple[str, object], clickables: Sequence[str]) -> str:
    """A move on the present page; a click of a number is that of one of its labels."""
    kind, what = move
    if kind == "click":
        assert isinstance(what, int)
        return f"click[{clickables[what % len(clickables)]}]" if clickables else "click[]"
    return f"search[{what}]" if kind == "search" else str(what)


@settings(max_examples=50, deadline=None)
@given(
    products=st.lists(odd_products, min_size=1, max_size=3, unique_by=lambda product: product.asin),
    instruction=texts,
    show_attributes=st.booleans(),
    play=st.lists(moves, max_size=8),
)
def test_pages_equal_those_rendered_and_parsed_as_html(
    products: list[Product], instruction: str, show_attributes: bool, play: list[tuple[str, object]]
) -> None:
    store = shop(*products, page_size=2, show_attributes=show_attributes)
    goal = replace(GOAL, instruction=instruction)
    session, html = Session(store, goal), plain_webshop.HtmlSession(store, goal, compiled=True)
    for move in [("search", "red"), ("click", 2), ("click", 7), *play]:
        action = action_of(move, session.page.clickables)
        outcome = session.step(action)
        assert (outcome.page.text, outcome.reward, outcome.done) == html.step(action), action
        if not outcome.effective:
            continue
        assert list(outcome.page.clickables) == html.clickables, action
        assert outcome.page.has_search_bar == html.has_search_bar, action
        assert session.rich() == html.rich(), action


@cache
def real_shop() -> Shop:
    """A small shop with the search and the scores of the real one."""
    colours = ("green", "red", "black | white")
    products = tuple(
        product(
            f"B0{number:08}",
            f"{colour.title()} {kind} number {number}",
            query=f"{kind.lower()}s",
            options={"color": (colour, "blue"), "size": ("small", "25 ft")[: number % 3]} if number % 4 else {},
            description="" if number % 5 == 0 else f"A {kind} for every garden.",
        )
        for number, (kind, colour) in enumerate(
            (kind, colour) for kind in ("Hose", "Lamp", "Rug", "Tea") for colour in colours
        )
    )
    prices = {product.asin: 5.0 * position for position, product in enumerate(products)}
    search = build_index(products).search
    return Shop(Catalogue("test", products, {}, ""), prices, search, Scorer(find_nouns("rules")), page_size=5)


def contents(store: Shop) -> str:
    """A digest of everything that the shop sells."""
    return hashlib.sha256(repr((store.catalogue, sorted(store.prices.items()))).encode()).hexdigest()


words = st.lists(st.sampled_from(("hose", "lamp", "garden", "green", "<q>", "hoses", "<r>", "<c>", "25", "ft")), max_size=4)
real_moves = st.one_of(
    moves, st.tuples(st.just("search"), words.map(" ".join)), st.tuples(st.just("click"), st.integers(0, 40))
)


@settings(max_examples=100, deadline=None)
@given(play=st.lists(real_moves, max_size=25), again=st.lists(real_moves, max_size=6))
def test_random_actions_never_fail_nor_change_the_shop_and_pay_only_on_buying(
    play: list[tuple[str, object]], again: list[tuple[str, object]]
) -> None:
    store = real_shop()
    before = contents(store)
    session = Session(store, GOAL)
    for move in [("search", "garden"), *play]:
        page, done = session.page, session.done
        action = action_of(move, page.clickables)
        outcome = session.step(action)
        assert outcome.page is session.page
        bought = outcome.done and not done
        assert bought == (outcome.score is not None)
        assert 0.0 <= outcome.reward <= 1.0 if bought else outcome.reward == 0.0
        assert (parse_action(action)[1] or "").lower() == "buy now" or not bought
        assert outcome.effective or outcome.page is page
        assert not (done and outcome.effective)
        assert all(label == label.lower() for label in outcome.page.clickables)
    kept = session.snapshot()
    copied = copy.deepcopy(kept)
    first = [(session.step(action_of(move, session.page.clickables)), session.rich()) for move in again]
    for snapshot in (kept, copied):
        other = Session(store, GOAL)
        other.restore(snapshot)
        assert [(other.step(action_of(move, other.page.clickables)), other.rich()) for move in again] == first
    assert contents(store) == before


@pytest.mark.parametrize(
    "action",
    [
        "[" * 200_000,
        "]" * 200_000,
        "[]" * 100_000,
        f"search[{'a ' * 50_000}]",
        f"click[{'x' * 100_000}]",
        "search[\ud800\x00]",
    ],
    ids=lambda action: action[:8].encode("unicode_escape").decode(),
)
def test_very_long_and_broken_actions_are_played_at_once(action: str) -> None:
    session = Session(real_shop(), GOAL)
    assert session.step(action).reward == 0.0
    assert session.step("search[hose]").effective
