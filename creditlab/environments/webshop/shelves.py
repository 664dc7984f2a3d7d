"""Where a catalogue's products stand: in memory or, in `store.py`, on disk; and a product as a line of JSON."""

from __future__ import annotations

import json
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from typing import Any, overload

from creditlab.environments.webshop.records import HumanInstruction, Product

_FIELDS = tuple(field.name for field in fields(Product))


class Shelf(Sequence[Product]):
    """Products in file order, with what prices and goals need to know of all of them."""

    @abstractmethod
    def position(self, asin: str) -> int:
        """Where the product with an id stands; raises KeyError where there is none."""

    @abstractmethod
    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        """The id and the one or two prices of each product, in order."""

    @abstractmethod
    def wished(self) -> Iterator[Product]:
        """The products for which people wrote instructions, in order."""

    @abstractmethod
    def synthetic_goals(self) -> int:
        """Number of synthetic goals of all products."""


class ListedShelf(Shelf):
    """Products in memory."""

    def __init__(self, products: Sequence[Product]) -> None:
        self._products = products

    def __len__(self) -> int:
        return len(self._products)

    @overload
    def __getitem__(self, index: int) -> Product: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...
    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        return self._products[index]

    def position(self, asin: str) -> int:
        return self._positions[asin]

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        return ((product.asin, product.pricing) for product in self._products)

    def wished(self) -> Iterator[Product]:
        return (product for product in self._products if product.human)

    def synthetic_goals(self) -> int:
        return sum(map(goal_count, self._products))

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {product.asin: position for position, product in enumerate(self._products)}


def goal_count(product: Product) -> int:
    """Number of synthetic goals of a product: the combinations of its option values, if it has an instruction."""
    return 0 if product.instruction is None else math.prod(map(len, product.options.values()))


def pack(product: Product) -> str:
    """A product as one line of ASCII JSON, the same for equal products only."""
    return json.dumps([getattr(product, name) for name in _FIELDS], default=_wish_fields) + "\n"


def unpack(line: str) -> Product:
    """The product that `pack` wrote."""
    found = dict(zip(_FIELDS, json.loads(line), strict=True))
    for name in ("bullets", "pricing", "attributes", "instruction_attributes"):
        found[name] = tuple(found[name])
    found["options"] = {name: tuple(values) for name, values in found["options"].items()}
    found["human"] = tuple(HumanInstruction(text, tuple(wanted), tuple(chosen)) for text, wanted, chosen in found["human"])
    return Product(**found)


def _wish_fields(wish: HumanInstruction) -> list[Any]:
    return [wish.instruction, wish.attributes, wish.options]
