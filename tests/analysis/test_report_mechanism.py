"""Figures of comparison groups: the distribution where runs recorded it, quartiles where they did not, never both as one."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pytest

from creditlab.analysis.mechanism import mechanism, mechanism_windows
from creditlab.analysis.report.look import error_bars, looks, new_figure
from creditlab.analysis.report.mechanism_figures import mechanism_figures
from creditlab.analysis.statistics import MeanSD

CLASSES = ("1", "2", "3_4", "5_8", "9_16", "17_up")
OLD: dict[str, list[float | None]] = {"group_size": [2.0, 4.0], "singleton_rate": [0.25, 0.75]}
PAIRS: dict[str, list[float | None]] = {
    "pairs/accepted": [2.0, 4.0],
    "pairs/accepted_exact": [2.0, 4.0],
    "pairs/wins": [1.0, 1.0],
    "pairs/ties": [1.0, 2.0],
    "pairs/losses": [0.0, 1.0],
    "pairs/contrast": [0.5, 0.25],
}


def counted(*numbers: int) -> dict[str, list[float | None]]:
    """Credit of one update with so many decisions in groups of each class."""
    sizes = zip(CLASSES, numbers, strict=True)
    found: dict[str, list[float | None]] = {f"group_sizes/{name}": [float(number)] for name, number in sizes}
    return {"group_size": [3.0], "trained_decisions": [float(sum(numbers))], **found}


def run(entry: str, credit: dict[str, list[float | None]], seed: int = 0) -> dict[str, Any]:
    pooled = {"mechanism": mechanism(credit), "mechanism_windows": mechanism_windows(credit)}
    return {"setting": "alfworld", "entry": entry, "seed": seed, **pooled}


def drawn(*runs: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Caption and SVG of each figure by the end of its name."""
    entries = list(dict.fromkeys(one["entry"] for one in runs))
    figures = mechanism_figures(runs, "alfworld", looks(entries, entries[0]), "x")
    return {one.name.removeprefix("x-"): (one.caption, one.svg.decode()) for one in figures}


def test_the_distribution_is_drawn_as_the_mean_of_the_seeds_shares() -> None:
    found = drawn(run("gigpo", counted(30, 10, 20, 40, 0, 0)), run("gigpo", counted(5, 5, 0, 0, 0, 0), seed=1))
    assert list(found) == ["sizes"]
    caption, svg = found["sizes"]
    for words in ("alone", "in groups of 2", "in groups of 3–4", "in groups of 17+", "gigpo"):
        assert f">{words}</text>" in svg
    for share in (40, 30, 10, 20):  # (30 + 50) / 2, (10 + 50) / 2, 20 / 2 and 40 / 2; pooled over seeds they were 32, 14, …
        assert f">{share}</text>" in svg
    assert "Not drawn" not in caption


def test_entries_without_a_distribution_keep_the_quartiles_and_are_named() -> None:
    mixed = [run("rloo", counted(9, 0, 0, 0, 0, 1)), run("rloo", OLD, seed=1)]
    runs = [run("gigpo", counted(1, 1, 1, 1, 1, 1)), run("grpo", OLD), *mixed]
    found = drawn(*runs)
    assert list(found) == ["sizes", "groups"]
    assert "Not drawn here, for not all of their runs recorded it: grpo, rloo." in found["sizes"][0]
    assert [name for name in ("gigpo", "grpo", "rloo") if f">{name}</text>" in found["sizes"][1]] == ["gigpo"]
    assert [name for name in ("gigpo", "grpo", "rloo") if f">{name}</text>" in found["groups"][1]] == ["grpo", "rloo"]
    assert list(drawn(*runs[1:2])) == ["groups"]


@pytest.mark.parametrize(("name", "credit"), [("groups", OLD), ("agreement", PAIRS)])
def test_a_value_of_one_seed_is_hollow_and_the_caption_says_why(name: str, credit: dict[str, list[float | None]]) -> None:
    hollow, filled = (drawn(*(run("mcgpo", credit, seed) for seed in range(count)))[name] for count in (1, 2))
    assert "Hollow: one seed, without a deviation." in hollow[0]
    assert "Hollow" not in filled[0]
    # a white marker with a black edge, the baseline's colour, exists only where a value has no deviation
    assert "fill: #ffffff; stroke: #000000" in hollow[1]
    assert "fill: #ffffff; stroke: #000000" not in filled[1]


@pytest.mark.parametrize("across", [False, True])
def test_a_value_of_one_seed_has_no_bar(across: bool) -> None:
    axis, look = new_figure(4, 3).subplots(), looks(["a"], "a")["a"]
    found = [MeanSD(1.0, 0.5, 2), MeanSD(2.0, None, 1)]
    assert error_bars(axis, [0.0, 1.0], found, look, across=across)
    [container] = axis.containers
    bars = [np.asarray(bar).tolist() for bar in container.lines[2][0].get_segments() if len(bar)]
    assert bars == [[[0.5, 0.0], [1.5, 0.0]] if across else [[0.0, 0.5], [0.0, 1.5]]]
    assert not error_bars(axis, [0.0], found[:1], look, across=across)


def test_names_that_look_like_references_are_left_alone_in_the_page() -> None:
    name = 'a id="b" href="#c" url(#d)'
    [figure] = mechanism_figures([run(name, OLD)], "alfworld", looks([name], name), "x")
    shown = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", figure.inline))
    assert name in html.unescape(shown)
    ids = re.findall(r'<\w+ id="([^"]*)"', figure.inline)
    assert ids
    assert all(one.startswith("x-groups-") for one in ids)
    assert set(re.findall(r'url\(#([^)]*)\)"', figure.inline)) <= set(ids)
