"""The official files in small: one record of each kind, the product it becomes, and writing them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from creditlab.environments.webshop.catalogue import Catalogue, find_data, read_catalogue
from creditlab.environments.webshop.parsing import Names
from creditlab.environments.webshop.records import HumanInstruction, Product
from tests.conftest import data_path

NAMES = ("items.json", "items_ins.json", "items_human_ins.json")
ITEM = {
    "asin": "B00TABLE01",
    "name": "Oak Table",
    "category": "furniture",
    "query": " Side Tables ",
    "product_category": "Home › Tables",
    "full_description": "A table.",
    "small_description": ["Solid", "Round"],
    "pricing": "$10.00$1,234.50",
    "customization_options": {"Color": [{"value": " Black/White "}, {"value": "OAK"}], "Size": None},
    "images": ["https://img.example/1.jpg"],
}
NOTES = {"attributes": ["solid wood"], "instruction": "find a table", "instruction_attributes": ["solid wood"]}
WISH = {"instruction": "a table.", "instruction_attributes": ["solid wood"], "instruction_options": ["oak"]}
TABLE = Product(
    asin="B00TABLE01",
    name="Oak Table",
    category="furniture",
    query="side tables",
    product_category="Home › Tables",
    description="A table.",
    bullets=("Solid", "Round"),
    pricing=(10.0, 1234.5),
    price_tag="$10.0 to $1234.5",
    options={"color": ("black | white", "oak")},
    attributes=("solid wood",),
    instruction="find a table",
    instruction_attributes=("solid wood",),
    human=(HumanInstruction("a table.", ("solid wood",), ("oak",)),),
)


def item(**changes: Any) -> dict[str, Any]:
    return {**ITEM, **changes}


def read(*items: Any, notes: Any = NOTES, wishes: Any = (WISH,), limit: int | None = None) -> Catalogue:
    wishes = list(wishes) if isinstance(wishes, tuple) else wishes
    return read_catalogue(list(items), {"B00TABLE01": notes}, {"B00TABLE01": wishes}, "shop", limit)


def write(folder: Path, items: Any, attributes: Any = None, human: Any = None) -> Names:
    """The three files; bytes are written as they are."""
    contents = (items, {"B00TABLE01": NOTES} if attributes is None else attributes, {} if human is None else human)
    for name, content in zip(NAMES, contents, strict=True):
        (folder / name).write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return find_data(str(folder))


def golden_files() -> Names:
    """The three files of the test data; skips the test where they are absent."""
    return find_data(str(data_path("webshop")))
