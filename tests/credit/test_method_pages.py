"""The worked examples on the methods' pages hold, each page lists exactly its options, and the parts' tables are right."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from creditlab.hookspecs import AXES
from creditlab.registry import Component, registry
from creditlab.rollouts import Rows
from creditlab.testing import move, rows_of, siblings, state, walk

PAGES = Path(__file__).parents[2] / "docs" / "methods"
OURS = [c for c in registry().components.values() if c.package.startswith("creditlab:")]
METHODS = {c.name: c for c in OURS if c.axis in ("method", "aux")}
PARTS = {f"{c.axis}={c.name}": c for c in OURS if c.axis in AXES}
CAPABILITIES = {"match": ("levels",), "fold": ("splits", "peers"), "weighting": ("level", "peer", "fuse", "pair")}


def read(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the table whose header is the given line, without code marks, header and rule."""
    lines = read(page).splitlines()
    rows = []
    for line in lines[lines.index(heading) + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.replace("`", "").strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def test_there_are_pages_to_check() -> None:
    assert len(METHODS) >= 12
    assert len(PARTS) >= 20


@pytest.mark.parametrize("name", METHODS)
def test_the_worked_example_holds(name: str) -> None:
    outcome = doctest.testfile(str(PAGES / f"{name}.md"), module_relative=False)
    assert outcome.attempted > 5
    assert outcome.failed == 0


@pytest.mark.parametrize("name", METHODS)
def test_every_option_and_axis_is_on_the_page(name: str) -> None:
    component, page = METHODS[name], read(name)
    for word in (*component.defaults(), *component.axes, *component.axes.values()):
        assert f"`{word}`" in page, word


@pytest.mark.parametrize("label", PARTS)
def test_every_part_and_its_options_are_on_the_page_of_parts(label: str) -> None:
    component, page = PARTS[label], read("parts")
    assert f"| `{component.name}` |" in page
    for option in component.defaults():
        assert re.search(rf"`({component.axis}\.)?{option}\b", page), option


@pytest.mark.parametrize(
    ("axis", "heading"),
    [
        ("fold", "| fold | who is evidence | `splits` | `peers` |"),
        ("weighting", "| weighting | formula | `level` | `peer` | `fuse` | `pair` |"),
    ],
)
def test_the_capabilities_of_the_parts_are_those_of_the_table(axis: str, heading: str) -> None:
    documented = {
        row[0]: {c for c, cell in zip(CAPABILITIES[axis], row[2:], strict=True) if cell == "yes"}
        for row in table("parts", heading)
    }
    assert documented == {
        part.name: {c for c in CAPABILITIES[axis] if hasattr(part.cls, c)} for part in PARTS.values() if part.axis == axis
    }


def test_what_each_method_calls_is_what_the_table_says() -> None:
    documented = {
        name.removeprefix("aux="): [cell for cell in row[1:] if cell != "–"]
        for row in table("parts", "| method | match | fold | weighting |")
        for name in row[0].split(", ")
        if row[1] != "its base's"
    }
    wrappers = {name for name, c in METHODS.items() if "base" in c.parts}
    assert documented == {name: called(c) for name, c in METHODS.items() if name not in wrappers}


def called(method: Component) -> list[str]:
    """What a method calls of its axes, in their order."""
    calls = {"match": CAPABILITIES["match"], **getattr(method.cls, "calls", {})}
    return [capability for axis in AXES if axis in method.axes for capability in calls[axis]]


def test_the_levels_of_the_match_rules_are_those_of_the_table() -> None:
    rows = two_states()
    for name, _, levels in table("parts", "| rule | key beside the task group | levels, q |"):
        if name == "hidden_state":
            continue  # needs a recorded feature; its one level is in the worked example of BiPACE
        found = registry().create("match", name).levels(rows)
        assert levels == ", ".join(f"{level.name} {level.resolution:g}" for level in found), name


def two_states() -> Rows:
    here = state("A", rubric={"goal_progress": (0, 1)})
    return rows_of(siblings("task", walk(move(here, "go"), end=here), walk(move(here, "stay"), end=here)))
