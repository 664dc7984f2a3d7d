"""The statistics that MCGPO's paper prints, from the values by seed that it prints: read off what the command prints."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from creditlab import compare
from creditlab.analysis.lattice import lattice_count

EPISODES = 128 * 5
"""Episodes of an evaluation times evaluations in L5."""
MCGPO_1_5B, GRAPHGPO_1_5B = ("92.03", "94.53", "94.38"), ("90.47", "93.13", "94.22")
MCGPO_4B, GRAPHGPO_4B = ("85.63", "78.59", "82.19"), ("79.84", "75.16", "79.53")
MCGPO_8B, GRAPHGPO_8B = ("85.00", "86.72", "82.81"), ("81.25", "77.50", "80.31")
FACTORIAL = {
    "A": MCGPO_4B,
    "B": ("83.28", "76.56", "79.53"),
    "C": ("84.22", "76.72", "80.63"),
    "D": ("81.56", "74.84", "77.97"),
}


class Printed:
    """What the command prints of a table: the cells of its rows, and its lines."""

    def __init__(self, text: str) -> None:
        self.lines = text.splitlines()
        self.rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in self.lines if line.startswith("│")]

    def mean(self, entry: str) -> str:
        """L1 of an entry: mean ± sample SD."""
        return next(row[1] for row in self.rows if row[0] == entry and row[1] not in ("L1", "final", "AUC"))

    def difference(self, entry: str, measure: str = "L1") -> str:
        """A paired difference with its interval."""
        return next(f"{row[2]} {row[3]}" for row in self.rows if row[:2] == [entry, measure])


Compared = Callable[..., Printed]


@pytest.fixture
def printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Compared:
    """Writes the values by seed as a table, compares them, and reads what is printed."""
    monkeypatch.setenv("COLUMNS", "160")

    def called(values: Mapping[str, Sequence[str]], *words: str) -> Printed:
        path = tmp_path / "paper.csv"
        rows = [f"{name},paper,{seed},250,{value}" for name, side in values.items() for seed, value in enumerate(side)]
        path.write_text("\n".join(["method,setting,seed,update,value", *rows]))
        assert compare.main([f"table={path}", *words]) == 0
        return Printed(capsys.readouterr().out)

    return called


def test_alfworld_1_5b_restored_to_its_lattice(printed: Compared) -> None:
    assert [lattice_count(percent, EPISODES) for percent in MCGPO_1_5B] == [589, 605, 604]
    assert [lattice_count(percent, EPISODES) for percent in GRAPHGPO_1_5B] == [579, 596, 603]
    found = printed({"graphgpo": GRAPHGPO_1_5B, "mcgpo": MCGPO_1_5B}, "episodes=640")
    assert found.mean("mcgpo") == "93.65 ± 1.40"
    assert found.mean("graphgpo") == "92.60 ± 1.93"
    assert found.difference("mcgpo") == "+1.04 [−0.87, +2.96]"
    assert "every run has one value in the table: it is compared as it stands, last=1" in found.lines
    assert "values are restored to what they were before rounding: counts of 640 episodes" in found.lines


def test_rounded_values_would_give_another_interval(printed: Compared) -> None:
    """What the lattice is for: from two printed decimals the same formula gives −0.86 and +2.94."""
    found = printed({"graphgpo": GRAPHGPO_1_5B, "mcgpo": MCGPO_1_5B})
    assert found.difference("mcgpo") == "+1.04 [−0.86, +2.94]"


def test_alfworld_7b_from_the_printed_values(printed: Compared) -> None:
    values = {"graphgpo": ("96.88", "95.00", "92.66"), "mcgpo": ("95.31", "96.88", "96.72")}
    assert printed(values, "digits=3").difference("mcgpo").startswith("+1.457 ")
    assert printed(values).difference("mcgpo").endswith(" [−5.60, +8.51]")


@pytest.mark.parametrize(
    ("first", "second", "means", "gain"),
    [
        (MCGPO_4B, GRAPHGPO_4B, ("82.14 ± 3.52", "78.18 ± 2.62"), "+3.96"),
        (MCGPO_8B, GRAPHGPO_8B, ("84.84 ± 1.96", "79.69 ± 1.95"), "+5.16"),
    ],
)
def test_webshop_with_qwen3(
    first: Sequence[str], second: Sequence[str], means: tuple[str, str], gain: str, printed: Compared
) -> None:
    found = printed({"graphgpo": second, "mcgpo": first})
    assert (found.mean("mcgpo"), found.mean("graphgpo")) == means
    assert found.difference("mcgpo").startswith(f"{gain} ")


@pytest.mark.parametrize(
    ("baseline", "differences"),
    [
        ("B", {"A": "+2.347 [+1.564, +3.129]"}),
        ("C", {"A": "+1.613 [+1.031, +2.196]"}),
        (
            "D",
            {"A": "+4.013 [+3.417, +4.610]", "B": "+1.667 [+1.437, +1.896]", "C": "+2.400 [+1.281, +3.519]"},
        ),
    ],
)
def test_the_factorial_controls(baseline: str, differences: Mapping[str, str], printed: Compared) -> None:
    found = printed(FACTORIAL, f"baseline={baseline}", "digits=3")
    assert {entry: found.difference(entry) for entry in differences} == differences


GAPS = {
    "0.336 %": (594_465, 592_472),
    "0.897 %": (575_983, 581_151),
    "0.814 %": (590_739, 585_967),
    "0.684 %": (174_190, 173_006),
    "0.640 %": (188_293, 187_096),
    "0.593 %": (172_791, 171_773),
}


def test_the_gaps_of_matched_budgets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Transitions of the six pairs, one setting each."""
    monkeypatch.setenv("COLUMNS", "160")
    path = tmp_path / "budgets.csv"
    rows = [
        f"{method},setting {place},0,250,50,{spent}"
        for place, pair in enumerate(GAPS.values())
        for method, spent in zip(("graphgpo", "mcgpo"), pair, strict=True)
    ]
    path.write_text("\n".join(["method,setting,seed,update,value,transitions", *rows]))
    assert compare.main([f"table={path}"]) == 0
    printed = capsys.readouterr().out
    assert re.findall(r"│ (\d+ / \d+) +│ +(\d\.\d{3} %) │", printed) == [
        (f"{second} / {first}", gap) for gap, (first, second) in GAPS.items()
    ]
