"""The products of a shop, read from the three official files of WebShop or from records in their schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from creditlab.environments.webshop.parsing import Names, ProductReader
from creditlab.environments.webshop.records import Product


@dataclass(frozen=True)
class Catalogue:
    """Products in file order, and how many entries of the files were left out for which reason."""

    source: str
    products: Sequence[Product]
    skipped: Mapping[str, int]
    digest: str
    """SHA-256 over the products and their order."""

    def __len__(self) -> int:
        return len(self.products)

    def get(self, asin: str) -> Product:
        """The product with an id; raises KeyError where there is none."""
        return self.products[self._positions[asin]]

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {product.asin: position for position, product in enumerate(self.products)}


def read_catalogue(
    items: Sequence[Any], attributes: Mapping[str, Any], human: Mapping[str, Any], source: str, limit: int | None = None
) -> Catalogue:
    """The catalogue of records in the official schema: products, notes by id and human instructions by id.

    `limit` takes the first records only. Raises ValueError that names the part and the product that is malformed.
    """
    names = Names(f"{source}, items", f"{source}, attributes", f"{source}, human instructions")
    reader = ProductReader(names, attributes, human)
    return _gathered(source, reader, iter(islice(items, limit)))


def _gathered(source: str, reader: ProductReader, records: Iterator[Any]) -> Catalogue:
    digest, products = hashlib.sha256(), []
    for product in reader.products(records):
        digest.update(pack(product).encode())
        products.append(product)
    return Catalogue(source, tuple(products), dict(reader.skipped), digest.hexdigest())


def pack(product: Product) -> str:
    """A product as one line of ASCII JSON, equal for equal products only."""
    return json.dumps([getattr(product, name) for name in Product.__slots__], default=_human) + "\n"


def _human(wish: Any) -> list[Any]:
    return [wish.instruction, wish.attributes, wish.options]
