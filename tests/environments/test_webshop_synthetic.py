"""The synthetic shop: stable, in the official schema, varied, and with goals that ask for what there is."""

from __future__ import annotations

import json
import re
from collections import Counter

import numpy as np
import pytest
import webshop_synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.webshop.colours import normalise
from creditlab.environments.webshop.expert import BUTTONS, choices
from creditlab.environments.webshop.scorer import alike
from creditlab.environments.webshop.synthetic import synthetic_records
from creditlab.environments.webshop.wordlists import KINDS

CATALOGUE = webshop_synthetic.catalogue(700, 4)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.integers(5, 40), st.integers(5, 40))
def test_a_product_depends_on_seed_and_number_alone(seed: int, some: int, more: int) -> None:
    few, many = (synthetic_records(n, seed, kinds=5) for n in sorted((some, more)))
    assert few[0] == many[0][: len(few[0])]
    for part in (1, 2):
        assert list(few[part].items()) == list(many[part].items())[: len(few[part])]


def test_other_seeds_sell_other_products() -> None:
    first, second = ({item["asin"] for item in synthetic_records(100, seed)[0]} for seed in (0, 1))
    assert not first & second


def test_records_are_what_the_official_files_hold() -> None:
    records = synthetic_records(60, 0)
    assert json.loads(json.dumps(records)) == [*records], "JSON holds them as they are"
    assert len(CATALOGUE) == 700
    assert not CATALOGUE.skipped


def test_ids() -> None:
    asins = [item["asin"] for item in synthetic_records(3000, 9, instructions=1)[0]]
    assert len(set(asins)) == 3000
    assert all(re.fullmatch("B0[A-Z0-9]{8}", asin) for asin in asins)


def test_every_rule_of_the_shop_occurs() -> None:
    products = CATALOGUE.products
    tags = Counter("missing" if p.price_tag == "$100.0" else len(p.pricing) for p in products)
    assert tags[1] > tags[2] > tags["missing"] > 0
    values = {value for p in products for named in p.options.values() for value in named}
    for sign in (" | ", "(", "&", "-", "."):
        assert any(sign in value for value in values), sign
    assert any(value.isdigit() for value in values)
    assert {len(p.options) for p in products} == {0, 1, 2}
    assert 0 < sum(not p.description for p in products) < 70
    assert 0 < sum(p.instruction is None for p in products) < 140
    assert all(len(p.human) == 4 for p in products)
    assert any(max(p.pricing) > 990 for p in products), "some goals have no price bound"
    assert len({p.category for p in products}) == 6


def test_titles_are_short() -> None:
    lengths = [len(p.name.split()) for p in CATALOGUE.products]
    assert 5 <= np.mean(lengths) <= 8
    assert max(lengths) <= 13


def test_instructions_ask_for_what_the_product_has() -> None:
    for product in CATALOGUE.products:
        values = {value for named in product.options.values() for value in named}
        for wish in product.human:
            assert 1 <= len(wish.attributes) <= 2
            assert set(wish.attributes) <= set(product.attributes)
            assert set(wish.options) <= values
            assert all(text in wish.instruction for text in (*wish.attributes, *wish.options))
            assert wish.instruction == wish.instruction.lower()
        if product.instruction is not None:
            assert product.instruction_attributes
            assert set(product.instruction_attributes) <= set(product.attributes)
            assert product.query in product.instruction


def test_people_put_it_in_many_ways() -> None:
    wishes = [wish.instruction for product in CATALOGUE.products for wish in product.human]
    assert len(set(wishes)) > 0.9 * len(wishes)
    assert len({" ".join(wish.split()[:2]) for wish in wishes}) >= 8
    assert all(len({wish.instruction for wish in product.human}) == 4 for product in CATALOGUE.products)


@pytest.mark.parametrize(("products", "kinds", "breadth"), [(60, 6, 5), (700, None, None)])
def test_most_products_of_a_kind_do_not_fit(products: int, kinds: int | None, breadth: int | None) -> None:
    shop, goals = webshop_synthetic.shop(products, 4, kinds, breadth)
    fitting = 0
    compared = 0
    for goal in goals[:150]:
        for product in shop.catalogue.products:
            if product.query == goal.query and product.asin != goal.asin:
                score = shop.score(product, goal, choices(product, goal), shop.prices[product.asin])
                fitting += score.reward == 1.0
                compared += 1
    assert 0 < fitting < 0.45 * compared


def test_kinds_and_breadth() -> None:
    named = synthetic_records(6, 0, kinds=("rug", "sofa"), breadth=3)
    assert Counter(item["query"] for item in named[0]) == {"area rug": 3, "sectional sofa": 3}
    table = {kind.query: kind for kind in KINDS}
    for item in named[0]:
        kind = table[item["query"]]
        assert {*named[1][item["asin"]]["attributes"]} == {attribute.text for attribute in kind.attributes[:3]}
        for name, values in item["customization_options"].items():
            assert {value["value"] for value in values} <= set(kind.options[name][:3])
    assert {item["query"] for item in synthetic_records(6, 0, kinds=3)[0]} == {kind.query for kind in KINDS[:3]}
    assert {item["query"] for item in synthetic_records(len(KINDS), 0)[0]} == set(table)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"products": 3}, "needs at least 35 products, not 3"),
        ({"products": 60, "kinds": 0}, "there are 1 to 35 product kinds, not 0"),
        ({"products": 60, "kinds": 36}, "there are 1 to 35 product kinds, not 36"),
        ({"products": 60, "kinds": ("rug", "cat")}, "unknown product kinds cat; there are backpack"),
        ({"products": 60, "kinds": ("rug", "rug")}, "each named once"),
        ({"products": 60, "kinds": ()}, "each named once"),
        ({"products": 60, "breadth": 2}, "at least 3 attributes and option values to choose from, not 2"),
        ({"products": 60, "instructions": 0}, "at least one instruction, not 0"),
    ],
)
def test_shops_that_cannot_be_made(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        synthetic_records(seed=0, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_the_tables(kind) -> None:
    assert set(kind.name.split()) <= set(kind.query.split()), "the query finds the title"
    assert kind.path.count("›") >= 2, "two shared levels make a category match"
    assert len(kind.attributes) >= 7
    values = [value.replace("/", " | ").lower() for named in kind.options.values() for value in named]
    assert len(set(values)) == len(values), "a click means one option"
    assert not {*values} & {*BUTTONS, "search"}
    for value in values:
        assert normalise(value) == value or normalise(value) in value.split(), "else synthetic goals cannot be met"
    for named in kind.options.values():
        first = [normalise(value.replace("/", " | ").lower()) for value in named[:3]]
        assert not any(alike(one, other) for number, one in enumerate(first) for other in first[:number])


def test_prices_lie_in_their_kinds_range() -> None:
    ranges = {kind.query: kind.prices for kind in KINDS}
    for product in CATALOGUE.products:
        low, high = ranges[product.query]
        if product.price_tag != "$100.0":
            assert low <= product.pricing[0] < high + 1
            assert product.pricing == tuple(sorted(product.pricing))
