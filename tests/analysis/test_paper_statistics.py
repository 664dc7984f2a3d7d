"""The statistics that MCGPO's paper prints, from the values by seed that it prints."""

from __future__ import annotations

import pytest

from creditlab.analysis.budget import budget_gap
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.curves import Curve
from creditlab.analysis.lattice import lattice_count, restored
from creditlab.analysis.statistics import mean_sd
from creditlab.analysis.tables import shown, shown_interval, shown_mean

EPISODES = 128 * 5
"""Episodes of an evaluation times evaluations in L5."""
MCGPO_1_5B, GRAPHGPO_1_5B = ("92.03", "94.53", "94.38"), ("90.47", "93.13", "94.22")
MCGPO_4B, GRAPHGPO_4B = (85.63, 78.59, 82.19), (79.84, 75.16, 79.53)
MCGPO_8B, GRAPHGPO_8B = (85.00, 86.72, 82.81), (81.25, 77.50, 80.31)
A, B, C, D = MCGPO_4B, (83.28, 76.56, 79.53), (84.22, 76.72, 80.63), (81.56, 74.84, 77.97)


def difference(first: tuple[float, ...], second: tuple[float, ...], digits: int) -> str:
    """As the tool prints it, from curves of one value: the L5 of each seed."""
    sides = (("first", first), ("second", second))
    curves = [Curve(name, "paper", seed, (250,), (value,)) for name, side in sides for seed, value in enumerate(side)]
    paired = Comparison(curves, "second", k=1).difference("first", "paper").paired
    assert paired is not None
    return f"{shown(paired.mean, digits, signed=True)} {shown_interval(paired.interval, digits)}"


def test_alfworld_1_5b_restored_to_its_lattice() -> None:
    assert [lattice_count(percent, EPISODES) for percent in MCGPO_1_5B] == [589, 605, 604]
    assert [lattice_count(percent, EPISODES) for percent in GRAPHGPO_1_5B] == [579, 596, 603]
    mcgpo, graphgpo = restored(MCGPO_1_5B, EPISODES), restored(GRAPHGPO_1_5B, EPISODES)
    assert shown_mean(mean_sd(mcgpo)) == "93.65 ± 1.40"
    assert shown_mean(mean_sd(graphgpo)) == "92.60 ± 1.93"
    assert difference(mcgpo, graphgpo, 2) == "+1.04 [−0.87, +2.96]"


def test_rounded_values_would_give_another_interval() -> None:
    """What the lattice is for: from two printed decimals the same formula gives −0.86 and +2.94."""
    rounded = [tuple(float(percent) for percent in side) for side in (MCGPO_1_5B, GRAPHGPO_1_5B)]
    assert difference(*rounded, 2) == "+1.04 [−0.86, +2.94]"


def test_alfworld_7b_from_the_printed_values() -> None:
    first, second = (95.31, 96.88, 96.72), (96.88, 95.00, 92.66)
    assert difference(first, second, 3).startswith("+1.457 ")
    assert difference(first, second, 2).endswith(" [−5.60, +8.51]")


@pytest.mark.parametrize(
    ("first", "second", "means", "gain"),
    [
        (MCGPO_4B, GRAPHGPO_4B, ("82.14 ± 3.52", "78.18 ± 2.62"), "+3.96"),
        (MCGPO_8B, GRAPHGPO_8B, ("84.84 ± 1.96", "79.69 ± 1.95"), "+5.16"),
    ],
)
def test_webshop_with_qwen3(first: tuple[float, ...], second: tuple[float, ...], means: tuple[str, str], gain: str) -> None:
    assert (shown_mean(mean_sd(first)), shown_mean(mean_sd(second))) == means
    assert difference(first, second, 2).startswith(f"{gain} ")


@pytest.mark.parametrize(
    ("first", "second", "printed"),
    [
        (A, B, "+2.347 [+1.564, +3.129]"),
        (A, C, "+1.613 [+1.031, +2.196]"),
        (A, D, "+4.013 [+3.417, +4.610]"),
        (B, D, "+1.667 [+1.437, +1.896]"),
        (C, D, "+2.400 [+1.281, +3.519]"),
    ],
)
def test_the_factorial_controls(first: tuple[float, ...], second: tuple[float, ...], printed: str) -> None:
    assert difference(first, second, 3) == printed


@pytest.mark.parametrize(
    ("first", "second", "printed"),
    [
        (594_465, 592_472, "0.336"),
        (575_983, 581_151, "0.897"),
        (590_739, 585_967, "0.814"),
        (174_190, 173_006, "0.684"),
        (188_293, 187_096, "0.640"),
        (172_791, 171_773, "0.593"),
    ],
)
def test_the_gaps_of_matched_budgets(first: int, second: int, printed: str) -> None:
    assert shown(100 * budget_gap(first, second), 3) == printed
    assert budget_gap(second, first) == budget_gap(first, second)
