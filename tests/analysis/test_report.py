"""The page of a comparison: it stands alone, shows foreign text as text, says what the statistics say, and repeats."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.comparison_tables import differences_table
from creditlab.analysis.curves import Curve
from creditlab.analysis.mechanism import mechanism, mechanism_windows
from creditlab.analysis.report import write_report
from creditlab.analysis.report.look import chunks, looks
from creditlab.analysis.report.page import render
from creditlab.analysis.report.reading import cautions, read_setting
from creditlab.analysis.tables import Table, short

VOID = {"meta", "link", "br", "img", "input", "hr"}
SCRIPT, MATHS, HIDDEN = "<script>alert(1)</script>", r"$\frac{ & $ </svg>", "_mcgpo\u202e match=state_only"
HOSTILE_SETTING = "<img src=x onerror=alert(1)> $x$"
# L2 of grpo 25, 27, 24.5 and of mcgpo 35, 34, 37: differences 10, 7, 12.5
GRPO = {0: (10.0, 20.0, 30.0), 1: (12.0, 18.0, 36.0), 2: (11.0, 19.0, 30.0)}
MCGPO = {0: (10.0, 30.0, 40.0), 1: (12.0, 28.0, 40.0), 2: (11.0, 32.0, 42.0)}


def curve(method: str, seed: int, values: Sequence[float], setting: str = "alfworld", **changes: Any) -> Curve:
    updates = tuple(5 * place for place in range(len(values)))
    facts: dict[str, Any] = {"transitions": tuple(100 * at for at in updates), "seconds": tuple(float(at) for at in updates)}
    facts |= {"panel": "p" * 64, "warm_start": "w" * 16, "task_order": f"order {seed}"}
    return replace(Curve(method, setting, seed, updates, tuple(values)), **(facts | changes))


def two(**changes: Any) -> list[Curve]:
    return [
        curve(name, s, values, **changes) for name, side in (("grpo", GRPO), ("mcgpo", MCGPO)) for s, values in side.items()
    ]


def facts_of(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Facts of runs as a suite gives them; those of mcgpo recorded pairs."""
    pairs = {"pairs/accepted": [2.0] * 30, "pairs/accepted_exact": [2.0] * 30, "pairs/active": [1.0] * 30,
             "pairs/wins": [1.0] * 30, "pairs/ties": [1.0] * 30, "pairs/losses": [0.0] * 30, "pairs/contrast": [0.5] * 30,
             "pairs/first_visits_exact": [6.0] * 30, "pairs/first_visit_groups_exact": [3.0] * 30,
             "pairs/non_singleton_exact": [4.0] * 30}  # fmt: skip
    found = []
    for one in curves:
        credit = {"group_size": [2.0, 4.0] * 15, "singleton_rate": [0.25] * 30} | (pairs if "mcgpo" in one.method else {})
        found.append(
            {
                "setting": one.setting,
                "entry": one.method,
                "seed": one.seed,
                "run": f"{one.method}-0123456789-s{one.seed}",
                "configuration_hash": "0123456789",
                "manifest_hash": "f" * 64,
                "panel": {"hash": one.panel},
                "warm_start": {"weights": one.warm_start},
                "made_with": {"creditlab": "0.1.0", "revision": "abc", "python": "3.11.9", "packages": {"torch": "2.13.0"}},
                "mechanism": mechanism(credit),
                "mechanism_windows": mechanism_windows(credit),
            }
        )
    return found


@dataclass
class Page(HTMLParser):
    """The elements of a page; every end tag must close the element that is open."""

    text: str
    ids: list[str] = field(default_factory=list)
    tags: list[str] = field(default_factory=list)
    attributes: list[tuple[str, str, str]] = field(default_factory=list)
    words: str = ""

    def __post_init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.feed(self.text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag, f"{tag} at line {self.getpos()[0]}"

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def plain() -> tuple[str, Page]:
    comparison = Comparison(two(families={"pick": (1.0, 2.0, 3.0)}), "grpo", 2)
    differences = Table(
        "Configuration differences, alfworld", ("key", "grpo", "mcgpo"), (("method", "grpo", "mcgpo"),), labels=1
    )
    unfinished = [
        {"setting": "alfworld", "entry": "hgpo", "seed": 4, "state": "failed", "message": "the engine is <b>gone</b>"}
    ]
    facts = {"suite": "tried", "runs": facts_of(comparison.curves), "unfinished": unfinished}
    html, _ = render(comparison, facts, [differences])
    return html, Page(html)


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Path], Comparison]:
    names = (SCRIPT, MATHS, HIDDEN)
    curves = [
        curve(name, seed, [1.0 * seed, 2.0 + place, 3.0 * place + seed], HOSTILE_SETTING, families={SCRIPT: (1.0, 2.0, 3.0)})
        for place, name in enumerate(names)
        for seed in (0, 1)
    ]
    comparison = Comparison(curves, SCRIPT, 2)
    out = tmp_path_factory.mktemp("hostile")
    facts = {
        "suite": SCRIPT,
        "runs": facts_of(curves),
        "unfinished": [{"setting": MATHS, "entry": SCRIPT, "seed": 0, "state": "failed", "message": SCRIPT}],
    }
    files = write_report(out, comparison, facts, [Table(SCRIPT, (SCRIPT, MATHS), ((MATHS, SCRIPT),), (SCRIPT,), labels=1)])
    return out, files, comparison


def test_the_page_is_whole_and_stands_alone(plain: tuple[str, Page]) -> None:
    html, page = plain
    assert len(page.ids) == len(set(page.ids))
    assert not {"script", "link", "iframe", "object", "img"} & set(page.tags)
    links = [value for tag, name, value in page.attributes if name in ("href", "xlink:href", "src", "action", "data")]
    assert links
    assert all(value.startswith("#") and value[1:] in page.ids for value in links)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert not re.search(r"url\((?!#)|@import", html)
    assert all(target in page.ids for target in re.findall(r"url\(#([^)]*)\)", html))


def test_the_page_says_what_was_compared_and_with_what(plain: tuple[str, Page]) -> None:
    _, page = plain
    for words in ("tried: grpo and mcgpo", "p" * 64, "w" * 16, "0.1.0, revision abc", "Python 3.11.9; torch 2.13.0"):
        assert words in page.words
    for heading in ("Learning curves", "Paired differences", "Families of tasks", "Equal budgets", "The way to a level",
                    "How credit came about", "Single seeds", "Pairing", "How the entries differ", "Runs"):  # fmt: skip
        assert page.words.count(heading) >= 2  # in the contents and at its place
    assert page.words.count("the engine is <b>gone</b>") == 1


def test_the_tables_on_the_page_are_those_of_the_comparison(plain: tuple[str, Page]) -> None:
    _, page = plain
    table = differences_table(Comparison(two(), "grpo", 2))
    assert table.rows[0] == ("alfworld", "mcgpo", "L2", "+9.83", "[+2.99, +16.67]", "3", "above zero")
    for cell in (cell for row in table.rows for cell in row):
        assert cell in page.words


def test_foreign_text_is_shown_as_text(hostile: tuple[Path, list[Path], Comparison]) -> None:
    out, _, _ = hostile
    page = Page((out / "report.html").read_text())
    assert not {"script", "img"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    shown = {SCRIPT, MATHS, HIDDEN.replace("\u202e", "�"), HOSTILE_SETTING}
    for words in shown:
        assert page.words.count(words) > 5
    assert "\u202e" not in page.words


def test_foreign_text_in_figures_is_text_as_well(hostile: tuple[Path, list[Path], Comparison]) -> None:
    """A name between dollar signs is no formula, and one that begins with an underscore is not left out of a legend."""
    out, files, _ = hostile
    curves = Page((out / "figures" / "1-img-src-x-onerror-alert-1-x-curves.svg").read_text())
    for words in (SCRIPT, MATHS, "_mcgpo� match=state_only"):
        assert words in curves.words
    for path in files:
        if path.suffix == ".svg":
            svg = Page(path.read_text())
            assert not {"script", "img", "image", "foreignobject"} & set(svg.tags)


def test_every_figure_is_a_file_in_both_formats(hostile: tuple[Path, list[Path], Comparison]) -> None:
    out, files, _ = hostile
    assert files[0] == out / "report.html"
    assert all(path.read_bytes() for path in files)
    figures = {path for path in files if path.parent.name == "figures"}
    assert {path.suffix for path in figures} == {".svg", ".png"}
    assert figures == set((out / "figures").iterdir())
    kinds = {path.stem.removeprefix("1-img-src-x-onerror-alert-1-x-").split("-")[0] for path in figures}
    assert kinds == {
        "curves",
        "pair",
        "forest",
        "families",
        "pairs",
        "outcomes",
        "agreement",
        "contrast",
        "contexts",
        "groups",
    }
    html = (out / "report.html").read_text()
    assert all(f'id="{path.stem}"' in html for path in figures)


def test_the_same_comparison_gives_the_same_bytes(tmp_path: Path) -> None:
    def written(name: str) -> dict[str, bytes]:
        files = write_report(tmp_path / name, Comparison(two(), "grpo", 2), {"table": "results.csv"})
        return {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files}

    first = written("one")
    assert first == written("two")
    dated = re.compile(rb"\d{4}-\d\d-\d\d")
    assert not [name for name, content in first.items() if not name.endswith(".png") and dated.search(content)]


def test_in_short_says_what_the_intervals_say() -> None:
    """hgpo's differences at L2 are −1, 0 and 1; gigpo's panel is another one."""
    level = {0: 25.0, 1: 27.0, 2: 24.5}
    hgpo = [curve("hgpo", s, (10.0, level[s] + s - 1, level[s] + s - 1)) for s in GRPO]
    gigpo = [curve("gigpo", s, GRPO[s], panel="q" * 64) for s in GRPO]
    worse = [curve("rloo", s, [max(0.0, v - 9 - 0.1 * s) for v in GRPO[s]]) for s in GRPO]
    found = read_setting(Comparison([*two(), *hgpo, *gigpo, *worse], "grpo", 2), "alfworld")
    assert found.lead == "grpo ends at 25.50 ± 1.32 % (L2, 3 seeds)."
    verdicts = {finding.verdict: dict(finding.entries) for finding in found.findings}
    assert verdicts["Better than grpo, the whole interval above zero"] == {"mcgpo": "+9.83 [+2.99, +16.67], 3 seeds"}
    assert verdicts["Not told apart from grpo, the interval covers zero"] == {"hgpo": "0.00 [−2.48, +2.48], 3 seeds"}
    assert list(verdicts["Worse than grpo, the whole interval below zero"]) == ["rloo"]
    unpaired = verdicts["Not paired with grpo, so not compared"]["gigpo"]
    assert unpaired == "seeds 0, 1, 2: other evaluation panels: qqqqqqqqqqqq and pppppppppppp"
    assert len(verdicts) == 4


def test_a_measure_that_is_not_defined_is_no_lack_of_pairs() -> None:
    """Three evaluations have no L5."""
    why = "seeds 0, 1, 2: left out, 3 evaluations, the mean of the last 5 needs 5; last=3 takes what there is"
    found = read_setting(Comparison(two(), "grpo", 5), "alfworld")
    assert found.lead == f"grpo has no L5 here: {why}."
    (finding,) = found.findings
    assert finding.verdict == "Not compared with grpo, for no pair of runs has L5"
    assert finding.entries == (("mcgpo", f"mcgpo, {why}; grpo, {why}"),)


def test_one_seed_has_no_interval_and_the_page_says_so() -> None:
    comparison = Comparison([one for one in two() if one.seed == 0], "grpo", 2)
    (finding,) = read_setting(comparison, "alfworld").findings
    assert finding.verdict == "No interval, so no finding"
    assert finding.entries == (("mcgpo", "+10.00, one seed: no interval"),)
    html, drawings = render(comparison, {"table": "results.csv"})
    words = " ".join(Page(html).words.split())
    assert "One seed gives no interval" in words
    assert "[+" not in words
    assert "one seed each, so without bands" in words
    assert b"(one seed)" in next(drawing for drawing in drawings if drawing.name.endswith("forest")).svg


def test_equal_differences_are_no_finding() -> None:
    """Both seeds gain 2 points at L2; a t interval would be [2, 2]."""
    ends = {"grpo": 3.0, "mcgpo": 5.0}
    comparison = Comparison([curve(name, seed, (1.0, end, end)) for name, end in ends.items() for seed in (0, 1)], "grpo", 2)
    (finding,) = read_setting(comparison, "alfworld").findings
    assert finding.verdict == "No interval, so no finding"
    assert finding.entries == (("mcgpo", "+2.00, equal at all seeds: no interval"),)
    found = cautions(comparison, {})
    assert "Differences that are equal at all seeds give no interval: a few equal numbers are no certainty." in found
    assert not any("one degree of freedom" in text or "One seed" in text for text in found)
    assert differences_table(comparison).rows[0][3:] == ("+2.00", "–", "2", "no interval")


def test_cautions_name_what_weakens_the_comparison() -> None:
    every = two()
    known = cautions(Comparison(every, "grpo", 2), {"unfinished": [{}, {}]})
    assert known == [
        "No bootstrap intervals are given below 5 seeds.",
        "2 planned runs are not finished and left out; see Runs.",
    ]
    pairs = cautions(Comparison([one for one in every if one.seed < 2], "grpo", 2), {})
    assert any("one degree of freedom (t = 12.71)" in text for text in pairs)
    unknown = cautions(Comparison(two(panel=None), "grpo", 2), {})
    assert "Not recorded, so not checked: whether evaluation panels are the same." in unknown
    lost = cautions(Comparison(every[:-1], "grpo", 2), {})
    assert any(text.startswith("Not every seed pairs") for text in lost)
    level = [curve("hgpo", seed, (10.0, end, end)) for seed, end in enumerate((24.0, 27.0, 25.5))]
    more = cautions(Comparison([*every, *level], "grpo", 2), {})
    several = "The 2 intervals of L2 are not adjusted for their number, and there are more in the tables: "
    assert any(text.startswith(several) for text in more)
    assert "An interval that covers zero does not show that two entries are equal." in more


MADE = {"creditlab": "0.1.0", "revision": "abc", "python": "3.11.9", "packages": {"torch": "2.13.0"}, "platform": "one"}


@pytest.mark.parametrize(
    ("changes", "caution"),
    [
        ({}, None),
        ({"platform": "two"}, None),
        ({"revision": "def"}, "other revisions of the code, which may make a difference too."),
        ({"packages": {"torch": "2.12.0"}}, "other packages, which may make a difference too."),
        (
            {"creditlab": "0.2.0", "revision": None, "python": "3.12.1"},
            "other versions of creditlab, revisions of the code and versions of Python, which may make a difference too.",
        ),
    ],
)
def test_runs_made_by_other_code_are_told_of(changes: dict[str, Any], caution: str | None) -> None:
    """The first setting is made by one code throughout, the second's last run by another."""
    runs = [{"setting": "near", "made_with": {**MADE, "revision": "old"}}] * 2
    runs += [{"setting": "far", "made_with": MADE}, {"setting": "far", "made_with": MADE | changes}]
    found = [text for text in cautions(Comparison(two(), "grpo", 2), {"runs": runs}) if "made with" in text]
    assert found == ([f"Runs of far were made with {caution}"] if caution else [])


def test_code_that_no_revision_holds_is_told_of() -> None:
    runs = [{"setting": "near", "made_with": MADE | {"revision": "abc-modified"}}] * 2
    found = cautions(Comparison(two(), "grpo", 2), {"runs": runs})
    assert found[-1] == "The revision does not say what ran: the code had changes of its own (abc-modified)."
    unknown = cautions(Comparison(two(), "grpo", 2), {"runs": [{"setting": "near", "made_with": None}]})
    assert not any("revision" in text for text in unknown)


def test_two_changes_of_one_revision_are_told_apart_by_their_hashes() -> None:
    """A run of an older version has no hash, which is no difference."""
    modified = MADE | {"revision": "abc-modified"}
    first, second = modified | {"sources": "1" * 64}, modified | {"sources": "2" * 64}

    def found(*made: dict[str, Any]) -> list[str]:
        runs = [{"setting": "near", "made_with": one} for one in made]
        return [text for text in cautions(Comparison(two(), "grpo", 2), {"runs": runs}) if "code" in text]

    own = "The revision does not say what ran: the code had changes of its own"
    assert found(first, first) == [f"{own} (abc-modified, sources {'1' * 10})."]
    assert found(first, second) == [
        "Runs of near were made with other uncommitted changes of the code, which may make a difference too.",
        f"{own} (abc-modified, sources {'1' * 10} and abc-modified, sources {'2' * 10}).",
    ]
    assert found(modified, first) == [f"{own} (abc-modified and abc-modified, sources {'1' * 10})."]


OLD, NEW = "1" * 64, "2" * 64


@pytest.mark.parametrize(
    ("codes", "different", "since"),
    [
        ([([OLD], OLD), ([OLD], OLD), None], None, None),
        ([([OLD], None), ([OLD], None), ([OLD], None)], None, None),  # installed no more
        ([None, None, None], None, None),  # made before code was recorded
        ([([OLD], NEW), ([OLD], NEW), None], None, "near · mine · seed 0 and near · mine · seed 1"),
        (
            [([OLD], NEW), ([NEW], NEW), ([NEW], NEW)],
            f"near · mine · seed 0 with {OLD[:10]}; near · mine · seed 1 and near · mine · seed 2 with {NEW[:10]}",
            "near · mine · seed 0",
        ),
        ([([OLD, NEW], NEW), None, None], f"near · mine · seed 0 with {OLD[:10]}, then {NEW[:10]}", "near · mine · seed 0"),
    ],
)  # fmt: skip
def test_runs_made_by_other_code_of_a_plug_in_are_told_of(
    codes: list[tuple[list[str], str | None] | None], different: str | None, since: str | None
) -> None:
    runs: list[dict[str, Any]] = [{"setting": "near", "entry": "grpo", "seed": 0, "made_with": MADE, "plugin_code": {}}]
    for seed, code in enumerate(codes):
        known = {"my-package:mine": {"made_with": code[0], "installed": code[1]}} if code else {}
        runs.append({"setting": "near", "entry": "mine", "seed": seed, "made_with": MADE, "plugin_code": known})
    found = [text for text in cautions(Comparison(two(), "grpo", 2), {"runs": runs}) if "plug-in" in text]
    expected = []
    if different:
        expected.append(
            "Runs were made with different code of the plug-in my-package:mine, which may make a difference too: "
            f"{different}."
        )
    if since:
        expected.append(
            f"The code of the plug-in my-package:mine that is installed now is not the one that made {since}. To have a run "
            "made again, remove its folder and its record."
        )
    assert found == expected


def test_a_setting_without_the_baseline_shows_what_there_is() -> None:
    other = [curve("mcgpo", seed, values, "webshop") for seed, values in MCGPO.items()]
    html, drawings = render(Comparison([*two(), *other], "grpo", 2), {})
    words = " ".join(Page(html).words.split())
    assert "No run of grpo is finished here, so nothing can be compared with it." in words
    assert "No finished run here: grpo." in words
    assert [drawing.name for drawing in drawings if drawing.name.startswith("2-")] == ["2-webshop-curves"]


def test_entries_look_different_from_each_other() -> None:
    names = [f"entry {index}" for index in range(12)]
    found = looks(names, "entry 3")
    assert found["entry 3"].color == "#000000"
    assert len({(look.color, look.marker) for look in found.values()}) == 12
    assert len({look.color for look in list(found.values())[:7]}) == 7
    assert len({look.marker for look in found.values()}) == 12


def test_long_names_are_shortened_in_the_middle() -> None:
    name = "mcgpo " + "x" * 200 + " weighting=uniform"
    text = short(name)
    assert len(text.split("\n")) <= 4
    assert text.startswith("mcgpo")
    assert text.endswith("weighting=uniform")
    assert "…" in text
    assert short("grpo") == "grpo"


def test_chunks_are_even_and_lose_nothing() -> None:
    assert chunks(list(range(9)), 8) == [[0, 1, 2, 3, 4], [5, 6, 7, 8]]
    assert chunks([], 8) == []
