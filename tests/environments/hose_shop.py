"""A small hand-made shop of garden hoses for the tests of sessions."""

from __future__ import annotations

from dataclasses import replace

from creditlab.environments.webshop.catalogue import Catalogue
from creditlab.environments.webshop.records import Goal, Product, Score
from creditlab.environments.webshop.session import Page, Session, Shop

GOAL = Goal(
    asin="B000000001",
    category="garden",
    query="garden hose",
    name="Green Garden Hose",
    product_category="Patio › Hoses",
    instruction="find me a hose, and price lower than 30.00 dollars",
    attributes=("kink free",),
    price_upper=30.0,
    options=("green", "50 ft"),
)


def product(asin: str, name: str = "Green Garden Hose", **changes: object) -> Product:
    plain = Product(
        asin=asin,
        name=name,
        category="garden",
        query="garden hose",
        product_category="Patio › Hoses",
        description="A long hose.",
        bullets=("Kink free.", "Light."),
        pricing=(12.5,),
        price_tag="$12.5",
        options={"color": ("green", "black | white"), "size": ("25 ft", "50 ft")},
        attributes=("kink free",),
    )
    return replace(plain, **changes)


def fixed_score(product: Product, goal: Goal, options: object, price: float) -> Score:
    return Score(0.25, 1.0, 0.5, 0.5, True, True, 1.0, 0.0, 0.25, price <= goal.price_upper, 0.25)


def shop(*products: Product, page_size: int = 10, show_attributes: bool = False) -> Shop:
    """A shop whose search finds every product, and none for a query with the word nothing."""
    prices = {product.asin: 12.5 for product in products}

    def search(query: str) -> tuple[str, ...]:
        return () if "nothing" in query else tuple(product.asin for product in products)

    catalogue = Catalogue("test", products, {}, "")
    return Shop(catalogue, prices, search, fixed_score, page_size, show_attributes)


HOSES = tuple(product(f"B00000000{number}", f"Hose {number}") for number in range(1, 8))


def played(session: Session, *actions: str) -> Page:
    """The page after some actions, each of which must have an effect."""
    for action in actions:
        assert session.step(action).effective, action
    return session.page
