"""Shops in WebShop, for warm starts and to check that a goal can be met, and slips as a careless shopper makes them.

The expert knows which product its goal was made from; it finds it with words of the instruction. It keeps no plan, so it goes
on from whatever state it is asked in.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import numpy as np

from creditlab.environments.webshop.colours import normalise
from creditlab.environments.webshop.index import STOP_WORDS
from creditlab.environments.webshop.pages import BACK_TO_SEARCH, BUY, NEXT, PREVIOUS, SEARCH, SUB_PAGES
from creditlab.environments.webshop.records import Goal, Product
from creditlab.environments.webshop.scorer import alike
from creditlab.environments.webshop.session import Session, Shop, parse_action

BUTTONS = (BACK_TO_SEARCH, PREVIOUS, NEXT, *SUB_PAGES, BUY)
MALFORMED = ("buy now", "click buy now", "search for it", "add to cart", "open the product")
"""What the slips say where they forget that an action is a name with its argument in brackets."""
_FAR = 2
"""Pages of results that the expert turns at most before it searches with words of its own."""
_BRACKET = re.compile(r"[][]")
_WORD = re.compile(r"[^\W\d_\u4e00-\u9fff]{2,}|\d{2,}")
"""Chinese signs are left out, for an answer that holds one counts as malformed."""


class Expert:
    """An expert for one goal; it takes four actions and one for each option where its first search succeeds at once."""

    def __init__(self, shop: Shop, goal: Goal) -> None:
        self.goal = goal
        self._shop = shop
        self._query = self._best_query(shop.catalogue.get(goal.asin))
        self._chosen = choices(shop.catalogue.get(goal.asin), goal)

    def act(self, session: Session) -> str:
        """The next action, always an effective one while the session lasts; the session is the goal's."""
        if session.kind == "index":
            return f"search[{self._query}]"
        if session.kind == "results":
            return self._browse(session)
        if session.asin != self.goal.asin and self._page(session.keywords or "") is None:
            return f"click[{BACK_TO_SEARCH}]"
        if session.asin != self.goal.asin or session.kind in SUB_PAGES:
            return f"click[{PREVIOUS}]"
        for name, value in self._chosen.items():
            if session.options.get(name) != value:
                return f"click[{value}]"
        return f"click[{BUY}]"

    def _browse(self, session: Session) -> str:
        """Opens the product, turns to its page, or gives this search up."""
        keywords, number = session.keywords or "", session.page_number or 0
        page = self._page(keywords)
        if page is None or (keywords != self._query and abs(page - number) > _FAR):
            return f"click[{BACK_TO_SEARCH}]"
        if page == number:
            return f"click[{self.goal.asin.lower()}]"
        return f"click[{NEXT if number < page else PREVIOUS}]"

    def _page(self, query: str) -> int | None:
        """The page of results that lists the product, from 1; None if the search does not find it."""
        found = self._shop.search(query)
        return found.index(self.goal.asin) // self._shop.page_size + 1 if self.goal.asin in found else None

    def _best_query(self, product: Product) -> str:
        """The query of words of the instruction that lists the product soonest, else another one that finds it."""
        for queries in _queries(product, self.goal):
            pages = {query: page for query in queries if (page := self._page(query)) is not None}
            if pages:
                return min(pages, key=lambda query: pages[query])
        raise ValueError(
            f"product {product.asin} is in the catalogue, but no search finds it; build the index from the catalogue"
        )


def _queries(product: Product, goal: Goal) -> Iterator[tuple[str, ...]]:
    """Queries to try in turn: kind and attributes as the instruction has them, alone or with the options; then the title."""
    title, told = search_words(product.name), set(search_words(" ".join((*goal.attributes, *goal.options))))
    kind = [word for word in search_words(goal.instruction) if word in title and word not in told]
    asked = (*kind, *goal.attributes)
    yield _typed(asked), _typed((*asked, *goal.options))
    yield (" ".join(title),)
    yield (f"<q> {product.query}",)  # lists every product that was collected with it


def _typed(texts: Iterable[str]) -> str:
    """Texts as the argument of a search: in one line, without the brackets that would end it."""
    return " ".join(_BRACKET.sub(" ", " ".join(texts)).lower().split())


def search_words(text: str) -> list[str]:
    """The words of a text that a search looks for, each once, in lower case."""
    return list(dict.fromkeys(word for word in _WORD.findall(text.lower()) if word not in STOP_WORDS))


def choices(product: Product, goal: Goal) -> dict[str, str]:
    """The option values, by name, that bring a product as near to the goal's options as clicks can."""
    # A label that several options share chooses for the last of them.
    owners = {value: name for name, values in product.options.items() for value in values if _can_choose(value)}
    chosen: dict[str, str] = {}
    for position, wanted in enumerate(goal.options):
        asked = None if goal.option_names is None else goal.option_names[position]
        fitting = [value for value, name in owners.items() if asked in (None, name) and _fits(value, wanted)]
        if fitting:
            best = wanted if wanted in fitting else fitting[0]
            chosen.setdefault(owners[best], best)
    return chosen


def _can_choose(value: str) -> bool:
    """Whether a click reaches an option value: it does not where the value reads like a button or has brackets in it."""
    return value not in (*BUTTONS, SEARCH) and parse_action(f"click[{value}]") == ("click", value)


def _fits(value: str, wanted: str) -> bool:
    return alike(normalise(value), normalise(wanted))


def slip(session: Session, rng: np.random.Generator) -> str:
    """A plausible action that has no effect now: what the page does not offer, or what is no action."""
    products = session.shop.catalogue.products
    product = products[int(rng.integers(len(products)))]
    labels = (product.asin.lower(), *(value for values in product.options.values() for value in values), *BUTTONS)
    actions = [*(f"click[{label}]" for label in labels), *MALFORMED]
    useless = [action for action in actions if parse_action(action)[1] not in session.page.clickables]
    return useless[int(rng.integers(len(useless)))]
