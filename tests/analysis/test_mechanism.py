"""Credit diagnostics pooled over windows of updates within a seed, then over seeds; expected values by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest

from creditlab.analysis.mechanism import levels_of, mechanism, mechanism_windows, over_seeds, windows_of
from creditlab.analysis.mechanism_tables import (
    groups_table,
    levels_table,
    mechanism_tables,
    pairs_table,
    runs_table,
    sizes_table,
    windows_table,
)

PAIRS: dict[str, list[float | None]] = {
    "pairs/accepted": [1.0, 3.0, 0.0],
    "pairs/accepted_exact": [1.0, 0.0, 0.0],
    "pairs/accepted_coarse": [0.0, 3.0, 0.0],
    "pairs/active": [1.0, 1.0, 0.0],
    "pairs/wins": [1.0, 0.0, 0.0],
    "pairs/ties": [0.0, 2.0, 0.0],
    "pairs/losses": [0.0, 1.0, 0.0],
    "pairs/contrast": [0.9, 0.1, None],
    "pairs/agreement": [1.0, 1 / 3, None],
    "pairs/supported_exact": [4.0, 2.0, 0.0],
    "pairs/supported_coarse": [6.0, 8.0, 1.0],
    "pairs/first_visits_exact": [6.0, 5.0, 1.0],
    "pairs/first_visit_groups_exact": [2.0, 3.0, 1.0],
    "pairs/first_visit_group_size_exact": [3.0, 5 / 3, 1.0],
    "pairs/non_singleton_exact": [6.0, 3.0, 0.0],
}
"""Three updates: agreement (1 + 2/2) / 4, contrast (0.9 · 1 + 0.1 · 3) / 4, 12 first visits in 6 contexts, 9 not alone."""


def run(credit: dict[str, Any], entry: str = "mcgpo", seed: int = 0, size: int = 25) -> dict[str, Any]:
    return {
        "setting": "alfworld",
        "entry": entry,
        "seed": seed,
        "run": f"{entry}-s{seed}",
        "configuration_hash": "0123456789",
        "manifest_hash": "m" * 64,
        "panel": {"hash": "p" * 64},
        "warm_start": {"hash": "short", "weights": "w" * 64},
        "made_with": {"revision": "r" * 40 + "-modified"},
        "mechanism": mechanism(credit),
        "mechanism_windows": mechanism_windows(credit, size),
    }


def test_ratios_of_a_window_come_from_its_counts() -> None:
    found = mechanism(PAIRS)
    assert found["pairs/agreement"] == 0.5  # not 2/3, the mean of the updates' own
    assert found["pairs/tie_share"] == 0.5
    assert found["pairs/contrast"] == pytest.approx(0.3)
    assert (found["pairs/active_updates"], found["pairs/audited_updates"]) == (2.0, 3.0)
    assert found["pairs/first_visit_group_size_exact"] == 2.0  # nor 17/9
    assert found["pairs/non_singleton_share_exact"] == 0.75


def test_windows_follow_each_other_and_the_last_one_may_be_short() -> None:
    first, second = mechanism_windows(PAIRS, 2)
    assert (first["first"], first["last"], second["first"], second["last"]) == (1, 2, 3, 3)
    assert (first["pairs/accepted"], first["pairs/agreement"]) == (4.0, 0.5)
    assert (second["pairs/accepted"], second["pairs/audited_updates"]) == (0.0, 1.0)
    assert second.keys().isdisjoint({"pairs/agreement", "pairs/contrast"})  # no pair, no ratio
    assert mechanism_windows({}) == []


def test_windows_hold_25_updates() -> None:
    windows = mechanism_windows({"singleton_rate": [0.0] * 25 + [1.0] * 35})
    assert [(w["first"], w["last"], w["singleton_rate"]) for w in windows] == [(1, 25, 0.0), (26, 50, 1.0), (51, 60, 1.0)]


def test_over_seeds_is_the_mean_with_the_sample_deviation() -> None:
    pooled = [{"x": 1.0, "n": 2.0}, {"x": 3.0, "n": 1.0}, {"n": 5.0}]
    found = over_seeds(pooled, "x", scale=100)
    assert found is not None
    assert (found.mean, found.count) == (200.0, 2)
    assert found.sd == pytest.approx(math.sqrt(2) * 100)
    per = over_seeds(pooled, "x", per="n")
    assert per is not None
    assert per.mean == 1.75  # 1/2 and 3/1
    assert over_seeds(pooled, "y") is None


def test_windows_of_runs_stand_together() -> None:
    found = windows_of([run(PAIRS, size=2), run(PAIRS, seed=1, size=2)])
    assert {place: len(pooled) for place, pooled in found.items()} == {(1, 2): 2, (3, 3): 2}
    assert levels_of([mechanism(PAIRS)]) == ["exact", "coarse"]


def test_the_tables_show_what_was_pooled() -> None:
    one = {
        name: [2 * value if value and "contrast" not in name else value for value in column] for name, column in PAIRS.items()
    }
    runs = [run(PAIRS, size=2), run(one, seed=1, size=2)]
    (cells,) = pairs_table(runs).rows
    # 4/3 and 8/3 pairs per update: mean 2, SD 0.943; the updates and outcomes of both seeds are summed
    assert cells == (
        "alfworld", "mcgpo", "2.00 ± 0.94", "4 / 6", "–", "0.300 ± 0.000", "–", "3 / 6 / 3", "50.0 ± 0.0", "50.0 ± 0.0",
    )  # fmt: skip
    exact, coarse = levels_table(runs).rows
    assert exact == ("alfworld", "mcgpo", "exact", "0.50 ± 0.24", "3.00 ± 1.41", "2.00 ± 0.00", "75.0 ± 0.0")
    assert coarse[:4] == ("alfworld", "mcgpo", "coarse", "1.50 ± 0.71")
    early, late = windows_table(runs).rows
    assert early[:4] == ("alfworld", "mcgpo", "1–2", "3.00 ± 1.41")
    assert late[:5] == ("alfworld", "mcgpo", "3–3", "0.00 ± 0.00", "–")


def test_group_sizes_come_with_their_quartiles_over_updates() -> None:
    credit = {"group_size": [1.0, 2.0, 3.0, 4.0, 5.0], "singleton_rate": [0.5] * 5}
    (cells,) = groups_table([run(credit, "gigpo")]).rows
    assert cells == ("alfworld", "gigpo", "3.0", "2.0 / 3.0 / 4.0", "50.0", "–", "–", "equal", "1")


COUNTED: dict[str, list[float | None]] = {
    "singleton_rate": [1.0, 0.25],
    "zero_fraction": [1.0, 0.5],
    "group_size": [1.0, 3.25],
    "informative_groups": [0.0, 1.0],
    "trained_decisions": [4.0, 12.0],
    "group_sizes/1": [4.0, 3.0],
    "group_sizes/17_up": [0.0, 0.0],
    "group_sizes/3_4": [0.0, 9.0],
}
"""Two updates of 4 and 12 decisions: 7 of 16 alone, 10 of 16 without credit, mean size (4 · 1 + 12 · 3.25) / 16."""


def test_shares_of_decisions_weigh_an_update_by_its_decisions() -> None:
    found = mechanism(COUNTED)
    assert (found["singleton_rate"], found["zero_fraction"]) == (7 / 16, 10 / 16)  # not 5/8 and 3/4
    assert found["group_size"] == 43 / 16
    assert found["informative_groups"] == 0.5  # a share of task groups
    assert found["trained_decisions"] == 16
    assert [found[f"group_sizes/{name}"] for name in ("1", "3_4", "17_up")] == [7, 9, 0]
    assert mechanism({**COUNTED, "trained_decisions": [4.0, 12.0, None], "group_size": [1.0, 3.25, None]}) == found


def test_updates_weigh_the_same_where_one_of_them_did_not_count() -> None:
    found = mechanism({**COUNTED, "trained_decisions": [None, 12.0], "group_sizes/1": [None, 3.0]})
    assert (found["singleton_rate"], found["group_size"]) == (5 / 8, 17 / 8)
    assert found.keys().isdisjoint({"trained_decisions", "group_sizes/1", "group_sizes/3_4"})  # half a distribution is none
    first, second = mechanism_windows({**COUNTED, "trained_decisions": [None, 12.0]}, 1)
    assert "trained_decisions" not in first
    assert second["trained_decisions"] == 12


def test_the_distribution_of_group_sizes_is_a_mean_over_seeds() -> None:
    other = {**COUNTED, "group_sizes/1": [4.0, 12.0], "group_sizes/3_4": [0.0, 0.0]}
    table = sizes_table([run(COUNTED, "gigpo"), run(other, "gigpo", seed=1), run({"group_size": [2.0]}, "grpo")])
    assert table.columns == ("setting", "entry", "alone", "of 3–4", "of 17+", "seeds")
    # 43.75 and 100 % alone: mean 71.875, SD 39.77; 56.25 and 0 %: mean 28.125; grpo did not count
    assert table.rows == (("alfworld", "gigpo", "71.9 ± 39.8", "28.1 ± 39.8", "0.0 ± 0.0", "2"),)


def test_an_entry_with_a_seed_that_did_not_count_has_no_distribution() -> None:
    runs = [run(COUNTED, "gigpo"), run({"group_size": [2.0, 4.0]}, "gigpo", seed=1)]
    assert sizes_table(runs).rows == ()
    (cells,) = groups_table(runs).rows
    assert cells[-2:] == ("its decisions in 1 of 2 seeds, else equal", "2")
    (cells,) = groups_table(runs[:1]).rows
    assert cells[-2:] == ("its decisions", "1")


def test_entries_that_recorded_nothing_have_no_tables() -> None:
    assert mechanism_tables([run({}, "grpo")]) == []
    assert mechanism_tables([]) == []


def test_the_list_of_runs_has_their_hashes() -> None:
    (cells,) = runs_table([run({}, seed=3)]).rows
    assert cells == (
        "alfworld", "mcgpo", "3", "mcgpo-s3", "0123456789", "m" * 12, "p" * 12, "w" * 12, "r" * 12 + "-modified",
    )  # fmt: skip
