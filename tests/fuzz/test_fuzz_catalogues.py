"""Damaged catalogue files of WebShop: loaded with counts of what is left out, or refused by file and product."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fuzzing import Rng, check_message, fuzz
from mutations import ODD_VALUES, damaged, damaged_json, misspelt, pick

from creditlab.environments.webshop.catalogue import Catalogue, find_data, load_catalogue, read_catalogue
from creditlab.environments.webshop.goals import server_goals
from creditlab.environments.webshop.shelves import pack, unpack

NAMES = ("items.json", "items_ins.json", "items_human_ins.json")
PRICES = ("$12.50", "$10.00$12.50", "$1,250.00", "", None)
OPTIONS: tuple[Any, ...] = (
    {"Color": [{"value": "Black/White"}, {"value": "oak "}], "Size": [{"value": "S"}, {"value": "M"}]},
    {"Size": None},
    None,
)
IDS = [f"B00TABLE{number}" for number in range(8)]
ITEMS = [
    {
        "asin": asin,
        "name": f"Table {number}",
        "category": "furniture",
        "query": "side tables",
        "product_category": "Home › Tables",
        "full_description": "A table.",
        "small_description": ["Solid", "Round"] if number % 2 else "Solid",
        "pricing": PRICES[number % len(PRICES)],
        "customization_options": OPTIONS[number % len(OPTIONS)],
    }
    for number, asin in enumerate(IDS)
]
NOTES = {asin: {"attributes": ["solid"], "instruction": "a table", "instruction_attributes": ["solid"]} for asin in IDS}
WISHES = {
    asin: [{"instruction": "a table.", "instruction_attributes": ["round"], "instruction_options": ["s"]}] for asin in IDS
}
WHOLE: tuple[Any, ...] = (ITEMS, NOTES, WISHES)


def sold(catalogue: Catalogue) -> str:
    """What was loaded is whole: it can be written, found and asked for."""
    assert len({product.asin for product in catalogue.products}) == len(catalogue) > 0
    for product in catalogue.products:
        assert unpack(pack(product)) == catalogue.get(product.asin) == product
    for mode in ("human", "synthetic"):
        try:
            goals, prices = server_goals(catalogue, mode, 0)
        except ValueError as error:
            check_message(error, [catalogue.source])
            continue
        assert all(goal.attributes and goal.price_upper > 0 for goal in goals)
        assert len(prices) == len(catalogue)
    return "some left out" if catalogue.skipped else "all loaded"


def test_damaged_files(tmp_path: Path) -> None:
    def make(rng: Rng) -> tuple[int, bytes]:
        """Which file is damaged, and its content."""
        number = int(rng.integers(3))
        if rng.random() < 0.5:
            return number, damaged(json.dumps(WHOLE[number]).encode(), rng)
        return number, damaged_json(WHOLE[number], rng).encode("utf-8", "surrogatepass")

    def check(given: tuple[int, bytes], rng: Rng) -> str:
        for number, name in enumerate(NAMES):
            (tmp_path / name).write_bytes(given[1] if number == given[0] else json.dumps(WHOLE[number]).encode())
        stored_from = 0 if rng.random() < 0.2 else 1 << 30
        try:
            catalogue = load_catalogue(find_data(str(tmp_path)), cache=tmp_path / "cache", stored_from=stored_from)
        except ValueError as error:
            check_message(error, [tmp_path / NAMES[given[0]]])
            return "refused"
        return sold(catalogue)

    fuzz("catalogue files", 200, make, check)


def test_damaged_records() -> None:
    """One field of one record is away, misspelt or of another kind: what is refused is refused by product."""

    def make(rng: Rng) -> tuple[str, tuple[Any, ...]]:
        asin, parts = pick(rng, IDS), [ITEMS, NOTES, WISHES]
        place = IDS.index(asin)
        part = int(rng.integers(3))
        record = dict((ITEMS[place], NOTES[asin], WISHES[asin][0])[part])
        key = pick(rng, sorted(record))
        value = record.pop(key)
        match int(rng.integers(4)):
            case 0:
                record[misspelt(key, rng)] = value
            case 1:
                record[key] = [value, pick(rng, ODD_VALUES)]
            case 2:
                record[key] = pick(rng, ODD_VALUES)
        if part == 0:
            parts[0] = [*ITEMS[:place], record, *ITEMS[place + 1 :]]
        else:
            parts[part] = {**parts[part], asin: record if part == 1 else [record]}  # type: ignore[dict-item]
        return asin, tuple(parts)

    def check(given: tuple[str, tuple[Any, ...]], rng: Rng) -> str:
        asin, parts = given
        try:
            catalogue = read_catalogue(*parts, source="shop")
        except ValueError as error:
            check_message(error, [f"product {asin!r}", f"record {IDS.index(asin) + 1} "])
            return "refused"
        left_out = sum(count for reason, count in catalogue.skipped.items() if reason.startswith("products with"))
        assert len(catalogue) + left_out == len(IDS)
        return sold(catalogue)

    fuzz("catalogue records", 150, make, check)


def test_the_undamaged_catalogue_is_loaded() -> None:
    """Without damage nothing is left out: otherwise the tests above could not fail."""
    assert sold(read_catalogue(*WHOLE, source="shop")) == "all loaded"
