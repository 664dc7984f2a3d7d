"""A shop of three products, made by hand, with goals whose scores can be counted on fingers."""

from __future__ import annotations

from collections.abc import Sequence

from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.records import Goal, Product
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Shop

PATH = "Home › Kitchen › Mugs"


class Nouns:
    """Every word of a title counts as a noun."""

    name = "every word"

    def __call__(self, title: str) -> tuple[str, ...]:
        return tuple(title.lower().split())


def product(asin: str, name: str, attributes: Sequence[str], price: float, **options: tuple[str, ...]) -> Product:
    return Product(
        asin=asin,
        name=name,
        category="garden",
        query="mugs",
        product_category=PATH,
        description="",
        bullets=("useful",),
        pricing=(price,),
        price_tag=f"${price}",
        options=options,
        attributes=tuple(attributes),
    )


RED_MUG = product("B000000001", "Tall Mug", ("heavy duty", "dishwasher safe"), 12.0, color=("red", "blue"), size=("small",))
PLAIN_MUG = product("B000000002", "Plain Mug", ("dishwasher safe",), 45.0)
LAMP = Product(
    asin="B000000003",
    name="Desk Lamp",
    category="electronics",
    query="lamps",
    product_category="Office › Lights",
    description="",
    bullets=(),
    pricing=(20.0,),
    price_tag="$20.0",
    options={},
    attributes=("heavy duty",),
)
PRODUCTS = (RED_MUG, PLAIN_MUG, LAMP)


def goal(options: tuple[str, ...] = ("red",), attributes: tuple[str, ...] = ("heavy duty", "dishwasher safe")) -> Goal:
    """A tall mug for less than 30 dollars."""
    return Goal(
        asin=RED_MUG.asin,
        category=RED_MUG.category,
        query=RED_MUG.query,
        name=RED_MUG.name,
        product_category=PATH,
        instruction="i want a tall mug, and price lower than 30.00 dollars",
        attributes=attributes,
        price_upper=30.0,
        options=options,
    )


def shop() -> Shop:
    """Any search finds everything, in the order above."""
    catalogue = Catalogue("by hand", PRODUCTS, {}, "digest")
    prices = {p.asin: p.pricing[0] for p in PRODUCTS}
    return Shop(catalogue, prices, lambda query: tuple(p.asin for p in PRODUCTS), Scorer(Nouns()))
