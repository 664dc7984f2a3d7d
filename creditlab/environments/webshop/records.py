"""What a WebShop is made of: products and shopping goals, and the score of a purchase."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HumanInstruction:
    """One instruction that a person wrote for a product."""

    instruction: str
    attributes: tuple[str, ...]
    """The attributes asked for; an instruction without any is no goal."""
    options: tuple[str, ...]
    """The option values asked for."""


@dataclass(frozen=True, slots=True)
class Product:
    """One product, as the shop shows and scores it."""

    asin: str
    name: str
    """The title."""
    category: str
    query: str
    """The search query under which the product was collected, lower case."""
    product_category: str
    """The category path, levels separated by `›`."""
    description: str
    bullets: tuple[str, ...]
    """The feature list."""
    pricing: tuple[float, ...]
    """One price in dollars, or the two between which it is drawn."""
    price_tag: str
    """The price as the pages show it, such as `$12.5` or `$10.0 to $12.5`."""
    options: Mapping[str, tuple[str, ...]]
    """Option name to its values, both lower case, in the shop's order."""
    attributes: tuple[str, ...]
    instruction: str | None = None
    """The instruction of synthetic goals."""
    instruction_attributes: tuple[str, ...] = ()
    """The attributes that it asks for."""
    human: tuple[HumanInstruction, ...] = ()
    """The instructions of human goals."""


@dataclass(frozen=True, slots=True)
class Goal:
    """What a shopper is asked to buy."""

    asin: str
    """The product that the goal was made from; another one may satisfy it as well."""
    category: str
    query: str
    name: str
    product_category: str
    instruction: str
    """The whole instruction, price bound included."""
    attributes: tuple[str, ...]
    price_upper: float
    """Price bound in dollars, U; 1,000,000 where there is none."""
    options: tuple[str, ...]
    """The option values asked for."""
    option_names: tuple[str, ...] | None = None
    """Their names in a synthetic goal, one per value; a human goal names none."""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Score:
    """The reward of a purchase and its components (WebShop, reward in [0, 1])."""

    reward: float
    r_type: float
    r_att: float
    w_att: float
    query_match: bool
    category_match: bool
    title_score: float
    r_option: float | None
    """None where the goal asks for no option; so is its weight."""
    w_option: float | None
    r_price: bool
    w_price: float
