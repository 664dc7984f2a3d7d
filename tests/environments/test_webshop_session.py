"""Sessions of the shop against the written rules, against pages rendered and parsed as HTML, and their own invariants."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from conftest import benchmark_module
from hypothesis import example, given, settings
from hypothesis import strategies as st

from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.index import build_index
from creditlab.environments.webshop.nouns import find_nouns
from creditlab.environments.webshop.records import Goal, Product, Score
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Page, Session, Shop, parse_action

plain_webshop = benchmark_module("plain_webshop")
"""The shop whose pages are rendered as HTML and parsed back."""

GOAL = Goal(
    asin="B000000001",
    category="garden",
    query="garden hose",
    name="Green Garden Hose",
    product_category="Patio › Hoses",
    instruction="find me a hose, and price lower than 30.00 dollars",
    attributes=("kink free",),
    price_upper=30.0,
    options=("green", "50 ft"),
)
ASKED = f"Instruction: [SEP] {GOAL.instruction}"
SEARCH_PAGE = f"WebShop [SEP] {ASKED} [SEP] Search"


def product(asin: str, name: str = "Green Garden Hose", **changes: object) -> Product:
    plain = Product(
        asin=asin,
        name=name,
        category="garden",
        query="garden hose",
        product_category="Patio › Hoses",
        description="A long hose.",
        bullets=("Kink free.", "Light."),
        pricing=(12.5,),
        price_tag="$12.5",
        options={"color": ("green", "black | white"), "size": ("25 ft", "50 ft")},
        attributes=("kink free",),
    )
    return replace(plain, **changes)


def fixed_score(product: Product, goal: Goal, options: object, price: float) -> Score:
    return Score(0.25, 1.0, 0.5, 0.5, True, True, 1.0, 0.0, 0.25, price <= goal.price_upper, 0.25)


def shop(*products: Product, page_size: int = 10, show_attributes: bool = False) -> Shop:
    """A shop whose search finds every product, and none for a query with the word nothing."""
    prices = {product.asin: 12.5 for product in products}

    def search(query: str) -> tuple[str, ...]:
        return () if "nothing" in query else tuple(product.asin for product in products)

    catalogue = Catalogue("test", products, {}, "")
    return Shop(catalogue, prices, search, fixed_score, page_size, show_attributes)


HOSES = tuple(product(f"B00000000{number}", f"Hose {number}") for number in range(1, 8))


def played(session: Session, *actions: str) -> Page:
    """The page after some actions, each of which must have an effect."""
    for action in actions:
        assert session.step(action).effective, action
    return session.page


def test_search_page() -> None:
    page = Session(shop(*HOSES), GOAL).reset()
    assert page == Page(SEARCH_PAGE, ("search",), True)


def test_results_page_lists_products_and_offers_next_even_on_the_last_page() -> None:
    session = Session(shop(*HOSES, page_size=5), GOAL)
    first = played(session, "search[hose]")
    listed = " [SEP] ".join(f"B00000000{n} [SEP] Hose {n} [SEP] $12.5" for n in range(1, 6))
    assert first.text == f"{ASKED} [SEP] Back to Search [SEP] Page 1 (Total results: 7) [SEP] Next > [SEP] {listed}"
    assert first.clickables == ("back to search", "next >", *(f"b00000000{n}" for n in range(1, 6)))
    second = played(session, "click[next >]")
    assert second.text == (
        f"{ASKED} [SEP] Back to Search [SEP] Page 2 (Total results: 7) [SEP] < Prev [SEP] Next > [SEP] "
        "B000000006 [SEP] Hose 6 [SEP] $12.5 [SEP] B000000007 [SEP] Hose 7 [SEP] $12.5"
    )
    assert second.clickables == ("back to search", "< prev", "next >", "b000000006", "b000000007")
    assert not second.has_search_bar
    third = played(session, "click[next >]")
    assert third.text == f"{ASKED} [SEP] Back to Search [SEP] Page 3 (Total results: 7) [SEP] < Prev [SEP] Next >"
    assert played(session, "click[< prev]") == second
    assert played(session, "click[< prev]") == first


def test_a_search_without_results_shows_an_empty_page() -> None:
    page = played(Session(shop(*HOSES), GOAL), "search[nothing]")
    assert page.text == f"{ASKED} [SEP] Back to Search [SEP] Page 1 (Total results: 0) [SEP] Next >"
    assert page.clickables == ("back to search", "next >")


@pytest.mark.parametrize("show_attributes", [False, True])
def test_item_page(show_attributes: bool) -> None:
    page = played(Session(shop(*HOSES, show_attributes=show_attributes), GOAL), "search[hose]", "click[b000000002]")
    extra = (" [SEP] Attributes", ("attributes",)) if show_attributes else ("", ())
    assert page.text == (
        f"{ASKED} [SEP] Back to Search [SEP] < Prev [SEP] color [SEP] green [SEP] black | white [SEP] size [SEP] 25 ft [SEP] "
        "50 ft [SEP] Hose 2 [SEP] Price: $12.5 [SEP] Rating: N.A. [SEP] Description [SEP] Features [SEP] Reviews"
        f"{extra[0]} [SEP] Buy Now"
    )
    buttons = ("back to search", "< prev", "description", "features", "reviews", *extra[1], "buy now")
    assert page.clickables == (*buttons, "green", "black | white", "25 ft", "50 ft")


@pytest.mark.parametrize(
    ("label", "body"),
    [
        ("description", " [SEP] A long hose."),
        ("features", " [SEP] Kink free. [SEP] Light."),
        ("reviews", ""),
        ("attributes", " [SEP] kink free [SEP] garden [SEP] garden hose [SEP] Patio › Hoses"),
    ],
)
def test_pages_behind_a_product_lead_back_to_it_and_keep_the_options(label: str, body: str) -> None:
    session = Session(shop(*HOSES, show_attributes=True), GOAL)
    item = played(session, "search[hose]", "click[b000000002]", "click[green]")
    page = played(session, f"click[{label}]")
    assert page.text == f"{ASKED} [SEP] Back to Search [SEP] < Prev{body}"
    assert page.clickables == ("back to search", "< prev")
    assert (session.kind, session.options) == (label, {"color": "green"})
    assert played(session, "click[< prev]") == item
    assert session.options == {"color": "green"}


def test_an_option_has_one_value_and_its_first_place() -> None:
    session = Session(shop(*HOSES), GOAL)
    item = played(session, "search[hose]", "click[B000000002]")
    assert played(session, "click[GREEN]", "click[50 ft]", "click[black | white]", "click[black | white]") == item
    assert list(session.options.items()) == [("color", "black | white"), ("size", "50 ft")]


@pytest.mark.parametrize("leave", [("click[< prev]",), ("search[hose]",), ("click[back to search]", "search[hose]")])
def test_leaving_a_product_forgets_its_options(leave: tuple[str, ...]) -> None:
    session = Session(shop(*HOSES), GOAL)
    played(session, "search[hose]", "click[b000000002]", "click[green]", *leave)
    assert (session.kind, session.asin, session.product, session.options) == ("results", None, None, {})
    played(session, "click[b000000002]")
    assert session.options == {}


def test_previous_returns_from_a_product_to_its_page_of_results() -> None:
    session = Session(shop(*HOSES, page_size=5), GOAL)
    results = played(session, "search[hose]", "click[next >]")
    assert played(session, "click[b000000006]", "click[reviews]", "click[< prev]", "click[< prev]") == results
    assert (session.keywords, session.page_number) == ("hose", 2)


def test_back_to_search_forgets_the_search() -> None:
    session = Session(shop(*HOSES), GOAL)
    assert played(session, "search[Garden HOSE]", "click[b000000002]") != SEARCH_PAGE
    assert session.keywords == "garden hose"
    assert played(session, "click[back to search]").text == SEARCH_PAGE
    assert (session.kind, session.keywords, session.page_number, session.asin) == ("index", None, None, None)


@pytest.mark.parametrize(
    "page", [(), ("search[hose]",), ("search[x]", "click[b000000001]"), ("search[x]", "click[b000000001]", "click[reviews]")]
)
def test_one_can_search_from_every_page(page: tuple[str, ...]) -> None:
    session = Session(shop(*HOSES), GOAL)
    played(session, *page, "search[hose]")
    assert (session.kind, session.keywords, session.page_number) == ("results", "hose", 1)


NO_EFFECT = [
    "", "search", "search[]", "Search[hose]", "SEARCH[hose]", " search[hose]", "search[hose", "search hose", "[search]",
    "\nsearch[hose]", "search[ho\nse]", "search[a[b]", "search[hose]search[hose]", "press[search]", "click[]",
    "Click[search]", "click[search]", "click[ search]", "click[hose]", "click[back to search]", "click[b000000001]",
]  # fmt: skip


@pytest.mark.parametrize("action", NO_EFFECT)
def test_what_has_no_effect_on_the_search_page(action: str) -> None:
    session = Session(shop(*HOSES), GOAL)
    start = session.snapshot()
    outcome = session.step(action)
    assert (outcome.page.text, outcome.reward, outcome.done, outcome.effective, outcome.score) == (
        SEARCH_PAGE,
        0.0,
        False,
        False,
        None,
    )
    assert session.snapshot() is start


@pytest.mark.parametrize(
    ("action", "keywords"),
    [
        ("search[ ]", " "),
        ("search[a]b]", "a]b"),
        ("search[hose] now", "hose"),
        ("search[x]\nclick[y]", "x"),
        ("search[[]", "["),
    ],
)
def test_how_far_the_argument_of_an_action_goes(action: str, keywords: str) -> None:
    session = Session(shop(*HOSES), GOAL)
    assert session.step(action).effective
    assert session.keywords == keywords


@given(st.text(alphabet="[]a \n\r\v\x85\u2028", max_size=12))
@example("[" * 10)
def test_actions_are_taken_apart_by_the_greedy_pattern(action: str) -> None:
    match = re.match(r"(.+)\[(.+)\]", action)
    assert parse_action(action) == (match.groups() if match else (action, None))


def test_buying_ends_the_session() -> None:
    session = Session(shop(*HOSES), GOAL)
    played(session, "search[hose]", "click[b000000003]", "click[50 ft]", "click[green]")
    assert session.preview() == fixed_score(HOSES[2], GOAL, {}, 12.5)
    outcome = session.step("click[Buy Now]")
    assert (outcome.reward, outcome.done, outcome.effective, outcome.score) == (0.25, True, True, session.preview())
    nothing = " [SEP] ".join(f"{name} [SEP] None" for name in ("attrs", "category", "query", "product category"))
    assert outcome.page.text == (
        "Thank you for shopping with us! [SEP] Your code: [SEP] None [SEP] (Paste it in your MTurk interface.) [SEP] "
        'Purchased [SEP] asin [SEP] B000000003 [SEP] options [SEP] {"color": "green", "size": "50 ft"} [SEP] '
        f"{nothing} [SEP] Target [SEP] asin [SEP] options [SEP] attrs [SEP] price upper [SEP] instuction text [SEP] category "
        "[SEP] product category [SEP] query [SEP] Goal [SEP] None [SEP] Reward [SEP] Your score (min 0.0, max 1.0) [SEP] "
        "0.25 [SEP] Reward Details [SEP] None"
    )
    assert outcome.page.clickables == ()
    assert (session.asin, dict(session.options)) == ("B000000003", {"color": "green", "size": "50 ft"})
    end = session.snapshot()
    for action in ("search[hose]", "click[back to search]", "click[buy now]", ""):
        later = session.step(action)
        assert (later.page, later.reward, later.done, later.effective, later.score) == (outcome.page, 0.0, True, False, None)
        assert session.snapshot() is end
    assert session.reset().text == SEARCH_PAGE
    assert not session.done


def test_options_stand_on_the_last_page_as_json_for_html_sorted_by_name() -> None:
    odd = product("B000000009", options={"size": ("8' x 10\"",), "finish": ("<b> & é",)})
    session = Session(shop(odd), GOAL)
    page = played(session, "search[hose]", "click[b000000009]", "click[8' x 10\"]", "click[<b> & é]", "click[buy now]")
    shown = r'{"finish": "\u003cb\u003e \u0026 \u00e9", "size": "8\u0027 x 10\""}'
    assert page.text.split(" [SEP] ")[8:10] == [shown, "attrs"]


def test_nothing_is_scored_where_no_product_is_open() -> None:
    session = Session(shop(*HOSES), GOAL)
    assert session.preview() is None
    played(session, "search[hose]")
    assert session.preview() is None


def test_values_named_like_buttons_act_as_buttons_and_are_listed_once() -> None:
    tricky = product(
        "B0TRICKY00", options={"style": ("description", "search", "next >", "green"), "color": ("green", "< prev")}
    )
    session = Session(shop(tricky), GOAL)
    item = played(session, "search[hose]", "click[b0tricky00]")
    assert item.clickables == (
        *("back to search", "< prev", "description", "features", "reviews", "buy now"),
        *("search", "next >", "green"),
    )
    assert not session.step("click[search]").effective
    played(session, "click[description]")
    assert (session.kind, session.options) == ("description", {})
    played(session, "click[< prev]", "click[green]", "click[next >]")
    assert session.options == {"color": "green", "style": "next >"}  # two options share the value: the last has it
    played(session, "click[< prev]")
    assert session.kind == "results"


def test_products_named_like_buttons_or_in_lower_case_can_be_opened() -> None:
    """On such ids the original breaks off with a KeyError."""
    names = ("FEATURES", "BUY NOW", "b0lower000")
    for name in names:
        session = Session(shop(*map(product, names)), GOAL)
        played(session, "search[hose]", f"click[{name.lower()}]")
        assert (session.kind, session.asin) == ("item", name)


def test_a_query_with_the_name_of_a_page_misleads_the_shop() -> None:
    """The original looks for the name of the page it is on anywhere in the address, which holds the query."""
    session = Session(shop(*HOSES), GOAL)
    played(session, "search[search_results]", "click[b000000001]", "click[< prev]")
    assert (session.kind, session.page_number) == ("results", 0)
    assert session.page.text == f"{ASKED} [SEP] Back to Search [SEP] Page 0 (Total results: 7) [SEP] Next >"
    played(session, "search[item_page]", "click[b000000001]", "click[features]", "click[< prev]")
    assert (session.kind, session.page_number) == ("results", 1)


def test_rich_pages_mark_what_was_clicked() -> None:
    session = Session(shop(*HOSES[:2]), GOAL)
    assert session.rich() == f"WebShop\nInstruction: \n{GOAL.instruction}\n[button] Search [button_]\n"
    played(session, "search[hose]", "click[b000000002]", "click[50 ft]", "click[green]")
    above = f"Instruction:\n{GOAL.instruction}\n[button] Back to Search [button_]\n"
    assert session.rich() == (
        f"You have clicked 50 ft.\nYou have clicked green.\n{above}[button] < Prev [button_]\n"
        "color\n  [clicked button] green [clicked button_]\n  [button] black | white [button_]\n"
        "size\n  [button] 25 ft [button_]\n  [clicked button] 50 ft [clicked button_]\n"
        "Hose 2\nPrice: $12.5\nRating: N.A.\n[button] Description [button_]\n[button] Features [button_]\n"
        "[button] Reviews [button_]\n[button] Buy Now [button_]\n"
    )
    played(session, "search[other]")
    results = f"{above}Page 1 (Total results: 2)\n[button] Next > [button_]\n"
    first = "\n[button] B000000001 [button_]\nHose 1\n$12.5\n"
    assert session.rich() == f"{results}{first}\n[clicked button] B000000002 [clicked button_]\nHose 2\n$12.5\n"
    played(session, "click[back to search]", "search[other]")
    assert session.rich() == f"{results}{first}\n[button] B000000002 [button_]\nHose 2\n$12.5\n"


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
