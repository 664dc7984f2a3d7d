"""The words of a shop's texts, for tokenizers made from them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from creditlab.environments.webshop import pages
from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.expert import BUTTONS, MALFORMED, search_words
from creditlab.environments.webshop.index import HITS
from creditlab.environments.webshop.records import Goal, Product

_SEARCHES = ("search[<your query>]", "search[")
_PRICES = (", and price lower than", ".00 dollars", ".99", ".95", ".49", ".5", ".0")
"""Of the instructions, and the cents of synthetic prices."""
_QUOTES = "'"
_RICH = "WebShop Instruction: [button] [button_] [clicked button] [clicked button_] You have clicked ."


def phrases(catalogue: Catalogue, *, rich: bool = False) -> tuple[str, ...]:
    """Fixed phrases of pages and actions, in lower case: every click, product id, option value and attribute is one.

    On `rich` pages so is all that can be clicked with the marks around it.
    """
    labels = {*BUTTONS, pages.SEARCH}
    wholes: set[str] = set()
    for product in catalogue.products:
        named = {product.asin.lower(), *_values(product)}
        labels |= named
        wholes |= named | {attribute.lower() for attribute in product.attributes}
    clicks = sorted(f"click[{label}]" for label in labels)
    marked = sorted(_marked(label, how) for label in labels for how in ("", "clicked ")) if rich else ()
    return (*_SEARCHES, *clicks, *sorted(wholes), *marked, *(_rich_phrases() if rich else _page_phrases()), *_PRICES)


def texts(catalogue: Catalogue, goals: Iterable[Goal]) -> Iterator[str]:
    """Texts that together hold every word of the pages, instructions and actions.

    Only the score on the last page may be missing, which no decision reads.
    """
    yield from phrases(catalogue)
    yield from MALFORMED
    yield from (_RICH, _QUOTES)
    yield " ".join(map(str, range(HITS + 1)))
    for part in _parts(catalogue):
        yield " ".join(node.text for node in part.nodes)  # one by one: a phrase over several hides their words
    for product in catalogue.products:
        yield from search_words(product.name)  # alone, as a search has them, and not only within an attribute
    for goal in goals:
        yield goal.instruction


def _parts(catalogue: Catalogue) -> Iterator[pages.Part]:
    """Pages that together show everything there is to show."""
    shop = pages.Pages(catalogue, show_attributes=True)
    yield from (pages.index(), pages.done("", {}, 1.0), shop.results((), 2))
    for product in catalogue.products:
        yield shop.results((product.asin,), 1)
        yield shop.item(product.asin)
        for which in pages.SUB_PAGES.values():
            yield shop.sub_page(product.asin, which)


def _page_phrases() -> Iterator[str]:
    """What stands on every page of a kind, whether its parts are quoted or not."""
    links = ("description", "features", "reviews")
    yield from ("(total results:", "price:")
    for between in (pages.SEPARATOR.lower(), f"'{pages.SEPARATOR.lower()}'"):
        yield between
        yield between.join((pages.BACK_TO_SEARCH, pages.PREVIOUS))
        yield between.join((pages.BACK_TO_SEARCH, "page"))
        yield between.join(("rating: n.a.", *links, pages.BUY))
        yield between.join(("rating: n.a.", *links, "attributes", pages.BUY))


def _rich_phrases() -> Iterator[str]:
    """What stands on every rich page of a kind."""
    links = [_marked(label) for label in ("description", "features", "reviews", pages.BUY)]
    yield from ("(total results:", "price:")
    yield " ".join((_marked(pages.BACK_TO_SEARCH), _marked(pages.PREVIOUS)))
    yield " ".join((_marked(pages.BACK_TO_SEARCH), "page"))
    yield " ".join(("rating: n.a.", *links))


def _marked(label: str, clicked: str = "") -> str:
    """A label as a rich page shows it."""
    return f"[{clicked}button] {label} [{clicked}button_]"


def _values(product: Product) -> Iterator[str]:
    for values in product.options.values():
        yield from values
