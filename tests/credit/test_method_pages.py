"""The methods' pages: worked examples that hold, options with their defaults per environment; and the parts' tables."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from creditlab.cli import compose_job
from creditlab.hookspecs import AXES
from creditlab.registry import Component, registry
from creditlab.rollouts import Rows
from creditlab.testing import move, rows_of, siblings, state, walk

PAGES = Path(__file__).parents[2] / "docs" / "methods"
OURS = [c for c in registry().components.values() if c.package.startswith("creditlab:")]
METHODS = {c.name: c for c in OURS if c.axis in ("method", "aux")}
PARTS = {f"{c.axis}={c.name}": c for c in OURS if c.axis in AXES}
SECTIONS = (r"Formula|Loss", "Options", "Source, and where we (decide|depart)", "Worked example")
EVERYWHERE = "The same defaults hold in every environment."
PER_ENVIRONMENT = "| option | ALFWorld | WebShop |"
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


@pytest.mark.parametrize("name", METHODS)
def test_every_page_has_its_sections(name: str) -> None:
    for section in SECTIONS:
        assert re.search(rf"^## ({section})$", read(name), flags=re.MULTILINE), section


@pytest.mark.parametrize("name", METHODS)
def test_the_defaults_are_those_of_the_page(name: str) -> None:
    """A page that repeats an option of GRPO's without its default refers to that page."""
    compared = 0
    for cell, default, meaning in table(name, "| option | default | meaning |"):
        named, shown = cell.split(", "), default.split(", ")
        if not default:
            assert "as in [GRPO](grpo.md)" in meaning or ".*" in cell, cell
            continue
        for option, value in zip(named, shown * len(named) if len(shown) == 1 else shown, strict=True):
            assert value == written(METHODS[name].defaults()[option]), option
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("name", METHODS)
def test_what_the_environments_change_is_on_the_page(name: str) -> None:
    if METHODS[name].axis == "aux":
        lines = [f"method=grpo aux={name} env={env}" for env in ("alfworld", "webshop")]
        nodes = [compose_job(line.split()).config["aux"][name] for line in lines]
    else:
        nodes = [compose_job([f"method={name}", f"env={env}"]).config["method"] for env in ("alfworld", "webshop")]
    alfworld, webshop = (dict(options(node)) for node in nodes)
    changed = {key: [written(alfworld[key]), written(webshop[key])] for key in alfworld if alfworld[key] != webshop[key]}
    documented = {row[0]: row[1:] for row in table(name, PER_ENVIRONMENT)} if PER_ENVIRONMENT in read(name) else {}
    assert documented == changed
    assert (EVERYWHERE in " ".join(read(name).split())) == (not changed)


def options(node: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Every option of a component and its parts, by its dotted key."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from options(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def written(value: object) -> str:
    """A default as the pages write it."""
    if value is None:
        return "by convention"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and 0 < value < 0.01:
        return "10" + f"{value:.0e}".removeprefix("1e").replace("-0", "-").translate(SUPERSCRIPT)
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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
