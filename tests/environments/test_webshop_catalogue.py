"""Catalogues of the official files: rules of the schema, malformed files by name, and where the files are looked for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from webshop_files import ITEM, NOTES, TABLE, WISH, golden_files, item, read, write

from creditlab.environments.webshop.catalogue import DATA_VARIABLE, find_data, load_catalogue, read_catalogue
from creditlab.environments.webshop.parsing import Names


def test_a_record_becomes_a_product_by_the_rules_of_the_schema() -> None:
    catalogue = read(ITEM)
    assert list(catalogue.products) == [TABLE]
    assert catalogue.get("B00TABLE01") is catalogue.products[0]
    assert (len(catalogue), dict(catalogue.skipped), catalogue.source) == (1, {}, "shop")
    with pytest.raises(KeyError):
        catalogue.get("B00TABLE02")


@pytest.mark.parametrize(
    ("pricing", "prices", "tag"),
    [
        ("$41.74$59.39", (41.74, 59.39), "$41.74 to $59.39"),
        ("$1,329.42", (1329.42,), "$1329.42"),
        ("from $5 to $7.50", (5.0, 7.5), "$5.0 to $7.5"),
        ("$3.00$2.00$1.00", (3.0, 2.0), "$3.0 to $2.0"),
        ("$0", (0.0,), "$0.0"),
        ("", (100.0,), "$100.0"),
        (None, (100.0,), "$100.0"),
    ],
)
def test_prices_are_what_follows_a_dollar_sign(pricing: str | None, prices: tuple[float, ...], tag: str) -> None:
    (product,) = read(item(pricing=pricing)).products
    assert (product.pricing, product.price_tag) == (prices, tag)


def test_a_product_without_a_price_key_costs_100_dollars() -> None:
    (product,) = read({key: value for key, value in ITEM.items() if key != "pricing"}).products
    assert (product.pricing, product.price_tag) == ((100.0,), "$100.0")


@pytest.mark.parametrize(
    ("given_options", "options"),
    [
        (None, {}),
        ({}, {}),
        ({"Size": None, "COLOR": [{"value": "A/B/C"}]}, {"color": ("a | b | c",)}),
        ({"Size": [], "Style": [{"value": "x"}, {"value": " X"}]}, {"size": (), "style": ("x", "x")}),
        ({"Size": [{"value": "S"}], "b": [{"value": "1"}], "size": [{"value": "L"}]}, {"size": ("l",), "b": ("1",)}),
        ({"Pack": [{"value": "2 / "}]}, {"pack": ("2  | ",)}),
    ],
)
def test_options_are_lower_case_in_their_order_and_slashes_become_bars(given_options: Any, options: Any) -> None:
    (product,) = read(item(customization_options=given_options)).products
    assert list(product.options.items()) == list(options.items())


def test_texts_in_place_of_lists_and_products_without_notes() -> None:
    (product,) = read(item(small_description="One text"), notes={}, wishes=[]).products
    assert product.bullets == ("One text",)
    assert product.attributes == ("DUMMY_ATTR",)  # as the original's attributes page shows
    assert (product.instruction, product.instruction_attributes, product.human) == (None, (), ())
    (bare,) = read_catalogue([ITEM], {}, {}, "shop").products
    assert bare.attributes == ("DUMMY_ATTR",)
    (silent,) = read(ITEM, notes={"attributes": [], "instruction": None, "instruction_attributes": None}).products
    assert (silent.attributes, silent.instruction, silent.instruction_attributes) == ((), None, ())


def test_what_the_original_leaves_out_is_counted() -> None:
    unasked = {**WISH, "instruction_attributes": []}
    catalogue = read_catalogue(
        [ITEM, item(name="Second"), item(asin="nan"), item(asin="B00TABLE0123"), item(asin="nan")],
        {"B00TABLE01": NOTES, "B00TABLE99": 3},
        {"B00TABLE01": [unasked, WISH, unasked], "nan": None},
        "shop",
    )
    assert [product.name for product in catalogue.products] == ["Oak Table"]
    assert catalogue.skipped == {
        "products with an id that occurred before": 1,
        "products with an id of more than 10 characters": 1,
        "products with the id nan": 2,
        "human instructions without attributes, which are no goals": 2,
        "instructions for products that are not in the catalogue": 2,
    }


def test_a_skipped_record_is_not_looked_at_and_the_limit_counts_records() -> None:
    broken = {"asin": "nan", "name": 3}
    assert len(read(broken, ITEM, item(asin="B00TABLE02"))) == 2
    assert [product.asin for product in read(broken, ITEM, item(asin="B00TABLE02"), limit=2).products] == ["B00TABLE01"]


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in ITEM.items() if name != key}


MALFORMED: list[tuple[Callable[[], Any], str]] = [
    *((lambda key=key: read(without(key)), rf"shop, items: record 1 \(product 'B00TABLE01'\) has no `{key}`")
      for key in ITEM if key not in ("asin", "pricing", "images")),
    (lambda: read(ITEM, without("asin")), "shop, items: record 2 has no `asin`"),
    (lambda: read(item(asin=5)), "record 1 has the number 5 for `asin`, no text"),
    (lambda: read([ITEM]), "record 1 is a list, no object"),
    (lambda: read(None), "record 1 is null, no object"),
    (lambda: read(item(name=None)), "'B00TABLE01'.* has null for `name`, no text"),
    (lambda: read(item(query=["a"])), "has a list for `query`"),
    (lambda: read(item(full_description=float("nan"))), "has the number nan for `full_description`"),
    (lambda: read(item(small_description=["a", None])), "has null in `small_description`"),
    (lambda: read(item(small_description={})), "has an object for `small_description`"),
    (lambda: read(item(name="half \ud83d")), "has half a character in `name`"),
    (lambda: read(item(pricing="12.50")), "the price '12.50' without a dollar sign"),
    (lambda: read(item(pricing="$cheap")), r"the price '\$cheap', which is no number of dollars"),
    (lambda: read(item(pricing="$1.2.3")), "which is no number of dollars"),
    (lambda: read(item(pricing=f"${'9' * 400}")), "which is no number of dollars"),
    (lambda: read(item(pricing=12.5)), "has the number 12.5 for `pricing`"),
    (lambda: read(item(pricing=True)), "has true or false for `pricing`"),
    (lambda: read(item(customization_options=[1])), "has a list for `customization_options`"),
    (lambda: read(item(customization_options={"Size": "s"})), "an option 'Size' that is no list of objects"),
    (lambda: read(item(customization_options={"Size": [3]})), "an option 'Size' that is no list of objects"),
    (lambda: read(item(customization_options={"Size": [{"image": None}]})), "option 'Size' with a value that has no `value`"),
    (lambda: read(item(customization_options={"Size": [{"value": 3}]})), "option 'Size' with a value that has the number 3"),
    (lambda: read(ITEM, notes=[]), "shop, attributes: product 'B00TABLE01' is a list"),
    (lambda: read(ITEM, notes={"attributes": "soft"}), "shop, attributes: product 'B00TABLE01' has a text for `attributes`"),
    (lambda: read(ITEM, notes={"attributes": None}), "has null for `attributes`"),
    (lambda: read(ITEM, notes={**NOTES, "instruction": 1}), "has the number 1 for `instruction`"),
    (lambda: read(ITEM, notes={**NOTES, "instruction_attributes": [1]}), "has the number 1 in `instruction_attributes`"),
    (lambda: read(ITEM, wishes={}), "shop, human instructions: product 'B00TABLE01' is an object, no list"),
    (lambda: read(ITEM, wishes=(WISH, 3)), "product 'B00TABLE01' instruction 2 is the number 3"),
    (lambda: read(ITEM, wishes=({**WISH, "instruction_options": None},)), "instruction 1 has null for `instruction_options`"),
    (lambda: read(ITEM, wishes=({},)), "instruction 1 has no `instruction`"),
    (lambda: read(), "shop, items: there is no product in it"),
]  # fmt: skip


@pytest.mark.parametrize(("malformed", "message"), MALFORMED)
def test_a_malformed_record_is_one_error_that_names_part_and_product(malformed: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        malformed()
    assert str(caught.value).endswith("; correct the file or download it again")
    assert "\n" not in str(caught.value)


FILES: list[tuple[bytes, str]] = [
    (b"", "no JSON file that holds a list of products"),
    (b'{"a": 1}', "no JSON file that holds a list of products"),
    (b"[]", "there is no product in it"),
    (json.dumps([ITEM, ITEM]).encode()[:-30], "entry 2 is no valid JSON: the file ends in the middle of it"),
    (json.dumps([ITEM, ITEM]).encode()[:-1], "entry 2 is no valid JSON: the file ends after it"),
    (json.dumps([ITEM]).encode()[:-1] + b",]", "entry 2 is no valid JSON: Expecting value"),
    (json.dumps([ITEM]).encode() + b"x", "something follows the end of the JSON text"),
    (b'[{"asin" 3}]', "entry 1 is no valid JSON: Expecting ':' delimiter, before '3}\\]'"),
    (b'[{"asin": "a", "asin": "b"}]', "entry 1 is no valid JSON: the key 'asin' appears twice"),
    (b'[{"name": "caf\xe9"}]', "there is no UTF-8 in or soon after"),
    (b"[" * 200_000, "entry 1 is no valid JSON: it is nested too deeply"),
    (b'[{"asin": 1' + b"0" * 5000 + b"}]", "entry 1 is no valid JSON: Exceeds the limit"),
    (json.dumps([item(name=float("inf"))]).encode(), "record 1 .* the number inf for `name`"),
]


@pytest.mark.parametrize(("content", "message"), FILES)
@pytest.mark.parametrize("stored_from", [0, 1 << 30], ids=["stored", "in memory"])
def test_a_damaged_file_is_one_error_that_names_it(content: bytes, message: str, stored_from: int, tmp_path: Path) -> None:
    files = write(tmp_path, content)
    with pytest.raises(ValueError, match=message) as caught:
        load_catalogue(files, cache=tmp_path / "cache", stored_from=stored_from)
    assert str(tmp_path / "items.json") in str(caught.value)
    assert not list(tmp_path.glob("cache/*catalogue-*/"))


def test_damage_in_the_other_files_names_them(tmp_path: Path) -> None:
    twice = b'{"B00TABLE01": {}, "B00TABLE01": {}}'
    for position, content, message in (
        (1, twice, r"items_ins.json: entry 2 \('B00TABLE01'\) is no valid JSON: its key appears twice"),
        (1, b"{1: 2}", "items_ins.json: entry 1 .* its key is no text"),
        (1, b"[]", "items_ins.json is no JSON file that holds an object"),
        (2, b'{"B00TABLE01": [', r"items_human_ins.json: entry 1 \('B00TABLE01'\) is no valid JSON"),
        (2, b'{"B00TABLE01": 7}', "items_human_ins.json: product 'B00TABLE01' is the number 7"),
    ):
        contents: list[Any] = [[ITEM], {}, {}]
        contents[position] = content
        files = write(tmp_path, *contents)
        for stored_from in (0, 1 << 30):
            with pytest.raises(ValueError, match=message):
                load_catalogue(files, cache=tmp_path / "cache", stored_from=stored_from)


def test_fields_that_nobody_reads_may_hold_anything(tmp_path: Path) -> None:
    files = write(tmp_path, [item(average_rating=float("nan"), images=None)])
    assert [product.name for product in load_catalogue(files, cache=tmp_path).products] == ["Oak Table"]


def test_the_digest_changes_with_every_field_that_matters() -> None:
    """And with the order of products, but with nothing that the shop does not read."""
    changes: list[dict[str, Any]] = [
        {"name": "x"}, {"category": "x"}, {"query": "x"}, {"product_category": "x"}, {"full_description": "x"},
        {"small_description": []}, {"pricing": "$1"}, {"customization_options": {}}, {"asin": "B00TABLE02"},
    ]  # fmt: skip
    digests = [read(item(**change)).digest for change in changes]
    digests += [read(ITEM, notes={**NOTES, key: []}).digest for key in ("attributes", "instruction_attributes")]
    digests += [read(ITEM, notes={**NOTES, "instruction": "x"}).digest, read(ITEM, wishes=()).digest, read(ITEM).digest]
    other = item(asin="B00TABLE02")
    digests += [read(ITEM, other).digest, read(other, ITEM).digest]
    assert len(set(digests)) == len(digests)
    assert read(item(images=[], brand="x")).digest == read(ITEM).digest


def test_the_golden_files_hold_300_products(tmp_path: Path) -> None:
    catalogue = load_catalogue(golden_files(), cache=tmp_path)
    assert len(catalogue) == 300
    assert catalogue.skipped == {
        "products with an id that occurred before": 1,
        "products with an id of more than 10 characters": 1,
        "products with the id nan": 1,
        "human instructions without attributes, which are no goals": 24,
    }
    assert not list(tmp_path.iterdir())
    first = load_catalogue(golden_files(), 10, cache=tmp_path)
    assert list(first.products) == list(catalogue.products[:10])
    assert first.digest != catalogue.digest


def test_the_official_files_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"env.data: no products at .*; give a folder that holds one of items_shuffle_1000.json,"
    ):
        find_data(str(tmp_path))
    (tmp_path / "items_shuffle.json").touch()
    with pytest.raises(ValueError, match=r"env.data: .*items_shuffle.json needs items_ins_v2.json beside it"):
        find_data(str(tmp_path))
    (tmp_path / "items_ins_v2.json").touch()
    with pytest.raises(ValueError, match=r"needs items_human_ins\.json beside it"):
        find_data(str(tmp_path))
    (tmp_path / "items_human_ins.json").touch()
    large = Names(*(str(tmp_path / name) for name in ("items_shuffle.json", "items_ins_v2.json", "items_human_ins.json")))
    assert find_data(str(tmp_path)) == large
    for name in ("items_shuffle_1000.json", "items_ins_v2_1000.json"):
        (tmp_path / name).touch()
    small = Names(
        *(str(tmp_path / name) for name in ("items_shuffle_1000.json", "items_ins_v2_1000.json", large.human[-20:]))
    )
    assert find_data(str(tmp_path)) == small
    assert find_data(str(tmp_path / "items_shuffle.json")) == large
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path))
    assert find_data("auto") == find_data(f"${DATA_VARIABLE}") == small
    monkeypatch.setenv(DATA_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(ValueError, match=r"no products at .*nowhere; set \$WEBSHOP_DATA to a folder"):
        find_data("auto")
    with pytest.raises(ValueError, match=r"env\.data: no products at .*items_ins_v2\.json"):
        find_data(str(tmp_path / "items_ins_v2.json"))
