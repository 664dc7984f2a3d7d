"""Goals, prices and splits: equal to the recorded server's in every field, and rule by rule."""

from __future__ import annotations

import json
import lzma
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.webshop import goals as goals_module
from creditlab.environments.webshop.catalogue import Catalogue, find_data, load_catalogue
from creditlab.environments.webshop.goals import Mode, draw_prices, human_goals, server_goals, split, synthetic_goals
from creditlab.environments.webshop.records import Goal, HumanInstruction, Product
from tests.conftest import data_path

TABLE = Product(
    asin="B00TABLE01",
    name="Oak Table",
    category="furniture",
    query="side tables",
    product_category="Home › Tables",
    description="A table.",
    bullets=("Solid",),
    pricing=(20.0,),
    price_tag="$20.0",
    options={"size": ("s", "m"), "color": ("oak", "ash", "oak")},
    attributes=("solid wood",),
    instruction="find a table",
    instruction_attributes=("solid wood", "round"),
    human=(HumanInstruction("..a table...", ("round",), ("oak",)), HumanInstruction("no goal", (), ("oak",))),
)


def shop(*products: Product) -> Catalogue:
    return Catalogue("shop", products, {}, "")


def as_recorded(goal: Goal) -> dict[str, Any]:
    """The goal under the names of the recorded server, which knows synthetic options by name and human ones by value."""
    named = goal.option_names is not None
    return {
        "asin": goal.asin,
        "category": goal.category,
        "query": goal.query,
        "name": goal.name,
        "product_category": goal.product_category,
        "instruction_text": goal.instruction,
        "attributes": list(goal.attributes),
        "price_upper": goal.price_upper,
        "goal_options": dict(zip(goal.option_names or (), goal.options, strict=True)) if named else list(goal.options),
        "weight": goal.weight,
    }


@pytest.mark.parametrize(("mode", "count"), [("human", 274), ("synthetic", 1565)])
def test_goals_and_prices_equal_the_recorded_ones_in_every_field(mode: Mode, count: int, tmp_path: Any) -> None:
    recorded = json.loads(lzma.decompress(data_path("webshop", "goals.json.xz").read_bytes()))
    catalogue = load_catalogue(find_data(str(data_path("webshop"))), cache=tmp_path)
    goals, prices = server_goals(catalogue, mode, seed=5)
    assert len(goals) == count
    assert list(map(as_recorded, goals)) == recorded["goals"][mode]
    assert prices == recorded["prices"][mode]
    assert list(prices) == [product.asin for product in catalogue.products]
    assert [list(goal.option_names or ()) for goal in goals] == [
        list(goal["goal_options"]) if mode == "synthetic" else [] for goal in recorded["goals"][mode]
    ]


def test_another_seed_draws_other_bounds_and_another_shuffle_another_order() -> None:
    products = [replace(TABLE, asin=f"B{number}", pricing=(10.0, 90.0)) for number in range(20)]
    goals, prices = server_goals(shop(*products), "human", 1)
    again, same_prices = server_goals(shop(*products), "human", 1)
    assert (goals, prices) == (again, same_prices)
    others, other_prices = server_goals(shop(*products), "human", 2)
    assert [goal.asin for goal in others] == [goal.asin for goal in goals]
    assert all(prices[asin] != other_prices[asin] for asin in prices)
    shuffled, _ = server_goals(shop(*products), "human", 1, shuffle=7)
    assert shuffled != goals
    assert sorted(map(repr, shuffled)) == sorted(map(repr, goals))


@given(st.floats(0, 1100), st.integers(0, 10**6))
@settings(max_examples=200, deadline=None)
def test_the_bound_is_the_second_to_fourth_of_the_next_multiples_of_ten(price: float, seed: int) -> None:
    (goal,) = human_goals(shop(TABLE), {TABLE.asin: price}, Random(seed))
    above = [bound for bound in range(10, 1000, 10) if bound > price][:4]
    if len(above) < 2:
        assert (goal.price_upper, goal.instruction) == (1e6, "a table")
    else:
        assert goal.price_upper in above[1:]
        assert goal.instruction == f"a table, and price lower than {goal.price_upper:.2f} dollars"


@pytest.mark.parametrize(
    ("price", "bounds"), [(970.0, {990.0}), (979.99, {990.0}), (980.0, {1e6}), (20.0, {40.0, 50.0, 60.0})]
)
def test_bounds_near_the_end_of_the_range(price: float, bounds: set[float]) -> None:
    drawn = {human_goals(shop(TABLE), {TABLE.asin: price}, Random(seed))[0].price_upper for seed in range(60)}
    assert drawn == bounds


def test_prices_lie_between_the_two_of_a_product() -> None:
    products = (replace(TABLE, asin="A", pricing=(5.0, 7.0)), TABLE, replace(TABLE, asin="C", pricing=(7.0, 5.0)))
    prices = draw_prices(shop(*products), Random(3))
    assert list(prices) == ["A", TABLE.asin, "C"]
    assert prices[TABLE.asin] == 20.0
    same = Random(3)  # one draw for each product with two prices, in file order, and none for the others
    assert (prices["A"], prices["C"]) == (same.uniform(5.0, 7.0), same.uniform(7.0, 5.0))


def test_a_human_goal_asks_for_what_the_person_wrote() -> None:
    (goal,) = human_goals(shop(TABLE), {TABLE.asin: 985.0}, Random(0))
    assert goal == Goal(
        "B00TABLE01", "furniture", "side tables", "Oak Table", "Home › Tables", "a table", ("round",), 1e6, ("oak",)
    )
    assert (goal.option_names, goal.weight) == (None, 1.0)


def test_synthetic_goals_are_the_combinations_of_options_by_sorted_names() -> None:
    plain = replace(TABLE, asin="P", options={}, instruction_attributes=("round",))
    silent = replace(TABLE, asin="S", instruction=None)
    unsold = replace(TABLE, asin="U", options={"size": (), "color": ("oak",)})
    goals = synthetic_goals(shop(TABLE, silent, unsold, plain), dict.fromkeys(("B00TABLE01", "P", "U"), 990.0), Random(0))
    assert [goal.options for goal in goals] == [
        ("oak", "s"), ("oak", "m"), ("ash", "s"), ("ash", "m"), ("oak", "s"), ("oak", "m"), (),
    ]  # fmt: skip
    assert [goal.option_names for goal in goals] == [("color", "size")] * 6 + [()]
    assert goals[0].instruction == "find a table with color: oak, and size: s"
    assert goals[-1].instruction == "find a table"
    # `solid wood` is asked for by 6 goals, `round` by 7
    assert [goal.weight for goal in goals] == pytest.approx([(1 / 6 + 1 / 7) / 2] * 6 + [1 / 7], rel=1e-15)


def test_one_bound_holds_for_all_synthetic_goals_of_a_product() -> None:
    goals = synthetic_goals(shop(TABLE), {TABLE.asin: 20.0}, Random(0))
    assert len({goal.price_upper for goal in goals}) == 1
    assert goals[0].instruction.endswith(f"size: s, and price lower than {goals[0].price_upper:.2f} dollars")


def test_an_instruction_without_attributes_is_an_error_that_names_the_product() -> None:
    with pytest.raises(ValueError, match=r"^shop: product B00TABLE01 has an instruction, but no `instruction_attributes`"):
        synthetic_goals(shop(replace(TABLE, instruction_attributes=())), {TABLE.asin: 20.0}, Random(0))


def test_a_catalogue_without_goals_is_an_error() -> None:
    silent = shop(replace(TABLE, human=TABLE.human[1:], instruction=None))
    for mode in ("human", "synthetic"):
        with pytest.raises(ValueError, match=f"^shop: there is no {mode} goal in it; take the other env.goals"):
            server_goals(silent, mode, 0)


def test_more_synthetic_goals_than_fit_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(goals_module, "MOST_GOALS", 6)
    assert len(synthetic_goals(shop(TABLE), {TABLE.asin: 20.0}, Random(0))) == 6
    huge = replace(TABLE, asin="H", options={str(number): tuple("abcdefghij") for number in range(30)})
    with pytest.raises(
        ValueError, match=rf"have {10**30} synthetic goals, more than 6; take fewer products \(env.limit\) or env.goals=human"
    ):
        synthetic_goals(shop(huge), {"H": 20.0}, Random(0))


def numbered(count: int) -> list[Goal]:
    (goal,) = human_goals(shop(TABLE), {TABLE.asin: 985.0}, Random(0))
    return [replace(goal, instruction=f"goal {number}", attributes=(f"quality {number}",)) for number in range(count)]


@pytest.mark.parametrize(
    ("count", "held_out"), [(6910, 500), (1565, 500), (1000, 500), (999, 499), (274, 137), (1, 0), (0, 0)]
)
def test_the_first_500_goals_are_held_out_and_never_more_than_half(count: int, held_out: int) -> None:
    assert split(numbered(count)) == (tuple(range(held_out, count)), tuple(range(held_out)))


def test_another_number_of_held_out_goals() -> None:
    assert split(numbered(20), held_out=3) == (tuple(range(3, 20)), (0, 1, 2))


def test_what_is_asked_for_twice_stands_in_one_split_only() -> None:
    first, *others = numbered(6)
    pair = replace(first, attributes=("round", "heavy"), options=("oak", "large"), instruction="a pair")
    turned = replace(pair, attributes=("heavy", "round"), options=("large", "oak"), instruction="turned", price_upper=50.0)
    same_words = replace(others[-1], asin="ANOTHER", instruction=first.instruction)
    goals = [first, pair, *others[:2], turned, same_words, replace(first, instruction="in other words"), others[3]]
    assert split(goals, held_out=3) == ((3, 7), (0, 1, 2))


def test_a_named_option_is_another_one_than_the_same_value_of_another_name() -> None:
    (goal, *_) = numbered(1)
    one, other = (replace(goal, instruction=name, options=("oak",), option_names=(name,)) for name in ("top", "legs"))
    assert split([one, other, replace(one, instruction="again")], held_out=1) == ((1,), (0,))
