"""What a suite leaves behind: the page, the figures, the tables and the W&B run, from runs that are over."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from rich.console import Console
from suite_runs import line, planned, write_run
from wandb_records import records, values, without_account

from creditlab.analysis.comparison import Comparison
from creditlab.suites.board import State, Status
from creditlab.suites.collect import FinishedRun, curve_of
from creditlab.suites.plan import PlannedRun
from creditlab.suites.record import make_record
from creditlab.suites.results import facts_of, show, track, write, write_suite

TRACKING = {"wandb": "offline", "project": "creditlab", "tags": ["mine"], "wandb_timeout": 5.0, "every": 5}


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody's credentials or settings take part, and artifacts are kept within the test."""
    without_account(monkeypatch, tmp_path)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    yield
    wandb.teardown()


def run_of(root: Path, entry: str, seed: int, gain: float) -> PlannedRun:
    """A run that is over: 30 updates with two pairs each, evaluated every 10th."""
    run = planned(root, entry, seed, updates=30, every=10, tracking=TRACKING)
    pairs = {"credit/pairs/accepted": 2.0, "credit/pairs/accepted_exact": 2.0, "credit/group_size": 3.0}
    lines = [line(0, evaluated=True, success=0.2)]
    lines += [line(at, evaluated=at % 10 == 0, success=0.2 + gain * at + 0.01 * seed, **pairs) for at in range(1, 31)]
    write_run(run, lines)
    return run


def test_a_suite_leaves_a_report_with_everything_about_its_runs(tmp_path: Path) -> None:
    out = tmp_path / "out"
    gains = {"grpo": 0.005, "mcgpo fold=same": 0.01}
    runs = [run_of(tmp_path, entry, seed, gain) for entry, gain in gains.items() for seed in (0, 1)]
    lost = Status(planned(tmp_path, "mcgpo fold=same", 2), State.FAILED, message="the engine <is> gone")
    finished = [FinishedRun(run, make_record(run)) for run in runs]
    comparison = Comparison([curve_of(one) for one in finished], "grpo", 2)
    files = write_suite(out, "tried", finished, comparison, [lost])
    assert files[0] == out / "report.html"
    assert {path.name for path in files if path.parent == out} == {
        "report.html", "comparison.json", "comparison.md", "comparison.tex",
    }  # fmt: skip
    page = (out / "report.html").read_text()
    # success at updates 20 and 30: 0.3 and 0.35 against 0.4 and 0.5 at both seeds
    assert "+12.50, equal at all seeds: no interval" in page
    assert "the engine &lt;is&gt; gone" in page
    for words in ("p" * 64, "a" * 64, "1–25", "26–30", "How credit came about"):
        assert words in page
    markdown = (out / "comparison.md").read_text()
    for title in ("Runs and what made them", "Pairs over training", "Comparison groups of the credit"):
        assert f"**{title}**" in markdown
    found = json.loads((out / "comparison.json").read_text())
    assert found["unfinished"] == [
        {"setting": "corridor", "entry": "mcgpo fold=same", "seed": 2, "state": "failed", "message": "the engine <is> gone"}
    ]
    assert [window["pairs/accepted"] for window in found["runs"][0]["mechanism_windows"]] == [50.0, 10.0]

    assert track(out, runs, comparison, files) == []
    logged = records(out)
    [run] = [record.run for record in logged if record.HasField("run")]
    assert (run.run_group, run.job_type, run.project) == ("tried", "comparison", "creditlab")
    assert set(run.tags) == {"mine", "setting=corridor", "fold=same"}
    assert values(run.config.update)["entries"]["mcgpo fold=same"] == {"method": "mcgpo", "overrides": ["fold=same"]}
    [path] = (out / "wandb").glob("offline-run-*/files/media/table/*.json")
    table = json.loads(path.read_text())
    rows = [dict(zip(table["columns"], row, strict=True)) for row in table["data"]]
    [primary] = [row for row in rows if (row["entry"], row["measure"], row["family"]) == ("mcgpo fold=same", "L2", "")]
    assert (primary["mean"], primary["difference"], primary["pairs"]) == (pytest.approx(45.5), pytest.approx(12.5), 2)
    [artifact] = [record.artifact for record in logged if record.artifact.type == "comparison"]
    assert {entry.path for entry in artifact.manifest.contents} == {path.relative_to(out).as_posix() for path in files}


def test_the_terminal_cautions_of_what_the_page_cautions_of(tmp_path: Path) -> None:
    """Uncommitted changes, a plug-in that was changed between two seeds, and a run that failed."""
    runs = [run_of(tmp_path, entry, seed, 0.01) for entry in ("grpo", "mine") for seed in (0, 1)]
    for run in runs:
        path = run.folder / "manifest.json"
        code = {"mine:mine": {"version": "1.0", "sha256": str(run.seed + 1) * 64}} if run.entry.name == "mine" else {}
        made = {"revision": "abc-modified", "sources": "f" * 64, "plugin_code": code}
        path.write_text(json.dumps({**json.loads(path.read_text()), **made}))
    finished = [FinishedRun(run, make_record(run)) for run in runs]
    comparison = Comparison([curve_of(one) for one in finished], "grpo", 2)
    lost = [Status(planned(tmp_path, "grpo", 2), State.FAILED, message="gone")]
    written = io.StringIO()
    show(comparison, Console(file=written, width=200), facts=facts_of(finished, lost))
    page = " ".join(next(iter(write_suite(tmp_path / "out", "tried", finished, comparison, lost))).read_text().split())
    for caution in (
        "The revision does not say what ran: the code had changes of its own (abc-modified, sources ffffffffff).",
        "Runs were made with different code of the plug-in mine:mine, which may make a difference too: "
        "corridor · mine · seed 0 with 1111111111; corridor · mine · seed 1 with 2222222222.",
        "1 planned run is not finished and left out; see Runs.",
    ):
        assert f"caution: {caution}\n" in written.getvalue()
        assert caution in page


def test_a_report_takes_the_place_of_the_one_before_with_its_figures(tmp_path: Path) -> None:
    out = tmp_path / "out"
    curves = [
        curve_of(FinishedRun(run, make_record(run)))
        for entry, gain in (("grpo", 0.005), ("mcgpo", 0.01))
        for seed in (0, 1)
        for run in [run_of(tmp_path, entry, seed, gain)]
    ]
    write(out, Comparison(curves, "grpo", 2), {})
    assert (out / "figures" / "1-corridor-pair-1-mcgpo.svg").exists()
    own = out / "figures" / "1-corridor-pair-2-mine.svg"
    own.write_text("<svg/>")
    files = write(out, Comparison(curves[:2], "grpo", 2), {})
    figures = {path for path in files if path.parent.name == "figures"}
    assert figures
    assert set((out / "figures").iterdir()) == {*figures, own}  # what the report did not write is not its to remove


def test_numbers_from_elsewhere_have_a_report_as_well(tmp_path: Path) -> None:
    runs = [run_of(tmp_path, "grpo", 0, 0.005)]
    comparison = Comparison([curve_of(FinishedRun(run, make_record(run))) for run in runs], "grpo", 2)
    files = write(tmp_path / "out", comparison, {"table": "results.csv"})
    assert files[0].name == "report.html"
    assert "results.csv" in files[0].read_text()
