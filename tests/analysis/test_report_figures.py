"""Figures of curves and differences: numbers as the comparison has them, and nothing drawn where there is nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from html import unescape

import pytest
from matplotlib.figure import Figure

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.curves import Curve
from creditlab.analysis.report.curve_figures import overview, paired
from creditlab.analysis.report.forest_figures import families, forests
from creditlab.analysis.report.look import Drawing, looks

SIDES = {"grpo": ((10.0, 20.0), (12.0, 22.0)), "mcgpo": ((10.0, 21.0), (12.0, 22.75))}
"""Two evaluations by seed; the differences at the end are 1 and 0.75, their mean 0.875, their half width 12.706 · 0.125."""


def compared(
    sides: Mapping[str, Sequence[tuple[float, ...]]], k: int = 1, digits: int = 2, panels: Mapping[str, str] | None = None
) -> Comparison:
    curves = [
        Curve(
            name,
            "near",
            seed,
            tuple(range(len(values))),
            values,
            families={"pick": values},
            panel=(panels or {}).get(name, "p"),
        )
        for name, runs in sides.items()
        for seed, values in enumerate(runs)
    ]
    return Comparison(curves, "grpo", k, digits)


def forest(comparison: Comparison) -> list[Drawing]:
    return forests(comparison, "near", looks(comparison.entries, "grpo"), "1-near")


def words(drawing: Drawing) -> str:
    return unescape(drawing.svg.decode())


def test_numbers_beside_the_points_have_the_decimals_of_the_comparison() -> None:
    [drawing] = forest(compared(SIDES, digits=3))
    assert "+0.875 [−0.713, +2.463]" in words(drawing)


def test_a_row_without_an_interval_says_why() -> None:
    # +1 at both seeds in every measure
    equal = {"grpo": SIDES["grpo"], "mcgpo": ((11.0, 21.0), (13.0, 23.0))}
    [drawing] = forest(compared(equal))
    assert words(drawing).count("+1.00 (equal at all seeds)") == 3
    one = {name: runs[:1] for name, runs in SIDES.items()}
    [drawing] = forest(compared(one))
    assert words(drawing).count("(one seed)") == 3


@pytest.mark.parametrize(
    ("panels", "why", "times"), [({}, "not measured", 1), ({"rloo": "q"}, "not paired", 3), ({"mcgpo": "q"}, "not paired", 3)]
)
def test_a_row_without_a_difference_says_what_it_lacks(panels: dict[str, str], why: str, times: int) -> None:
    """Two evaluations have no L5; another panel has no pair at all."""
    sides = {**SIDES, "rloo": SIDES["mcgpo"]} if panels else SIDES
    [drawing] = forest(compared(sides, 1 if panels else 5, panels=panels))
    assert words(drawing).count(f">{why}<") == times


def test_nothing_that_can_be_compared_is_no_figure() -> None:
    assert forest(compared(SIDES, panels={"mcgpo": "q"})) == []
    assert forest(compared({"grpo": SIDES["grpo"]})) == []


def test_families_without_the_mean_at_the_end_are_no_figure() -> None:
    look = looks(["grpo", "mcgpo"], "grpo")
    assert len(families(compared(SIDES), "near", look, "1-near")) == 1
    assert families(compared(SIDES, k=5), "near", look, "1-near") == []


@pytest.mark.parametrize(("level", "limits"), [(0.0, (0.0, 4.0)), (100.0, (96.0, 100.0)), (50.0, (48.0, 52.0))])
def test_percents_are_drawn_between_0_and_100(level: float, limits: tuple[float, float], drawn: list[Figure]) -> None:
    """Nothing moves: at least four points are shown, none of them beyond what there can be."""
    flat = dict.fromkeys(("grpo", "mcgpo"), ((level, level), (level, level)))
    comparison, look = compared(flat), looks(["grpo", "mcgpo"], "grpo")
    overview(comparison, "near", look, "1-near")
    paired(comparison, "near", look, "1-near")
    families(comparison, "near", look, "1-near")
    assert drawn[2].axes[0].get_ylim() == pytest.approx(limits)
    for low, high in (drawn[0].axes[0].get_ylim(), drawn[4].axes[0].get_xlim()):
        assert 0 <= low <= level <= high <= 100
        assert high - low >= 4
    assert drawn[2].axes[1].get_ylim() == pytest.approx((-2, 2))  # differences may be below zero


def test_other_values_are_drawn_wherever_they_lie_and_not_called_percents(drawn: list[Figure]) -> None:
    comparison = replace(compared({"grpo": ((-20.0, 150.0),), "mcgpo": ((-20.0, 170.0),)}), percent=False)
    overview(comparison, "near", looks(comparison.entries, "grpo"), "1-near")
    [pair] = paired(comparison, "near", looks(comparison.entries, "grpo"), "1-near")
    [rows] = forest(comparison)
    low, high = drawn[0].axes[0].get_ylim()
    assert (low < -20, high > 170) == (True, True)
    assert drawn[0].axes[0].get_ylabel() == "value"
    for figure in (pair, rows):
        assert "points" not in words(figure)
        assert "%)" not in words(figure)
