"""One visit to the shop: what actions do, with the pages, rules and quirks of WebShop's text environment.

The state is one immutable value, so a snapshot is free and an action yields the next state.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from creditlab.environments.webshop import pages
from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.pages import (
    BACK_TO_SEARCH,
    BUY,
    NEXT,
    PREVIOUS,
    SEARCH,
    SUB_PAGES,
    Kind,
    Pages,
    Part,
    SubPage,
)
from creditlab.environments.webshop.records import Goal, Product, Score

_NO_OPTIONS: Mapping[str, str] = {}
_PLACES = ("search_results", "item_page", "item_sub_page")


@dataclass(frozen=True)
class Shop:
    """What all sessions share."""

    catalogue: Catalogue
    prices: Mapping[str, float]
    """The price of every product in dollars, as purchases are scored."""
    search: Callable[[str], Sequence[str]]
    """Query to the products found, best first; asked again for every page of results, so it should keep its answers."""
    score: Callable[[Product, Goal, Mapping[str, str], float], Score]
    page_size: int = 10
    show_attributes: bool = False
    """Whether products have a page of their attributes."""

    @cached_property
    def pages(self) -> Pages:
        """The maker of the pages."""
        return Pages(self.catalogue, page_size=self.page_size, show_attributes=self.show_attributes)


@dataclass(frozen=True, slots=True)
class Page:
    """What a shopper sees."""

    text: str
    clickables: tuple[str, ...]
    """What `click[…]` accepts, lower case, in the original's order; `search` is listed although clicking it does nothing."""
    has_search_bar: bool
    """Whether the page shows it; `search[…]` works on every page but the last."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an action led to."""

    page: Page
    reward: float
    done: bool
    effective: bool
    """Whether the shop did anything; an action that is malformed or names nothing to click has no effect."""
    score: Score | None
    """Of the purchase; None otherwise."""


class State(NamedTuple):
    """Everything that changes in a session; immutable."""

    kind: Kind
    part: Part
    page: Page
    keywords: str = ""
    """Empty on the search page, as are the next two."""
    page_number: int = 0
    asin: str = ""
    options: Mapping[str, str] = _NO_OPTIONS
    visited: frozenset[str] = frozenset()
    """Products opened since the visit began on the search page."""


class Session:
    """A shopper with one goal; starts on the search page."""

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self.shop = shop
        self.goal = goal
        self._heading = pages.plain(pages.heading("item", goal.instruction))
        self._start = self._enter(State("index", pages.index(), Page("", (), False)))
        self._state = self._start

    def reset(self) -> Page:
        """Returns to the search page and forgets everything."""
        self._state = self._start
        return self._state.page

    def step(self, action: str) -> Outcome:
        """Plays `search[words]` or `click[label]`; anything else, and everything after the purchase, changes nothing."""
        name, argument = parse_action(action)
        if self.done or argument is None:
            return self._unchanged()
        argument = argument.lower()
        if name == "search":
            return self._show(self._results(argument, 1))
        if name == "click" and argument != SEARCH and argument in self._state.part.clickables:
            return self._buy() if argument == BUY and self._state.asin else self._show(self._click(argument))
        return self._unchanged()

    def snapshot(self) -> State:
        """The whole state, valid for sessions with the same shop and goal."""
        return self._state

    def restore(self, snapshot: State) -> None:
        """Continues from a snapshot."""
        self._state = snapshot

    def rich(self) -> str:
        """The present page in text_rich mode."""
        state = self._state
        nodes = (*pages.heading(state.kind, self.goal.instruction), *state.part.nodes)
        return pages.rich(nodes, _address(state), state.visited)

    def preview(self) -> Score | None:
        """The score of buying the open product with the options chosen so far; None where no product is open."""
        return self._score() if self._state.asin else None

    @property
    def page(self) -> Page:
        """The present page."""
        return self._state.page

    @property
    def kind(self) -> Kind:
        """What kind of page it is."""
        return self._state.kind

    @property
    def done(self) -> bool:
        """Whether something has been bought."""
        return self._state.kind == "done"

    @property
    def keywords(self) -> str | None:
        """The query of the present search, lower case; None on the search page."""
        return self._state.keywords or None

    @property
    def page_number(self) -> int | None:
        """The page of results that is or was last shown, from 1; None on the search page."""
        return self._state.page_number if self._state.keywords else None

    @property
    def asin(self) -> str | None:
        """The product that is open or bought."""
        return self._state.asin or None

    @property
    def product(self) -> Product | None:
        """The record of the product that is open or bought."""
        return self.shop.catalogue.get(self._state.asin) if self._state.asin else None

    @property
    def options(self) -> Mapping[str, str]:
        """The values chosen for the open product, by the option's name."""
        return self._state.options

    def _click(self, label: str) -> State:
        """The state after a click, decided in the original's order: a value named like a button acts as the button."""
        state = self._state
        place = _place(state) if label in (NEXT, PREVIOUS) else None
        if label == BACK_TO_SEARCH:
            return self._start
        if label in (NEXT, PREVIOUS) and place == "search_results":
            return self._results(state.keywords, state.page_number + (1 if label == NEXT else -1))
        if label == PREVIOUS and place == "item_page":
            return self._results(state.keywords, state.page_number)
        if label in state.part.products:
            asin = state.part.products[label]
            return self._item(state._replace(asin=asin, visited=state.visited | {asin}))
        if label in SUB_PAGES:
            return self._sub_page(SUB_PAGES[label])
        if label in state.part.options:
            return self._item(state._replace(options={**state.options, state.part.options[label]: label}))
        return self._item(state)

    def _results(self, keywords: str, number: int) -> State:
        part = self.shop.pages.results(tuple(self.shop.search(keywords)), number)
        state = self._state
        return self._enter(
            state._replace(kind="results", part=part, keywords=keywords, page_number=number, asin="", options=_NO_OPTIONS)
        )

    def _item(self, state: State) -> State:
        return self._enter(state._replace(kind="item", part=self.shop.pages.item(state.asin)))

    def _sub_page(self, which: SubPage) -> State:
        state = self._state
        return self._enter(state._replace(kind=which, part=self.shop.pages.sub_page(state.asin, which)))

    def _buy(self) -> Outcome:
        state, score = self._state, self._score()
        part = pages.done(state.asin, state.options, score.reward)
        self._state = self._enter(state._replace(kind="done", part=part))
        return Outcome(self._state.page, score.reward, True, True, score)

    def _score(self) -> Score:
        asin = self._state.asin
        return self.shop.score(self.shop.catalogue.get(asin), self.goal, self._state.options, self.shop.prices[asin])

    def _enter(self, state: State) -> State:
        """The state with its page."""
        kind, part = state.kind, state.part
        if kind == "index":
            text = pages.plain((*pages.heading(kind, self.goal.instruction), *part.nodes))
        else:
            text = part.text if kind == "done" else f"{self._heading}{pages.SEPARATOR}{part.text}"
        return state._replace(page=Page(text, part.clickables, kind == "index"))

    def _show(self, state: State) -> Outcome:
        self._state = state
        return Outcome(state.page, 0.0, False, True, None)

    def _unchanged(self) -> Outcome:
        return Outcome(self._state.page, 0.0, self.done, False, None)


def parse_action(action: str) -> tuple[str, str | None]:
    """Name and argument of `name[argument]`; the whole action and None where it has not that form.

    The argument ends at the last `]` and begins after the last `[` that leaves it a character; what follows is ignored, as
    is everything after the first line.
    """
    line = action.split("\n", 1)[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 0))
    return (action, None) if start < 0 else (line[:start], line[start + 1 : end])


def _address(state: State) -> str:
    """The part of the page's address that the original reads things off."""
    query = state.keywords.replace(" ", "+")
    if state.kind == "results":
        return f"/search_results/{query}/{state.page_number}"
    if state.kind == "item":
        return f"/item_page/{state.asin}/{query}/{state.page_number}/{json.dumps(state.options)}"
    if state.kind in SUB_PAGES:
        return f"/item_sub_page/{state.asin}/{query}/{state.page_number}/{state.kind}/{state.options}"
    return ""


def _place(state: State) -> str | None:
    """What the original takes the page for: the first of these names anywhere in the address, the query included."""
    address = _address(state)
    return next((name for name in _PLACES if name in address), None)
