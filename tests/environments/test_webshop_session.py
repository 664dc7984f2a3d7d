"""Sessions of the shop against the written rules, with expected pages made by hand."""

from __future__ import annotations

import re

import pytest
from hose_shop import GOAL, HOSES, fixed_score, played, product, shop
from hypothesis import example, given
from hypothesis import strategies as st

from creditlab.environments.webshop.session import Page, Session, parse_action

ASKED = f"Instruction: [SEP] {GOAL.instruction}"
SEARCH_PAGE = f"WebShop [SEP] {ASKED} [SEP] Search"


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
    played(session, "click[b000000001]", "click[< prev]")
    assert session.rich().count("[clicked button]") == 2
    played(session, "click[back to search]", "search[other]")
    assert session.rich() == f"{results}{first}\n[button] B000000002 [button_]\nHose 2\n$12.5\n"


def test_a_quoted_value_in_the_query_reads_as_clicked_unless_it_holds_a_space() -> None:
    """The original looks for the value in quotes anywhere in the address, where a plus stands for each space of the query."""
    session = Session(shop(*HOSES), GOAL)
    played(session, 'search["green" or "50 ft"]', "click[b000000002]")
    assert session.rich().startswith("You have clicked green.\nInstruction:")
    assert "  [button] 50 ft [button_]" in session.rich()
    assert session.options == {}
