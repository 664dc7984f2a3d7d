"""The pages of the shop, made straight from the products: no HTML is rendered and none is parsed.

A page is a sequence of text nodes, in two forms: *text*, the nodes joined by ` [SEP] `, and *rich*, one node a line with
buttons marked. What does not depend on the session is made once per product or search and kept.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from creditlab.environments.webshop.catalogue import Catalogue

SEPARATOR, RICH_SEPARATOR = " [SEP] ", "\n"
"""What stands between the parts of a page in text mode and in text_rich."""
BACK_TO_SEARCH = "back to search"
PREVIOUS = "< prev"
NEXT = "next >"
BUY = "buy now"
SEARCH = "search"

SubPage = Literal["description", "features", "reviews", "attributes"]
SUB_PAGES: Mapping[str, SubPage] = {which: which for which in get_args(SubPage)}
"""The pages behind a product's page, by the label that leads there."""
Kind = Literal["index", "results", "item", "description", "features", "reviews", "attributes", "done"]

_KEPT = 4096
"""How many products' pages are kept, the least recently used go first; result pages likewise."""
_HTML_SPACES = " \t\n\f\r"
_JSON_IN_HTML = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"})


class Node(NamedTuple):
    """One piece of text and what it is on the page."""

    text: str
    role: Literal["text", "button", "option", "link"] = "text"
    """`option` is a value to choose, `link` a product's id."""


@dataclass(frozen=True, slots=True)
class Part:
    """What of a page does not depend on the session: all but the instruction above it."""

    nodes: tuple[Node, ...]
    text: str
    clickables: tuple[str, ...]
    """Buttons, then products, then option values; what stands twice is listed at its first place."""
    products: Mapping[str, str]
    """Clickable to the product behind it."""
    options: Mapping[str, str]
    """Clickable to the name of the option whose value it is; the last one where several have it."""


class Pages:
    """Makes the pages of a catalogue; safe to share between sessions."""

    def __init__(self, catalogue: Catalogue, *, page_size: int = 10, show_attributes: bool = False) -> None:
        self._catalogue = catalogue
        self._page_size = page_size
        self._show_attributes = show_attributes
        self._item = lru_cache(_KEPT)(self._make_item)
        self._sub_page = lru_cache(_KEPT)(self._make_sub_page)
        self._results = lru_cache(_KEPT)(self._make_results)

    def results(self, found: tuple[str, ...], number: int) -> Part:
        """One page of a search; past the last it lists nothing."""
        # Page 0, to which a query with a page's name in it can lead, is an empty slice as well.
        shown = found[(number - 1) * self._page_size : number * self._page_size]
        return self._results(shown, number, len(found))

    def item(self, asin: str) -> Part:
        """A product's own page."""
        return self._item(asin)

    def sub_page(self, asin: str, which: SubPage) -> Part:
        """One of the pages behind a product's page."""
        return self._sub_page(asin, which)

    def _make_results(self, shown: tuple[str, ...], number: int, total: int) -> Part:
        nodes = [_BACK, Node(f"Page {number} (Total results: {total})")]
        if number > 1:
            nodes.append(_PREVIOUS)
        nodes.append(Node("Next >", "button"))
        for asin in shown:
            product = self._catalogue.get(asin)
            nodes += (Node(asin, "link"), Node(product.name), Node(product.price_tag))
        return _part(nodes, products={asin.lower(): asin for asin in shown})

    def _make_item(self, asin: str) -> Part:
        product = self._catalogue.get(asin)
        nodes = [_BACK, _PREVIOUS]
        for name, values in product.options.items():
            nodes += (Node(name), *(Node(value, "option") for value in values))
        nodes += (Node(product.name), Node(f"Price: {product.price_tag}"), Node("Rating: N.A."))
        labels = ("Description", "Features", "Reviews", *(("Attributes",) if self._show_attributes else ()), "Buy Now")
        nodes += (Node(label, "button") for label in labels)
        return _part(nodes, options={value: name for name, values in product.options.items() for value in values})

    def _make_sub_page(self, asin: str, which: SubPage) -> Part:
        product = self._catalogue.get(asin)
        body: Sequence[str]
        if which == "description":
            body = (product.description,)
        elif which == "features":
            body = [f" {bullet}" for bullet in product.bullets]
        elif which == "attributes":
            described = (product.category, product.query, product.product_category)
            body = [*(f" {attribute}" for attribute in product.attributes), *described]
        else:
            body = ()  # the shop's files hold no reviews
        return _part([_BACK, _PREVIOUS, *map(Node, body)])


def index() -> Part:
    """The search page; the instruction goes between its title and the button."""
    return _INDEX


def done(asin: str, options: Mapping[str, str], reward: float) -> Part:
    """The page after buying; the original shows no code, and names neither goal nor details."""
    chosen = json.dumps(options, sort_keys=True).translate(_JSON_IN_HTML)
    before = ("Thank you for shopping with us!", "Your code: ", "None", " (Paste it in your MTurk interface.)")
    purchased = ("Purchased", "asin", asin, "options", chosen, *_each("attrs", "category", "query", "product category"))
    target = ("Target", "asin", "options", "attrs", "price upper", "instuction text", "category", "product category", "query")
    outcome = ("Goal ", "None", "Reward", "Your score (min 0.0, max 1.0)", str(reward), "Reward Details ", "None")
    return _part(map(Node, (*before, *purchased, *target, *outcome)))


def heading(kind: Kind, instruction: str) -> tuple[Node, ...]:
    """The nodes above a page's own part."""
    if kind == "done":
        return ()
    asked = (Node("Instruction: " if kind == "index" else "Instruction:"), Node(instruction))
    return tuple(_visible((Node("WebShop"), *asked) if kind == "index" else asked))


def plain(nodes: Iterable[Node]) -> str:
    """Visible nodes in text mode."""
    return SEPARATOR.join(node.text.strip() for node in nodes)


def rich(nodes: Iterable[Node], address: str, visited: frozenset[str]) -> str:
    """Visible nodes in text_rich mode: a value counts as chosen where it stands quoted in the page's address."""
    lines: list[str] = []
    chosen: list[str] = []
    for text, role in nodes:
        if role == "text":
            lines.append(f"{text}\n")
            continue
        if role == "option":
            clicked = f'"{text}"' in address
            if clicked:
                chosen.append(f"You have clicked {text}.\n")
        else:
            clicked = role == "link" and text in visited
        button = f"[clicked button] {text} [clicked button_]" if clicked else f"[button] {text} [button_]"
        lines.append(f"{_BEFORE[role]}{button}\n")
    return "".join((*reversed(chosen), *lines))


def _part(nodes: Iterable[Node], products: Mapping[str, str] | None = None, options: Mapping[str, str] | None = None) -> Part:
    products, options, nodes = products or {}, options or {}, tuple(nodes)
    buttons = (node.text.lower() for node in nodes if node.role == "button")
    shown = tuple(_visible(nodes))
    return Part(shown, plain(shown), tuple(dict.fromkeys((*buttons, *products, *options))), products, options)


def _visible(nodes: Iterable[Node]) -> Iterable[Node]:
    """What an HTML parser leaves of the nodes: white space becomes one space, or where it has a line break, nothing."""
    for node in nodes:
        if node.text.strip(_HTML_SPACES):
            yield node
        elif node.text and "\n" not in node.text:
            yield node._replace(text=" ")


def _each(*names: str) -> Iterable[str]:
    return (text for name in names for text in (name, "None"))


_BEFORE = {"button": "", "option": "  ", "link": "\n"}
_BACK, _PREVIOUS = Node("Back to Search", "button"), Node("< Prev", "button")
_INDEX = _part([Node("Search", "button")])
