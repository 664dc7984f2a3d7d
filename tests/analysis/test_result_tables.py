"""Tables as people read them: numbers as printed, and foreign text that stays text."""

from __future__ import annotations

import html
import json
import re
from decimal import ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.analysis.statistics import Interval, MeanSD
from creditlab.analysis.tables import Table, json_text, latex, markdown, shown, shown_interval, shown_mean

HOSTILE = r"<b>x</b>|*y*_z_`c`[a](b)\$&~#^%{}" + '"\n'


def table(cell: str) -> Table:
    return Table("Results", ("entry", "L5"), ((cell, "1.00"), ("grpo", "−2.00")), ("a note on " + cell,), labels=1)


@pytest.mark.parametrize(
    ("value", "digits", "signed", "text"),
    [
        (85.625, 2, False, "85.63"),  # 548/640, which the paper prints so; half to even would give 85.62
        (-85.625, 2, False, "−85.63"),
        (2.675, 2, False, "2.68"),  # the nearest binary float lies below
        (0.1 + 0.2, 1, True, "+0.3"),
        (1.0416666, 2, True, "+1.04"),
        (-0.004, 2, True, "0.00"),
        (0.0, 2, True, "0.00"),
        (93.0, 0, False, "93"),
        (-1e12, 3, False, "−1000000000000.000"),
        (None, 2, False, "–"),
    ],
)
def test_numbers_as_they_are_printed(value: float | None, digits: int, signed: bool, text: str) -> None:
    assert shown(value, digits, signed=signed) == text


@settings(max_examples=100, deadline=None)
@given(st.integers(-10_000, 10_000), st.integers(1, 10_000))
def test_halves_round_away_from_zero(count: int, total: int) -> None:
    exact = Decimal(100 * count) / total
    expected = f"{exact.quantize(Decimal('0.01'), ROUND_HALF_UP):f}".replace("-", "−")
    assert shown(100 * count / total) == (expected if expected != "−0.00" else "0.00")


def test_means_and_intervals_as_they_are_printed() -> None:
    assert shown_mean(MeanSD(93.6458, 1.4004, 3)) == "93.65 ± 1.40"
    assert shown_mean(MeanSD(93.6458, None, 1)) == "93.65"
    assert shown_interval(Interval(-0.873, 2.956)) == "[−0.87, +2.96]"
    assert shown_interval(Interval(0.5, 0.75), signed=False) == "[0.50, 0.75]"
    assert shown_interval(None) == "–"


def test_markdown_in_full() -> None:
    assert markdown(table("mcgpo")) == (
        "**Results**\n\n| entry | L5 |\n| :-- | --: |\n| mcgpo | 1.00 |\n| grpo | −2.00 |\n\n- a note on mcgpo\n"
    )


def test_latex_in_full() -> None:
    assert latex(table("mcgpo match=state_only")) == (
        "\\begin{table}\n\\caption{Results}\n\\begin{tabular}{lr}\n\\toprule\nentry & L5 \\\\\n\\midrule\n"
        "mcgpo match=state\\_only & 1.00 \\\\\ngrpo & $-$2.00 \\\\\n\\bottomrule\n\\end{tabular}\n"
        "\\par\\footnotesize a note on mcgpo match=state\\_only\n\\end{table}\n"
    )


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.just(HOSTILE), st.text(max_size=20)))
def test_markdown_shows_any_text_as_text(cell: str) -> None:
    """The same number of lines and columns, no tag, and the text comes back when its escapes are undone."""
    text = markdown(table(cell))
    lines = text.split("\n")
    assert len(lines) == 9
    assert "<" not in text
    row = re.split(r"(?<!\\)\|", lines[4].replace("\\\\", "\0"))
    assert len(row) == 4
    shows = html.unescape(re.sub(r"\\(.)", r"\1", row[1]).replace("\0", "\\"))
    kept = [sign for sign in cell if sign.isprintable() and not sign.isspace()]
    assert [sign for sign in shows if not sign.isspace() and sign != "�"] == [sign for sign in kept if sign != "�"]


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.just(HOSTILE), st.text(st.characters(max_codepoint=126), max_size=20)))
def test_latex_commands_are_ours_alone(cell: str) -> None:
    """No sign with a meaning to TeX is left bare, braces are balanced and the row has two columns."""
    row = latex(table(cell)).split("\n")[6]
    assert row.endswith(r" & 1.00 \\")
    bare = re.sub(r"\\text[a-z]+\{\}|\\[{}$&#_%]", "", row.removesuffix(r" & 1.00 \\")).replace("{}", "")
    assert not set(bare) & set(r"\{}$&#_%^~<>|")


@pytest.mark.parametrize("cell", ["[1ex]", "*", " [x]", "*[1ex]"])
def test_no_row_gives_an_argument_to_the_command_before_it(cell: str) -> None:
    """`\\\\` and `\\midrule` read a bracket or star that follows them, over the end of a line too."""
    text = latex(Table("T", (cell, "L5"), ((cell, "1"), (cell, "2"))))
    assert not re.search(r"(\\\\|rule)\s*[\[*]", text)
    assert text.count("\n{}") == 3


@pytest.mark.parametrize(
    ("note", "shown_as"),
    [("# big", r"\# big"), ("1. x", r"1\. x"), ("12) x", r"12\) x"), ("+ y", r"\+ y"), ("--- ", r"\---"), ("=", r"\="),
     ("1.5 points", r"1\.5 points"), ("plain - text", "plain - text")],
)  # fmt: skip
def test_a_note_in_markdown_begins_nothing(note: str, shown_as: str) -> None:
    assert markdown(Table("T", ("a",), (("x",),), (note,))).rstrip().endswith(f"\n- {shown_as}")


def test_two_hyphens_stay_two() -> None:
    assert "a-{}-{}-b-c" in latex(table("a---b-c"))


def test_a_row_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match=r"table 'T': 2 headings, a row of 1 cells"):
        Table("T", ("a", "b"), (("x",),))


def test_json_is_strict() -> None:
    assert json.loads(json_text({"entry": "π <b>", "sd": None})) == {"entry": "π <b>", "sd": None}
    assert "π" in json_text(["π"])
    with pytest.raises(ValueError, match="not JSON compliant"):
        json_text(float("nan"))
