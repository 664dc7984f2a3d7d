"""The products of a shop, read from the three official files of WebShop or from records in their schema."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from creditlab.environments.webshop.parsing import Names, ProductReader
from creditlab.environments.webshop.records import Product
from creditlab.environments.webshop.shelves import ListedShelf, Shelf, pack
from creditlab.environments.webshop.store import open_store
from creditlab.environments.webshop.streaming import ADVICE, Progress, list_entries, object_entries
from creditlab.limits import user_path

DATA_VARIABLE = "WEBSHOP_DATA"
_DEFAULT_DATA = "~/.cache/webshop"
_OFFICIAL = (
    ("items_shuffle_1000.json", "items_ins_v2_1000.json"),
    ("items_shuffle.json", "items_ins_v2.json"),
    ("items.json", "items_ins.json"),
)
"""Files of products and of their attributes that belong together; a folder with several sets gives the first, as the
original's server does."""
_HUMAN = "items_human_ins.json"
STORED_FROM = 1 << 24
"""Bytes of an items file from which its products are kept on disk; the small official set has about 5 million."""


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
        return self.products[self.shelf.position(asin)]

    @cached_property
    def shelf(self) -> Shelf:
        """The products, with what prices and goals need to know of all of them."""
        return self.products if isinstance(self.products, Shelf) else ListedShelf(self.products)


def data_place(where: str = "auto") -> Path:
    """Where official files are looked for, whether or not they are there."""
    return user_path("env.data", os.environ.get(DATA_VARIABLE) or _DEFAULT_DATA if where == "auto" else where)


def find_data(where: str) -> Names:
    """The official files in a folder, beside an items file, or, for `auto`, where `$WEBSHOP_DATA` says.

    Raises ValueError with what was looked for and where.
    """
    place = data_place(where)
    folder = place.parent if place.is_file() else place
    sets = [names for names in _OFFICIAL if place.is_dir() or place.name == names[0]]
    found = next((names for names in sets if (folder / names[0]).is_file()), None)
    if found is None:
        listed = ", ".join(items for items, _ in _OFFICIAL)
        hint = f"set ${DATA_VARIABLE} to" if where == "auto" else "give"
        raise ValueError(
            f"env.data: no products at {place}; {hint} a folder that holds one of {listed}, or one of these files"
        )
    for name in (found[1], _HUMAN):
        if not (folder / name).is_file():
            raise ValueError(
                f"env.data: {folder / found[0]} needs {name} beside it; download it from where that one came from"
            )
    return Names(*(str(folder / name) for name in (*found, _HUMAN)))


def load_catalogue(
    files: Names, limit: int | None = None, *, cache: Path, stored_from: int = STORED_FROM, progress: Progress | None = None
) -> Catalogue:
    """The catalogue of three official files; a large one is stored in the folder `cache` and its products are read on demand.

    `limit` takes the first records only. Raises ValueError that names the file and the product that is malformed.
    """
    if Path(files.items).stat().st_size >= stored_from:
        stored = open_store(files, cache, limit, progress)
        return Catalogue(files.items, stored.products, stored.skipped, stored.digest)
    attributes, human = (dict(object_entries(Path(file))) for file in (files.attributes, files.human))
    records = list_entries(Path(files.items), progress)
    return _gathered(files.items, ProductReader(files, attributes, human), islice(records, limit))


def read_catalogue(
    items: Sequence[Any], attributes: Mapping[str, Any], human: Mapping[str, Any], source: str, limit: int | None = None
) -> Catalogue:
    """The catalogue of records in the official schema: products, notes by id and human instructions by id.

    `limit` takes the first records only. Raises ValueError that names the part and the product that is malformed.
    """
    names = Names(f"{source}, items", f"{source}, attributes", f"{source}, human instructions")
    return _gathered(source, ProductReader(names, attributes, human), islice(items, limit))


def _gathered(source: str, reader: ProductReader, records: Iterable[Any]) -> Catalogue:
    digest, products = hashlib.sha256(), []
    for product in reader.products(records):
        digest.update(pack(product).encode())
        products.append(product)
    if not products:
        raise ValueError(f"{reader.names.items}: there is no product in it; {ADVICE}")
    return Catalogue(source, tuple(products), dict(reader.skipped), digest.hexdigest())
