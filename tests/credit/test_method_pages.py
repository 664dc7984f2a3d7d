"""The worked examples on the methods' pages hold, and each page lists exactly the method's options."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

from creditlab.registry import registry

PAGES = Path(__file__).parents[2] / "docs" / "methods"
METHODS = ("grpo", "rloo", "gigpo", "hgpo", "graphgpo", "g2po", "mcgpo", "ccpo", "covgpo", "progpo", "bipace")
COMPONENTS = {**dict.fromkeys(METHODS, "method"), "pair": "aux"}


@pytest.mark.parametrize("name", COMPONENTS)
def test_the_worked_example_holds(name: str) -> None:
    outcome = doctest.testfile(str(PAGES / f"{name}.md"), module_relative=False)
    assert outcome.attempted > 5
    assert outcome.failed == 0


@pytest.mark.parametrize(("name", "axis"), COMPONENTS.items())
def test_every_option_and_axis_is_on_the_page(name: str, axis: str) -> None:
    component = registry().find(axis, name)
    page = (PAGES / f"{name}.md").read_text(encoding="utf-8")
    for word in (*component.defaults(), *component.axes, *component.axes.values()):
        assert f"`{word}`" in page, word
