"""Records of the official catalogue files, checked and turned into products.

The rules, their order and what is left out are those of the original's loader: option values are stripped, a slash in them
becomes ` | `, and they are lower-cased; a price is what follows a dollar sign; a product without one costs 100 dollars.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from creditlab.environments.webshop.records import HumanInstruction, Product
from creditlab.environments.webshop.streaming import ADVICE

MISSING_PRICE = 100.0
"""Dollars that a product without a price costs."""
PLACEHOLDER_ATTRIBUTE = "DUMMY_ATTR"
"""The one attribute of a product of which none are known; the attributes page of the original shows it."""
LONGEST_ID = 10
DUPLICATE = "products with an id that occurred before"
OVERLONG = f"products with an id of more than {LONGEST_ID} characters"
NO_ID = "products with the id nan"
NO_ATTRIBUTES = "human instructions without attributes, which are no goals"
NO_PRODUCT = "instructions for products that are not in the catalogue"

_NOT_PRICE = re.compile(r"[^\d.]")
_SHOWN = 60
"""Characters of a value that a message shows."""


@dataclass(frozen=True)
class Names:
    """The three parts of a catalogue, as messages call them: paths, where they are files."""

    items: str
    attributes: str
    human: str


class RecordError(ValueError):
    """A record is not what the official schema asks for; the message says what is wrong with which of its fields."""


class ProductReader:
    """Turns records into products and counts what the original leaves out, in `skipped`."""

    def __init__(self, names: Names, attributes: Mapping[str, Any], human: Mapping[str, Any]) -> None:
        self.names = names
        self.skipped: Counter[str] = Counter()
        self._attributes = attributes
        self._human = human

    def products(self, records: Iterable[Any]) -> Iterator[Product]:
        """The products in file order; raises ValueError naming the file and the product that is malformed."""
        seen: set[str] = set()
        unmatched = len(self._attributes) + len(self._human)
        for position, record in enumerate(records):
            asin = self._id(record, position)
            if reason := _left_out(asin, seen):
                self.skipped[reason] += 1
                continue
            seen.add(asin)
            notes, wishes = self._attributes.get(asin), self._human.get(asin)
            unmatched -= (notes is not None) + (wishes is not None)
            yield self._product(asin, position, record, notes, wishes)
        if unmatched:
            self.skipped[NO_PRODUCT] += unmatched

    def _id(self, record: Any, position: int) -> str:
        try:
            if not isinstance(record, dict):
                raise RecordError(f"is {_kind(record)}, no object")
            asin = _text(record, "asin")
            if "\0" in asin:
                raise RecordError(f"has the id {_shown(asin)} with a character that ends texts")
            return asin
        except RecordError as error:
            raise ValueError(f"{self.names.items}: record {position + 1} {error}; {ADVICE}") from None

    def _product(self, asin: str, position: int, record: Mapping[str, Any], notes: Any, wishes: Any) -> Product:
        place = f"{self.names.items}: record {position + 1} (product {_shown(asin)})"
        try:
            main = _main_fields(asin, record)
            place = f"{self.names.attributes}: product {_shown(asin)}"
            noted = _note_fields(notes)
            place = f"{self.names.human}: product {_shown(asin)}"
            asked = _wishes(wishes)
        except RecordError as error:
            raise ValueError(f"{place} {error}; {ADVICE}") from None
        self.skipped.update({NO_ATTRIBUTES: dropped} if (dropped := sum(not wish.attributes for wish in asked)) else {})
        return Product(**main, **noted, human=asked)


def _left_out(asin: str, seen: set[str]) -> str | None:
    if asin == "nan":
        return NO_ID
    if len(asin) > LONGEST_ID:
        return OVERLONG
    return DUPLICATE if asin in seen else None


def _main_fields(asin: str, record: Mapping[str, Any]) -> dict[str, Any]:
    pricing = _pricing(record.get("pricing"))
    tag = f"${MISSING_PRICE}" if pricing is None else " to ".join(f"${price}" for price in pricing)
    return {
        "asin": asin,
        "name": _text(record, "name"),
        "category": _text(record, "category"),
        "query": _text(record, "query").lower().strip(),
        "product_category": _text(record, "product_category"),
        "description": _text(record, "full_description"),
        "bullets": _bullets(record),
        "pricing": pricing or (MISSING_PRICE,),
        "price_tag": tag,
        "options": _options(_field(record, "customization_options")),
    }


def _note_fields(notes: Any) -> dict[str, Any]:
    """Attributes and the instruction of synthetic goals."""
    if notes is None:
        return {"attributes": (PLACEHOLDER_ATTRIBUTE,)}
    if not isinstance(notes, dict):
        raise RecordError(f"is {_kind(notes)}, no object")
    instruction = notes.get("instruction")
    return {
        "attributes": _texts(notes, "attributes") if "attributes" in notes else (PLACEHOLDER_ATTRIBUTE,),
        "instruction": None if instruction is None else _text(notes, "instruction"),
        "instruction_attributes": (
            () if notes.get("instruction_attributes") is None else _texts(notes, "instruction_attributes")
        ),
    }


def _wishes(wishes: Any) -> tuple[HumanInstruction, ...]:
    if wishes is None:
        return ()
    if not isinstance(wishes, list):
        raise RecordError(f"is {_kind(wishes)}, no list of instructions")
    return tuple(_wish(wish, number) for number, wish in enumerate(wishes, 1))


def _wish(wish: Any, number: int) -> HumanInstruction:
    try:
        if not isinstance(wish, dict):
            raise RecordError(f"is {_kind(wish)}, no object")
        return HumanInstruction(
            _text(wish, "instruction"), _texts(wish, "instruction_attributes"), _texts(wish, "instruction_options")
        )
    except RecordError as error:
        raise RecordError(f"instruction {number} {error}") from None


def _pricing(pricing: Any) -> tuple[float, ...] | None:
    """The first one or two prices of a text such as `$10.00$12.50`; None where there is none."""
    if not pricing:
        return None
    if not isinstance(pricing, str):
        raise RecordError(f"has {_kind(pricing)} for `pricing`, no text such as '$12.50'")
    prices = tuple(_price(part, pricing) for part in pricing.split("$")[1:])
    if not prices:
        raise RecordError(f"has the price {_shown(pricing)} without a dollar sign")
    return prices[:2]


def _price(text: str, pricing: str) -> float:
    try:
        price = float(Decimal(_NOT_PRICE.sub("", text)))
    except InvalidOperation:
        price = math.inf
    if not math.isfinite(price):
        raise RecordError(f"has the price {_shown(pricing)}, which is no number of dollars")
    return price


def _bullets(record: Mapping[str, Any]) -> tuple[str, ...]:
    """The feature list; some products have one text in its place."""
    if isinstance(_field(record, "small_description"), list):
        return _texts(record, "small_description")
    return (_text(record, "small_description"),)


def _options(found: Any) -> dict[str, tuple[str, ...]]:
    if not found:
        return {}
    if not isinstance(found, dict):
        raise RecordError(f"has {_kind(found)} for `customization_options`, no object")
    return {
        _plain(name, "customization_options").lower(): _values(name, contents)
        for name, contents in found.items()
        if contents is not None
    }


def _values(name: str, contents: Any) -> tuple[str, ...]:
    if not isinstance(contents, list) or not all(isinstance(content, dict) for content in contents):
        raise RecordError(f"has an option {_shown(name)} that is no list of objects")
    try:
        return tuple(_text(content, "value").strip().replace("/", " | ").lower() for content in contents)
    except RecordError as error:
        raise RecordError(f"has an option {_shown(name)} with a value that {error}") from None


def _field(record: Mapping[str, Any], key: str) -> Any:
    if key not in record:
        raise RecordError(f"has no `{key}`")
    return record[key]


def _text(record: Mapping[str, Any], key: str) -> str:
    value = _field(record, key)
    if not isinstance(value, str):
        raise RecordError(f"has {_kind(value)} for `{key}`, no text")
    return _plain(value, key)


def _texts(record: Mapping[str, Any], key: str) -> tuple[str, ...]:
    values = _field(record, key)
    if not isinstance(values, list):
        raise RecordError(f"has {_kind(values)} for `{key}`, no list of texts")
    for value in values:
        if not isinstance(value, str):
            raise RecordError(f"has {_kind(value)} in `{key}`, no text")
        _plain(value, key)
    return tuple(values)


def _plain(text: str, key: str) -> str:
    """The text, if every character of it is one: an escape in JSON may stand for half of one, which nothing can show."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise RecordError(f"has half a character in `{key}`") from None
    return text


def _kind(value: Any) -> str:
    kinds: Sequence[tuple[type, str]] = ((bool, "true or false"), (str, "a text"), (list, "a list"), (dict, "an object"))
    if value is None:
        return "null"
    return next((word for kind, word in kinds if isinstance(value, kind)), f"the number {str(value)[:_SHOWN]}")


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…")
