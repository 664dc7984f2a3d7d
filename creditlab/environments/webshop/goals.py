"""Prices and shopping goals, drawn as the original's server draws them, and their splits.

Every draw is made by Python's own generator in the original's order, so that a seed gives the goals and prices that the
original gives: first the prices between two, in file order, then one price bound for each source of goals, then the shuffle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import product as combinations
from random import Random
from typing import Literal

from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.records import Goal, Product

Mode = Literal["human", "synthetic"]
SHUFFLE_SEED = 233
"""The seed with which the original shuffles its goals."""
HELD_OUT = 500
"""Goals of the evaluation split, the first of the shuffled ones (the field's convention)."""
NO_BOUND = 1_000_000.0
"""Price bound in dollars of a goal that names none."""
MOST_GOALS = 1_000_000
"""Synthetic goals that are made at most, about a gigabyte; the full official set has far more, its 12,000 human goals fit."""
_BOUNDS = tuple(10.0 * step for step in range(1, 100))
_NEAREST = 4


def draw_prices(catalogue: Catalogue, rng: Random) -> dict[str, float]:
    """Dollars by product id; where a product has two prices, one drawn evenly from between them."""
    return {asin: rng.uniform(*pricing) if len(pricing) == 2 else pricing[0] for asin, pricing in catalogue.shelf.pricings()}


def human_goals(catalogue: Catalogue, prices: dict[str, float], rng: Random) -> tuple[Goal, ...]:
    """One goal for each instruction that a person wrote and that asks for attributes, in file order."""
    goals = []
    for product in catalogue.shelf.wished():
        for wish in product.human:
            if wish.attributes:
                upper, text = _bound(prices[product.asin], rng)
                instruction = wish.instruction.strip(".") + text
                goals.append(_goal(product, instruction, wish.attributes, upper, wish.options))
    return tuple(goals)


def synthetic_goals(catalogue: Catalogue, prices: dict[str, float], rng: Random) -> tuple[Goal, ...]:
    """One goal for each product with an instruction and each combination of its option values, in file order.

    An attribute's share in a goal's weight is one over the goals that ask for it. Raises ValueError for more goals than fit
    into memory, and for an instruction that asks for no attribute.
    """
    if (count := catalogue.shelf.synthetic_goals()) > MOST_GOALS:
        raise ValueError(
            f"{catalogue.source}: its products have {count} synthetic goals, more than {MOST_GOALS}; "
            "take fewer products (env.limit) or env.goals=human"
        )
    goals: list[Goal] = []
    for product in catalogue.products:
        if product.instruction is None:
            continue
        if not product.instruction_attributes:
            raise ValueError(
                f"{catalogue.source}: product {product.asin} has an instruction, but no `instruction_attributes`; "
                "give it some, or null in place of the instruction"
            )
        upper, text = _bound(prices[product.asin], rng)
        names = tuple(sorted(product.options))
        for values in combinations(*(product.options[name] for name in names)):
            chosen = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
            instruction = product.instruction + (f" with {chosen}" if chosen else "") + text
            goals.append(_goal(product, instruction, product.instruction_attributes, upper, values, names))
    asked = Counter(attribute for goal in goals for attribute in goal.attributes)
    return tuple(replace(goal, weight=_weight(goal, asked)) for goal in goals)


def server_goals(
    catalogue: Catalogue, mode: Mode, seed: int, shuffle: int = SHUFFLE_SEED
) -> tuple[tuple[Goal, ...], dict[str, float]]:
    """The goals in the server's order, in which its sessions number them, and the prices by product id.

    Raises ValueError where the catalogue has no goal of this kind.
    """
    rng = Random(seed)
    prices = draw_prices(catalogue, rng)
    goals = list((human_goals if mode == "human" else synthetic_goals)(catalogue, prices, rng))
    if not goals:
        raise ValueError(f"{catalogue.source}: there is no {mode} goal in it; take the other env.goals or more products")
    Random(shuffle).shuffle(goals)
    return tuple(goals), prices


def split(goals: Sequence[Goal], held_out: int = HELD_OUT) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers of the training goals and of those held out: the first `held_out`, but never more than half of all.

    A training goal that asks for the same as one held out, in whatever order, words and price, or in the same words, is left
    away, so that the splits never overlap.
    """
    border = min(held_out, len(goals) // 2)
    asked = set(map(_asked, goals[:border]))
    told = {goal.instruction for goal in goals[:border]}
    training = (
        n for n, goal in enumerate(goals) if n >= border and _asked(goal) not in asked and goal.instruction not in told
    )
    return tuple(training), tuple(range(border))


def _asked(goal: Goal) -> tuple[str, frozenset[str], frozenset[tuple[str, str]]]:
    """What a goal asks for: the product it was made from, attributes and options."""
    names = goal.option_names or ("",) * len(goal.options)
    return goal.asin, frozenset(goal.attributes), frozenset(zip(names, goal.options, strict=True))


def _goal(
    product: Product,
    instruction: str,
    attributes: tuple[str, ...],
    upper: float,
    options: tuple[str, ...],
    names: tuple[str, ...] | None = None,
) -> Goal:
    return Goal(
        product.asin,
        product.category,
        product.query,
        product.name,
        product.product_category,
        instruction,
        attributes,
        upper,
        options,
        names,
    )


def _bound(price: float, rng: Random) -> tuple[float, str]:
    """A price bound and the text that asks for it: the larger of two of the next multiples of ten dollars above a price."""
    above = [bound for bound in _BOUNDS if bound > price][:_NEAREST]
    if len(above) < 2:
        return NO_BOUND, ""
    upper = max(rng.sample(above, 2))
    return upper, f", and price lower than {upper:.2f} dollars"


def _weight(goal: Goal, asked: Counter[str]) -> float:
    return sum(1.0 / asked[attribute] for attribute in goal.attributes) / len(goal.attributes)
