"""A seeded synthetic shop in the official schema: products of several kinds and what people ask for.

Product number i is a function of (seed, i) and of what the shop sells, never of how many products there are. Products of one
kind share attributes and option values, so that an instruction singles out some of them; each can be bought to its
instructions' full satisfaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from string import ascii_uppercase, digits
from typing import Any, TypeVar

from creditlab.environments.dice import Dice
from creditlab.environments.webshop.wordlists import KINDS, Attribute, Kind, words

T = TypeVar("T")
Record = dict[str, Any]

_BRAND_STARTS = words("Bel; Cor; Dra; Fen; Gal; Hal; Jor; Kel; Lor; Mar; Nor; Pel; Quin; Ros; Sel; Tor; Val; Wen; Yar; Zel")
_BRAND_ENDS = words("aro; bridge; cott; dell; eva; field; gate; holm; ique; lane; mont; nest; ora; port; sen; via; well")
_USES = words("home; work; travel; the family; every season; a gift")
_OPENINGS = words("The {name} from {brand}, for {use}.; {brand} made this for {use}.; A popular choice of {name}.")
_IS = words("Reliably {attribute}, also for {use}.; Designed to be {attribute}.; You will find it {attribute}.")
_HAS = words("Includes {attribute} for {use}.; Made with {attribute}.; You will like the {attribute}.")
_REQUESTS = words(
    "i am looking for {article} {name} that {clause}{options}; find me {article} {name} that {clause}{options}.; "
    "i want {article} {name} that {clause}{options}; i would like to buy {article} {name} that {clause}{options}; "
    "please get {qualified} {name}{options}.; i need {qualified} {name}{options}; "
    "looking for {qualified} {name}{options}; show me {qualified} {name}{options}."
)
"""What people ask for: a kind that is or has something, or a kind with the attributes before it."""
_OPTION_REQUESTS = ((" in ", "{value}", " and "), (" with ", "{option} {value}", " and "), (", ", "{option} {value}", ", "))
"""How people ask for options: the words before them, each option, the words between two."""
_SYNTHETIC_REQUEST = "Find me {attributes} {query} for {use}"

MOST_PRODUCTS = 1_000_000
"""Products of the largest shop; its records fill a few GiB of memory."""
LEAST_BREADTH = 3
"""Attributes that every product has."""

_SIGNS = ascii_uppercase + digits
_IDS = len(_SIGNS) ** 8
_STRIDE = 1_743_560_238_451
"""From one product's id to the next: prime to the number of ids, so that no id repeats; near its golden section."""
_CENTS = (0.99, 0.95, 0.5, 0.0, 0.49)
_NO_PRICE, _TWO_PRICES = 0.05, 0.2
_NO_OPTIONS, _OPTION_MISSING = 0.06, 0.08
_NO_DESCRIPTION = 0.05
_VALUE_IN_TITLE = 0.25
_NO_SYNTHETIC_REQUEST = 0.1
_TWO_ATTRIBUTES, _OPTION_ASKED = 0.4, 0.6
_TITLE_FIRST = 0.75
"""How often the first attribute asked for is one that the title tells."""
_TRIES = 8


@dataclass(frozen=True, slots=True)
class _Item:
    """A product while its records are written."""

    asin: str
    brand: str
    kind: Kind
    attributes: tuple[Attribute, ...]
    """The title tells the first two."""
    options: dict[str, tuple[str, ...]]


def synthetic_records(
    products: int,
    seed: int,
    *,
    kinds: int | Sequence[str] | None = None,
    breadth: int | None = None,
    instructions: int = 4,
) -> tuple[list[Record], dict[str, Record], dict[str, list[Record]]]:
    """The contents of the three official files: products, attributes by id, and human instructions by id.

    `kinds` names the product kinds or says how many of the table occur (None: all); `breadth` keeps only the first so many
    attributes of a kind and values of an option; `instructions` is their number per product. Raises ValueError for a shop
    that cannot be made.
    """
    sold = _sold(kinds, breadth)
    if products < len(sold):
        raise ValueError(f"a shop of {len(sold)} product kinds needs at least {len(sold)} products, not {products}")
    if instructions < 1:
        raise ValueError(f"a product needs at least one instruction, not {instructions}")
    offset = Dice(seed).below(_IDS)
    items: list[Record] = []
    notes: dict[str, Record] = {}
    wishes: dict[str, list[Record]] = {}
    for number in range(products):
        dice = Dice(seed, number)
        item = _draw(_asin(offset, number), sold[number % len(sold)], dice)
        items.append(_product(item, dice))
        notes[item.asin] = _note(item, dice)
        wishes[item.asin] = _wishes(item, instructions, dice)
    return items, notes, wishes


def _sold(kinds: int | Sequence[str] | None, breadth: int | None) -> tuple[Kind, ...]:
    """The kinds on sale, cut to the breadth."""
    if breadth is not None and breadth < LEAST_BREADTH:
        raise ValueError(f"products need at least {LEAST_BREADTH} attributes and option values to choose from, not {breadth}")
    table = {kind.name: kind for kind in KINDS}
    if kinds is None:
        names = tuple(table)
    elif isinstance(kinds, int):
        if not 1 <= kinds <= len(table):
            raise ValueError(f"there are 1 to {len(table)} product kinds, not {kinds}")
        names = tuple(table)[:kinds]
    else:
        names = tuple(kinds)
        if unknown := [name for name in names if name not in table]:
            raise ValueError(f"unknown product kinds {', '.join(unknown)}; there are {', '.join(table)}")
        if not names or len(set(names)) < len(names):
            raise ValueError("a shop needs product kinds, each named once")
    return tuple(_cut(table[name], breadth) for name in names)


def _cut(kind: Kind, breadth: int | None) -> Kind:
    options = {name: values[:breadth] for name, values in kind.options.items()}
    return Kind(
        kind.article, kind.name, kind.query, kind.category, kind.path, kind.attributes[:breadth], options, kind.prices
    )


def _asin(offset: int, number: int) -> str:
    code, signs = (offset + number * _STRIDE) % _IDS, ""
    for _ in range(8):
        code, digit = divmod(code, len(_SIGNS))
        signs += _SIGNS[digit]
    return f"B0{signs}"


def _draw(asin: str, kind: Kind, dice: Dice) -> _Item:
    brand = dice.one_of(_BRAND_STARTS) + dice.one_of(_BRAND_ENDS)
    attributes = _distinct(kind.attributes, 3 + dice.below(2), dice)
    options: dict[str, tuple[str, ...]] = {}
    if not dice.chance(_NO_OPTIONS):
        for name, values in kind.options.items():
            if not dice.chance(_OPTION_MISSING):
                offered = _distinct(values, 2 + dice.below(3), dice)
                options[name] = tuple(value for value in values if value in offered)
    return _Item(asin, brand, kind, attributes, options)


def _product(item: _Item, dice: Dice) -> Record:
    """The product's record in the file of items."""
    kind = item.kind
    bullets = [_sentence(attribute, dice) for attribute in item.attributes]
    opening = dice.one_of(_OPENINGS).format(name=kind.name, brand=item.brand, use=dice.one_of(_USES))
    description = " ".join([opening, *(_sentence(attribute, dice) for attribute in _distinct(item.attributes, 2, dice))])
    return {
        "asin": item.asin,
        "name": _title(item, dice),
        "category": kind.category,
        "query": kind.query,
        "product_category": kind.path,
        "full_description": "" if dice.chance(_NO_DESCRIPTION) else description,
        "small_description": bullets,
        "pricing": _pricing(kind.prices, dice),
        "customization_options": {name: [{"value": value} for value in values] for name, values in item.options.items()},
    }


def _title(item: _Item, dice: Dice) -> str:
    """Brand, kind, two attributes and perhaps an option value, such as `Belaro Lightweight Backpack with Usb Port, Red`."""
    first, second = item.attributes[:2]
    if first.has:
        first, second = second, first
    name, one, two = (text.title() for text in (item.kind.name, first.text, second.text))
    title = f"{item.brand} {name} with {one}, {two}" if first.has else f"{item.brand} {one} {name}"
    if not first.has:
        title += f" with {two}" if second.has else f", {two}"
    if item.options and dice.chance(_VALUE_IN_TITLE):
        title += f", {dice.one_of(dice.one_of(tuple(item.options.values())))}"
    return title


def _pricing(between: tuple[int, int], dice: Dice) -> str:
    """A price, two prices, or none; low prices are more frequent."""
    low, high = between
    price = low + int((high - low) * dice.below(1000) ** 2 / 1e6) + dice.one_of(_CENTS)
    dearer = price + 1 + dice.below(max(2, int(price * 0.4)))
    if dice.chance(_NO_PRICE):
        return ""
    return f"${price:,.2f}${dearer:,.2f}" if dice.chance(_TWO_PRICES) else f"${price:,.2f}"


def _sentence(attribute: Attribute, dice: Dice) -> str:
    return dice.one_of(_HAS if attribute.has else _IS).format(attribute=attribute.text, use=dice.one_of(_USES))


def _note(item: _Item, dice: Dice) -> Record:
    """The product's attributes and the instruction of its synthetic goals, if it has any."""
    attributes = [attribute.text for attribute in item.attributes]
    asked = [attribute.text for attribute in _asked(item, dice)]
    if dice.chance(_NO_SYNTHETIC_REQUEST):
        return {"attributes": attributes, "instruction": None, "instruction_attributes": None}
    request = _SYNTHETIC_REQUEST.format(attributes=", ".join(asked), query=item.kind.query, use=dice.one_of(_USES))
    return {"attributes": attributes, "instruction": request, "instruction_attributes": asked}


def _wishes(item: _Item, count: int, dice: Dice) -> list[Record]:
    """What people ask for; no two of the same words as long as there is enough to ask for."""
    wishes: dict[str, Record] = {}
    surplus: list[Record] = []
    for _ in range(count * _TRIES):
        wish = _wish(item, dice)
        if wish["instruction"] in wishes:
            surplus.append(wish)
        wishes.setdefault(wish["instruction"], wish)
        if len(wishes) == count:
            break
    return [*wishes.values(), *surplus][:count]


def _wish(item: _Item, dice: Dice) -> Record:
    """One attribute or two and some of the options, in one of several wordings."""
    asked = _asked(item, dice)
    chosen = {name.lower(): dice.one_of(values) for name, values in item.options.items() if dice.chance(_OPTION_ASKED)}
    values = {name: value.replace("/", " | ").lower() for name, value in chosen.items()}
    before, each, between = dice.one_of(_OPTION_REQUESTS)
    options = between.join(each.format(option=name, value=value) for name, value in values.items())
    article, listed = item.kind.article, ", ".join(attribute.text for attribute in asked)
    is_, has = ("are", "have") if article == "some" and item.kind.name.endswith("s") else ("is", "has")
    request = dice.one_of(_REQUESTS).format(
        article=_article(article, item.kind.name),
        name=item.kind.name,
        clause=" and ".join(f"{has if attribute.has else is_} {attribute.text}" for attribute in asked),
        qualified=f"{_article(article, listed)} {listed}",
        options=before + options if options else "",
    )
    return {
        "asin": item.asin,
        "instruction": request,
        "instruction_attributes": [attribute.text for attribute in asked],
        "instruction_options": list(values.values()),
    }


def _asked(item: _Item, dice: Dice) -> tuple[Attribute, ...]:
    """One or two of the product's attributes."""
    told, untold = item.attributes[:2], item.attributes[2:]
    first = dice.one_of(told if dice.chance(_TITLE_FIRST) else untold)
    others = tuple(attribute for attribute in item.attributes if attribute != first)
    return (first, dice.one_of(others)) if dice.chance(_TWO_ATTRIBUTES) else (first,)


def _article(article: str, following: str) -> str:
    return "an" if article == "a" and following[0] in "aeio" else article


def _distinct(items: Sequence[T], count: int, dice: Dice) -> tuple[T, ...]:
    """So many different items, or all where there are not more, in random order."""
    rest = list(items)
    return tuple(rest.pop(dice.below(len(rest))) for _ in range(min(count, len(rest))))
