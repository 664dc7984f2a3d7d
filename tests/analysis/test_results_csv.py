"""results.csv: whole tables read back, and every kind of bad input named with its file, line and column."""

from __future__ import annotations

import csv
import random
import re
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab import compare
from creditlab.analysis.curves import Curve
from creditlab.analysis.results_csv import ResultsError, read_results

HEAD = "method,setting,seed,update,value\n"
ROW = "grpo,alfworld,0,5,41.5\n"


def read(folder: Path, content: str | bytes) -> list[Curve]:
    path = folder / "results.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_results(path)


def test_curves_come_in_the_order_of_their_first_rows(tmp_path: Path) -> None:
    text = HEAD + "mcgpo,alfworld,1,10,50\ngrpo,alfworld,1,0,30\nmcgpo,alfworld,1,0,3e1\n\nmcgpo,webshop,0,0,-.5\n"
    assert read(tmp_path, text) == [
        Curve("mcgpo", "alfworld", 1, (0, 10), (30.0, 50.0)),
        Curve("grpo", "alfworld", 1, (0,), (30.0,)),
        Curve("mcgpo", "webshop", 0, (0,), (-0.5,)),
    ]


def test_columns_may_stand_in_any_order_with_counts_beside_them(tmp_path: Path) -> None:
    text = 'seconds,value,update,seed,setting,method,transitions\n1.5, 41.5 ,5,0,"a, b","mcgpo ""x""",700\n'
    (curve,) = read(tmp_path, text)
    assert curve == Curve('mcgpo "x"', "a, b", 0, (5,), (41.5,), transitions=(700,), seconds=(1.5,))


def test_counts_may_be_given_for_some_runs_only(tmp_path: Path) -> None:
    text = HEAD.replace("value", "value,transitions") + "grpo,a,0,5,1,700\nmcgpo,a,0,5,1,\n"
    assert [curve.transitions for curve in read(tmp_path, text)] == [(700,), None]


def test_byte_order_marks_and_other_line_ends_are_fine(tmp_path: Path) -> None:
    expected = [Curve("grpo", "alfworld", 0, (5,), (41.5,))]
    assert read(tmp_path, b"\xef\xbb\xbf" + (HEAD + ROW).encode()) == expected
    assert read(tmp_path, (HEAD + ROW).replace("\n", "\r\n")) == expected
    assert read(tmp_path, (HEAD + ROW).rstrip()) == expected


@settings(max_examples=60, deadline=None)
@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_says_nothing(tmp_path_factory: pytest.TempPathFactory, dice: random.Random) -> None:
    rows = [f"{method},s,{seed},{update},{update + seed}\n" for method in "ab" for seed in (0, 1) for update in (0, 5, 10)]
    expected = read(tmp_path_factory.mktemp("rows"), HEAD + "".join(rows))
    dice.shuffle(rows)
    found = read(tmp_path_factory.mktemp("rows"), HEAD + "".join(rows))
    assert sorted(found, key=lambda curve: curve.name) == sorted(expected, key=lambda curve: curve.name)


NUMBERS = st.floats(-1e9, 1e9)
NAMES = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Z"]), min_size=1, max_size=8)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(NAMES, NAMES, st.integers(0, 10**9), NUMBERS), min_size=1, max_size=5, unique_by=lambda r: r[:3]))
def test_whatever_a_spreadsheet_writes_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str, int, float]]
) -> None:
    path = tmp_path_factory.mktemp("written") / "results.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["method", "setting", "seed", "update", "value"])
        writer.writerows((method, setting, seed, 5, repr(value)) for method, setting, seed, value in rows)
    assert [(c.method, c.setting, c.seed, c.values[0]) for c in read_results(path)] == rows


@pytest.mark.parametrize(
    ("content", "where", "message"),
    [
        ("", "", "it is empty; begin with the line method,setting,seed,update,value"),
        ("\n \n", "", "it is empty"),
        (HEAD, ", line 1", "it has a header but no results"),
        ("method,setting,seed,value\n", ", line 1, column update", "the column is missing, given are method, setting"),
        ("method;setting;seed;update;value\n" + ROW, ", line 1", "its columns are separated by ';'; save it with commas"),
        ("method\tsetting\tseed\n", ", line 1", r"its columns are separated by '\t'"),
        (ROW, ", line 1, column method", "the column is missing, given are grpo, alfworld"),
        (HEAD.replace("setting", "seed"), ", line 1, column setting", "the column is missing"),
        (HEAD.replace("value", "value,value"), ", line 1, column value", "the column appears twice"),
        (HEAD.replace("value", "value,note"), ", line 1, column note", "the column is not known"),
        (HEAD.replace("value", "value,"), ", line 1, column 6", "the column is not known"),
        (HEAD + ROW + "grpo,alfworld,0,10,abc\n", ", line 3, column value", "'abc' is no number"),
        (HEAD + 'grpo,alfworld,0,5,"41,5"\n', ", line 2, column value", "'41,5' is no number; write decimals with a point"),
        (HEAD + "grpo,alfworld,0,5,41,5\n", ", line 2, column 6", "a cell without a heading holds '5'"),
        (HEAD + "grpo,alfworld,0,5,1_0\n", ", line 2, column value", "'1_0' is no number"),
        (HEAD + "grpo,alfworld,0,5,٣\n", ", line 2, column value", "'٣' is no number"),
        (HEAD + "grpo,alfworld,0,5,NaN\n", ", line 2, column value", "'NaN' is no finite number; leave the row out"),
        (HEAD + "grpo,alfworld,0,5,-inf\n", ", line 2, column value", "'-inf' is no finite number"),
        (HEAD + "grpo,alfworld,0,5,1e999\n", ", line 2, column value", "inf is no finite number"),
        (HEAD + "grpo,alfworld,0,5,1e13\n", ", line 2, column value", "is beyond any result"),
        (HEAD + "grpo,alfworld,0,5,\n", ", line 2, column value", "the cell is empty"),
        (HEAD + "grpo,alfworld,0,5\n", ", line 2, column value", "the cell is missing"),
        (HEAD + ",alfworld,0,5,1\n", ", line 2, column method", "the cell is empty"),
        (HEAD + "grpo, ,0,5,1\n", ", line 2, column setting", "the cell is empty"),
        (HEAD + "grpo,alfworld,0.5,5,1\n", ", line 2, column seed", "'0.5' is no whole number of at least 0"),
        (HEAD + "grpo,alfworld,-1,5,1\n", ", line 2, column seed", "'-1' is no whole number of at least 0"),
        (HEAD + f"grpo,alfworld,0,{'9' * 5000},1\n", ", line 2, column update", "is no whole number"),
        (
            HEAD + ROW + "\n" + ROW,
            ", line 4, column update",
            "update 5 of grpo on alfworld, seed 0, stands on line 2 already",
        ),
        (HEAD + 'grpo,"alf\nworld",0,5,1\ngrpo,a,0,5,x\n', ", line 4, column value", "'x' is no number"),
        (HEAD + ROW + 'grpo,"alfworld,0,10,1\n', ", line 3", "it is no CSV: unexpected end of data; check the quotes"),
        ((HEAD + ROW).encode() + b"grpo,caf\xe9,0,10,1\n", ", line 3, column setting", "the byte 0xe9 is no UTF-8"),
        (b"m\xe9thode,setting\n", ", line 1, column 1", "the byte 0xe9 is no UTF-8; save the table as CSV in UTF-8"),
        ((HEAD + ROW).encode("utf-16"), "", "it is no text table in UTF-8; save the table as CSV in UTF-8"),
        ((HEAD + ROW).encode("utf-16-le"), "", "it is no text table in UTF-8"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "", "it is no text table in UTF-8"),
        (
            HEAD + "gr\0po,alfworld,0,5,1\n",
            ", line 2, column method",
            "the cell holds the control character U+0000; remove it",
        ),
        (HEAD + "grpo,\x1b[2Jalfworld,0,5,1\n", ", line 2, column setting", "the cell holds the control character U+001B"),
        (HEAD + ROW + 'rloo,"' + "x" * 140_000, ", line 3", "a cell has more than 131072 characters; a quote that is never"),
    ],
)
def test_bad_input_gets_one_clear_error(tmp_path: Path, content: str | bytes, where: str, message: str) -> None:
    with pytest.raises(ResultsError) as caught:
        read(tmp_path, content)
    text = str(caught.value)
    assert text.startswith(f"{tmp_path / 'results.csv'}{where}: ")
    assert message in text
    assert "\n" not in text
    assert len(text) < 500


@pytest.mark.parametrize(
    ("rows", "where", "message"),
    [
        ("grpo,a,0,5,1,700\ngrpo,a,0,10,1,\n", "line 3, column transitions", "the cell is empty, but other evaluations"),
        (
            "grpo,a,0,10,1,600\ngrpo,a,0,5,1,700\n",
            "line 2, column transitions",
            "transitions fall from 700 to 600 at update 10",
        ),
        ("grpo,a,0,10,1,7.5\n", "line 2, column transitions", "'7.5' is no whole number"),
    ],
)
def test_bad_counts_are_named_too(tmp_path: Path, rows: str, where: str, message: str) -> None:
    with pytest.raises(ResultsError, match=f"{where}: .*{message}"):
        read(tmp_path, HEAD.replace("value", "value,transitions") + rows)


def test_bad_seconds_are_named_too(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"line 3, column seconds: .*seconds fall from 9.0 to 8.0 at update 10"):
        read(tmp_path, HEAD.replace("value", "value,seconds") + "grpo,a,0,5,1,9\ngrpo,a,0,10,1,8\n")


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"absent\.csv: it cannot be read: No such file"):
        read_results(tmp_path / "absent.csv")
    with pytest.raises(ResultsError, match="it cannot be read: Is a directory"):
        read_results(tmp_path)


def rows(*values: str) -> str:
    return HEAD + "".join(f"grpo,alfworld,{seed},5,{value}\n" for seed, value in enumerate(values))


def test_rounded_rates_are_restored_to_their_counts(tmp_path: Path) -> None:
    """589, 605 and 608 of 640; the last is 95.00 %, of which a spreadsheet leaves 95."""
    path = tmp_path / "results.csv"
    path.write_text(rows("92.03", "94.53", "95"))
    assert [curve.values[0] for curve in read_results(path, 640)] == [92.03125, 94.53125, 95.0]
    assert [curve.values[0] for curve in read_results(path)] == [92.03, 94.53, 95.0]
    # 23 and 25 of 25
    path.write_text(rows("92.0", "1e2"))
    assert [curve.values[0] for curve in read_results(path, 25)] == [92.0, 100.0]


@pytest.mark.parametrize(
    ("values", "episodes", "message"),
    [
        (("92.03", "92.10"), 640, "line 3, column value: 92.10 % is no k/640 rounded to 2 decimals; check the number of"),
        # 94.4 beside two decimals is 94.40, which lies between 604/640 = 94.375 and 605/640 = 94.531
        (("92.03", "94.4"), 640, "line 3, column value: 94.4 % is no k/640 rounded to 2 decimals"),
        (("92", "50"), 640, "line 2, column value: 92 % is ambiguous: 586/640 to 592/640 all print so; more decimals"),
        (("9" * 5000,), 640, "line 2, column value: "),
    ],
)
def test_what_is_no_rate_of_so_many_episodes_is_named(
    tmp_path: Path, values: tuple[str, ...], episodes: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text(rows(*values))
    assert compare.main([f"table={path}", f"episodes={episodes}"]) == 2
    shown = capsys.readouterr().err
    assert f"{path}, {message}" in shown
    assert shown.count("\n") == 1
    assert len(shown) < 800


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits=3"], "digits has no effect without table=; remove it"),
        (["episodes=640"], "episodes has no effect without table=; remove it"),
        (["table=results.csv", "digits=10"], "digits=10: write a number from 0 to 9"),
        (["table=results.csv", "digits="], "digits=: write a number from 0 to 9"),
        (["table=results.csv", "episodes=0"], "episodes=0: write a whole number from 1 to 1000000000"),
    ],
)
def test_keys_of_a_table_that_make_no_sense_are_named(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main(words) == 2
    assert message in capsys.readouterr().err


def test_values_that_are_no_rates_are_compared_and_not_called_percents(tmp_path: Path) -> None:
    """Returns of −3 and 250 against −1 and 250: a mean of 123.5."""
    path, out = tmp_path / "results.csv", tmp_path / "out"
    path.write_text(rows("-3", "250") + "mcgpo,alfworld,0,5,-1\nmcgpo,alfworld,1,5,250\n")
    assert compare.main([f"table={path}", f"out={out}"]) == 0
    page = (out / "report.html").read_text()
    assert "grpo ends at 123.50 ± 178.90 (L1, 2 seeds)." in page
    for words in ("in percent", "in points", "success (%)", "(points)"):
        assert words not in page


def test_a_table_without_a_place_for_its_report_says_which_key_names_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + ROW)
    assert compare.main([f"table={path}"]) == 0
    assert capsys.readouterr().out.endswith("\nout=<folder> writes the report\n")


@pytest.mark.parametrize("out", ["results.csv", "results.csv/out"])
def test_a_place_where_nothing_can_be_written_is_refused_before_anything_is_shown(
    tmp_path: Path, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + ROW)
    assert compare.main([f"table={path}", f"out={tmp_path / out}"]) == 2
    shown = capsys.readouterr()
    assert f"out={tmp_path / out}: cannot write there: " in shown.err
    assert "choose another folder" in shown.err
    assert not shown.out


def test_a_baseline_that_is_no_method_of_the_table_comes_with_those_that_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + ROW + ROW.replace("grpo", "rloo"))
    assert compare.main([f"table={path}", "baseline=nope"]) == 2
    assert f"baseline=nope is no method of {path}; methods: grpo, rloo\n" in capsys.readouterr().err


def test_digits_and_episodes_reach_every_file(tmp_path: Path) -> None:
    """608 and 592 of 640 against 600 and 576: 1.25 and 2.5 points, mean 1.875, half width 12.706 · 0.625."""
    path, out = tmp_path / "results.csv", tmp_path / "out"
    path.write_text(rows("93.75", "90.00") + "mcgpo,alfworld,0,5,95.00\nmcgpo,alfworld,1,5,92.50\n")
    assert compare.main([f"table={path}", "digits=3", "episodes=640", f"out={out}"]) == 0
    page = (out / "report.html").read_text()
    assert "+1.875 [−6.066, +9.816], 2 seeds" in page  # in the words at its beginning
    assert "values restored to counts of 640 episodes" in page
    assert "The number compared is\nL1, the last scheduled evaluation of a run, in percent" in page
    for written in (page, (out / "comparison.md").read_text().replace("\\", "")):
        assert "[−6.066, +9.816]" in written


def test_a_compared_table_says_what_nobody_could_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + "".join(f"{method},a,0,{update},41.5\n" for method in ("grpo", "rloo") for update in (0, 9)))
    assert compare.main([f"table={path}", "last=2"]) == 0
    unknown = "evaluation panels, orders of training tasks, warm starts"
    shown = capsys.readouterr().out
    assert f"caution: Not recorded, so not checked: whether {unknown} are the same.\n" in shown
    assert "caution: One seed gives no interval" in shown


def test_a_table_of_one_value_a_run_says_once_that_it_has_no_area(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + "".join(f"{method},a,{s},9,4{s}\n" for method in ("grpo", "rloo", "gigpo") for s in (0, 1)))
    assert compare.main([f"table={path}"]) == 0
    shown = capsys.readouterr().out
    assert shown.count("has no area") == 1
    assert "do not both have AUC" not in shown


@pytest.mark.parametrize(
    ("last", "meaning"), [(2, "L2: mean of a run's last 2 evaluations; final: the last one"), (1, "L1, final: a run's last")]
)
def test_the_measures_are_explained_under_the_results(
    tmp_path: Path, last: int, meaning: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text(HEAD + "".join(f"{method},a,0,{update},41.5\n" for method in ("grpo", "rloo") for update in (0, 9)))
    assert compare.main([f"table={path}", f"last={last}"]) == 0
    shown = capsys.readouterr().out
    assert shown.index(meaning) < shown.index("Paired differences")
    assert shown.count("AUC: mean height of its curve over the updates") == 1


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    for whole in (content, HEAD.encode() + content, (HEAD + ROW).encode() + content):
        with suppress(ResultsError):
            assert read(folder, whole)


@pytest.mark.filterwarnings("error:constrained_layout")
def test_many_methods_and_long_names_leave_room_for_the_rest(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The title names the first of seven methods, and a terminal the ends of a name of 500 letters; the files have it all."""
    path, out = tmp_path / "results.csv", tmp_path / "out"
    long = "m" * 250 + "n" * 250
    path.write_text(HEAD + ROW + "".join(ROW.replace("grpo", name) for name in (long, *"abcde")))
    assert compare.main([f"table={path}", f"out={out}"]) == 0
    page = (out / "report.html").read_text()
    assert "<h1>results.csv: grpo and 6 others</h1>" in page
    assert long in page
    assert long in (out / "comparison.md").read_text()
    results = capsys.readouterr().out.partition("Paired differences")[0]
    shown = "".join(re.findall("[mn…]", "".join(line for line in results.split("\n") if line.startswith("│"))))
    assert "m" * 29 + "…" + "n" * 29 in shown
    assert "m" * 30 not in shown


def test_a_mistake_in_a_table_is_the_users_and_shows_no_way_to_a_stack_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    path.write_text("method,setting,seed,update,value\na,s,0,1,nan\n")
    assert compare.main([f"table={path}"]) == 2
    reason = "'nan' is no finite number; leave the row out where there is no result"
    assert capsys.readouterr().err == f"creditlab: {path}, line 2, column value: {reason}\n"
