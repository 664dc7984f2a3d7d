"""The page of results says what its records hold: every number on it is taken again, from the records, by plain formulas."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = (DOCS / "results.md").read_text()
RECORDS = [json.loads(path.read_text()) for path in sorted((DOCS / "results" / "records").glob("*.json"))]

NAMES = {
    ("grpo", None, None): "grpo",
    ("gigpo", None, None): "gigpo",
    ("hgpo", None, None): "hgpo",
    ("graphgpo", None, None): "graphgpo",
    ("mcgpo", "opposite", "evidence"): "mcgpo",
    ("mcgpo", "same", "evidence"): "mcgpo same-fold",
    ("mcgpo", "opposite", "uniform"): "mcgpo uniform",
    ("mcgpo", "same", "uniform"): "mcgpo same-fold uniform",
}
"""Entries by method, fold and weighting."""
SEEDS = {"alfworld": range(5), "webshop": range(3)}
ENTRIES = {"alfworld": [*NAMES.values()], "webshop": ["grpo", "gigpo", "graphgpo", "mcgpo"]}
FACTORIAL = {"A": "mcgpo", "B": "mcgpo same-fold", "C": "mcgpo uniform", "D": "mcgpo same-fold uniform"}


def entry_of(record: Mapping[str, Any]) -> tuple[str, str]:
    """Setting and entry of a run, from its configuration."""
    config = record["config"]
    method = config["method"]["name"]
    axes = (config["fold"]["name"], config["weighting"]["name"]) if method == "mcgpo" else (None, None)
    return config["env"]["name"], NAMES[(method, *axes)]


RUNS = {(*entry_of(record), record["seed"]): record for record in RECORDS}


def last_five(setting: str, entry: str, name: str = "val/success_rate") -> np.ndarray:
    """L5 by seed, in percent."""
    rows = [[point["metrics"][name] for point in RUNS[setting, entry, seed]["evaluations"]] for seed in SEEDS[setting]]
    return 100.0 * np.array(rows)[:, -5:].mean(axis=1)


def rounded(value: float) -> Decimal:
    """Two decimals, halves away from zero, as the report rounds."""
    return Decimal(repr(round(float(value), 9))).quantize(Decimal("0.01"), ROUND_HALF_UP)


def signed(value: float) -> str:
    return f"{rounded(value):+}".replace("-", "−")


def mean_and_sd(values: np.ndarray) -> str:
    return f"| {rounded(values.mean())} ± {rounded(values.std(ddof=1))} |"


def row_of(table: str, *cells: str) -> str:
    """The one row of a table on the page that begins with these cells; the table follows the anchor of that name."""
    section = PAGE.partition(f'<a id="{table}"></a>')[2].partition("<a id=")[0]
    found = [line for line in section.splitlines() if line.startswith("| " + " | ".join(cells) + " |")]
    assert len(found) == 1, (table, cells)
    return found[0]


def test_every_run_of_the_plan_is_recorded_and_sealed() -> None:
    assert set(RUNS) == {(s, entry, seed) for s in SEEDS for entry in ENTRIES[s] for seed in SEEDS[s]}
    assert len(RECORDS) == len(RUNS) == 52
    for record in RECORDS:
        content = {key: value for key, value in record.items() if key != "sha256"}
        assert record["sha256"] == hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def test_the_runs_of_a_setting_share_panel_initial_weights_and_code() -> None:
    for setting in SEEDS:
        made = [record["manifest"] for (where, *_), record in RUNS.items() if where == setting]
        for facts in (
            {one["panel"]["hash"] for one in made},
            {one["warm_start"]["weights"] for one in made},
            {one["revision"] for one in made},
        ):
            assert len(facts) == 1
            assert next(iter(facts)) in PAGE


def test_every_run_stands_on_the_page_with_the_hash_of_its_manifest() -> None:
    for (setting, entry, seed), record in RUNS.items():
        found = hashlib.sha256(json.dumps(record["manifest"], sort_keys=True).encode()).hexdigest()
        row = row_of("runs", setting, entry, str(seed))
        assert record["run"] in row
        assert found[:16] in row


@pytest.mark.parametrize("setting", SEEDS)
def test_results_are_the_means_and_sample_deviations_of_the_records(setting: str) -> None:
    for entry in ENTRIES[setting]:
        values = last_five(setting, entry)
        row = row_of(f"{setting}-results", entry)
        assert mean_and_sd(values) in row
        score = last_five(setting, entry, "val/score")
        if setting == "webshop":
            assert mean_and_sd(score) in row


@pytest.mark.parametrize("setting", SEEDS)
def test_differences_and_intervals_are_those_of_the_records(setting: str) -> None:
    for entry in ENTRIES[setting]:
        if entry != "graphgpo":
            check_difference(f"{setting}-differences", setting, entry, "graphgpo", (entry,))


@pytest.mark.parametrize(("ours", "theirs"), ["AB", "AC", "AD", "BD", "CD"])
def test_factorial_differences_are_those_of_the_records(ours: str, theirs: str) -> None:
    check_difference("factorial", "alfworld", FACTORIAL[ours], FACTORIAL[theirs], (f"{ours} − {theirs}",))


def check_difference(table: str, setting: str, ours: str, theirs: str, cells: tuple[str, ...]) -> None:
    differences = last_five(setting, ours) - last_five(setting, theirs)
    low, high = stats.ttest_1samp(differences, 0.0).confidence_interval(0.95)
    verdict = "covers zero" if low <= 0.0 <= high else "above zero" if low > 0 else "below zero"
    row = row_of(table, *cells)
    assert f"| {signed(differences.mean())} | [{signed(low)}, {signed(high)}] |" in row
    assert verdict in row


def test_the_figures_of_the_page_are_there() -> None:
    figures = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", PAGE)
    assert len(figures) >= 4
    for figure in figures:
        assert (DOCS / figure).read_bytes(), figure
