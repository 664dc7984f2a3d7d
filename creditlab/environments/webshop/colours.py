"""Colour words of WebShop's option matching, and what they make of an option value."""

from __future__ import annotations

_IN_ORDER = """
    alabaster apricot aqua ash asphalt azure
    banana beige black blue blush bordeaux bronze brown burgundy
    camel camo caramel champagne charcoal cheetah chestnut chocolate christmas coffee cognac copper coral cranberry cream
    crystal dark denim eggplant elephant espresso fuchsia
    gold granite grape graphite grass gray green grey
    heather indigo ivory ivy khaki
    lavender lemon leopard light lilac lime
    magenta maroon mauve merlot midnight mint mocha multicolor mushroom mustard
    natural navy nude olive orange
    peach pewter pink plum purple
    rainbow red rose royal rust
    sand sapphire seashell silver skull slate steel stone stonewash sunflower
    tan taupe teal tiger turquoise violet walnut wheat white wine yellow
    """
COLOURS = tuple(_IN_ORDER.split())
"""The words of the released WebShop (engine/normalize.py), in its order: the first one found decides."""


def normalise(value: str) -> str:
    """The first colour word that an option value contains anywhere, even inside a word; the value itself without one."""
    return next((colour for colour in COLOURS if colour in value), value)


def normalise_pair(name: str, value: str) -> str:
    """A pair of option name and value as the released scorer compares it: the colour word that one of them is, else both.

    The scorer looks for a colour word among the pair's members, not inside them, and compares the pair's printed form.
    """
    return next((colour for colour in COLOURS if colour in (name, value)), f"({name!r}, {value!r})")
