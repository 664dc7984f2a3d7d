"""Entries against a baseline: what is compared, what is left out and why, and all of it in the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.comparison_tables import (
    as_record,
    bootstrap_table,
    budget_table,
    differences_table,
    family_table,
    pairing_table,
    plain_rows,
    reach_table,
    results_table,
    score_tables,
    seeds_table,
    tables,
)
from creditlab.analysis.curves import Curve, Reached
from creditlab.analysis.statistics import interquartile_mean, probability_of_improvement
from creditlab.analysis.tables import json_text, latex, markdown

UPDATES = (0, 5, 10)
GRPO = {0: (10.0, 20.0, 30.0), 1: (12.0, 18.0, 36.0), 2: (11.0, 19.0, 30.0)}
MCGPO = {0: (10.0, 30.0, 40.0), 1: (12.0, 28.0, 40.0), 2: (11.0, 32.0, 42.0)}


def curve(method: str, seed: int, values: tuple[float, ...], **changes: Any) -> Curve:
    updates = tuple(5 * place for place in range(len(values)))
    facts: dict[str, Any] = {"transitions": tuple(100 * at for at in updates), "seconds": tuple(float(at) for at in updates)}
    facts |= {"panel": "p" * 64, "warm_start": "w" * 16, "task_order": f"order {seed}"}
    return replace(Curve(method, "alfworld", seed, updates, values), **(facts | changes))


def curves(**changes: Any) -> list[Curve]:
    sides = (("grpo", GRPO), ("mcgpo", MCGPO))
    return [curve(method, seed, values, **changes) for method, side in sides for seed, values in side.items()]


def compare(found: list[Curve] | None = None, **options: Any) -> Comparison:
    return Comparison(curves() if found is None else found, "grpo", **({"k": 2} | options))


def test_measures_over_seeds_by_hand() -> None:
    """L2 of grpo: 25, 27, 24.5; final: 30, 36, 30; AUC: (10/2 + 20 + 30/2) / 2 = 20, then 21 and 19.75."""
    found = compare()
    assert found.entries == ["grpo", "mcgpo"]
    assert found.challengers == ["mcgpo"]
    assert found.settings == ["alfworld"]
    assert found.summary("grpo", "alfworld").per_seed == {0: 25.0, 1: 27.0, 2: 24.5}
    final = found.summary("grpo", "alfworld", "final").moments
    assert final is not None
    assert (final.mean, final.count) == (32.0, 3)
    assert final.sd == pytest.approx(np.sqrt(12))
    assert found.summary("grpo", "alfworld", "auc").per_seed == {0: 20.0, 1: 21.0, 2: 19.75}
    assert found.summary("grpo", "alfworld").remarks == ()


def test_paired_differences_by_hand() -> None:
    """Final: +10, +4, +12, mean 26/3; L2: 35 − 25, 34 − 27, 37 − 24.5."""
    found = compare()
    final = found.difference("mcgpo", "alfworld", "final")
    assert final.paired is not None
    assert final.paired.per_seed == {0: 10.0, 1: 4.0, 2: 12.0}
    assert final.paired.mean == pytest.approx(26 / 3)
    assert found.difference("mcgpo", "alfworld").paired.per_seed == {0: 10.0, 1: 7.0, 2: 12.5}  # type: ignore[union-attr]
    # mean 8.667, SD 4.163: half width 4.303 · 4.163 / √3 = 10.34
    assert final.reading == "covers zero"
    assert found.difference("mcgpo", "alfworld").reading == "above zero"
    assert final.remarks == ()


def test_the_order_of_curves_changes_no_number_and_swapping_the_entries_flips_signs() -> None:
    found = compare().difference("mcgpo", "alfworld").paired
    assert compare(curves()[::-1]).difference("mcgpo", "alfworld").paired == found
    swapped = Comparison(curves(), "mcgpo", k=2)
    assert found is not None
    assert swapped.difference("grpo", "alfworld").paired.mean == -found.mean  # type: ignore[union-attr]
    assert swapped.difference("grpo", "alfworld").reading == "below zero"


def test_one_seed_has_no_interval_and_the_report_says_so() -> None:
    found = compare([curve("grpo", 0, GRPO[0]), curve("mcgpo", 0, MCGPO[0])])
    versus = found.difference("mcgpo", "alfworld")
    assert versus.reading == "no interval"
    assert versus.remarks == ("one seed: no interval",)
    table = differences_table(found)
    assert table.rows[0] == ("alfworld", "mcgpo", "L2", "+10.00", "–", "1", "no interval")
    assert table.notes == ("alfworld, mcgpo: one seed: no interval",)
    assert results_table(found).rows[0] == ("alfworld", "grpo", "25.00", "30.00", "20.00", "1")
    assert "one seed: no interval" in budget_table(found).notes[0]
    band = found.band("grpo", "alfworld")
    assert band is not None
    assert (band.mean, band.low, band.high) == (GRPO[0], None, None)


def test_a_missing_seed_is_marked_and_the_others_compared() -> None:
    found = compare([run for run in curves() if (run.method, run.seed) != ("mcgpo", 1)])
    versus = found.difference("mcgpo", "alfworld", "final")
    assert versus.paired is not None
    assert versus.paired.per_seed == {0: 10.0, 2: 12.0}
    assert versus.remarks == ("seed 1: mcgpo has no run",)
    assert found.summary("mcgpo", "alfworld").remarks == ("seed 1: no run",)
    assert results_table(found).notes == ("alfworld, mcgpo: seed 1: no run",)
    assert pairing_table(found).rows == (("alfworld", "mcgpo", "0, 2", "seed 1: mcgpo has no run", "–"),)


@pytest.mark.parametrize("name", ["panel", "warm_start", "task_order"])
def test_runs_that_are_no_pair_are_refused_with_the_reason(name: str) -> None:
    changed = [replace(run, **{name: f"other {run.seed}"}) if run.method == "mcgpo" else run for run in curves()]
    found = compare(changed)
    versus = found.difference("mcgpo", "alfworld")
    assert versus.paired is None
    assert versus.reading == "not paired"
    assert versus.remarks[0] == "mcgpo is not paired with grpo at any seed"
    assert len(versus.remarks) == 4
    assert all(": other " in remark for remark in versus.remarks[1:])
    assert differences_table(found).rows[0] == ("alfworld", "mcgpo", "L2", "–", "–", "0", "not paired")
    assert found.budgets("mcgpo", "alfworld").difference is None
    assert found.difference_band("mcgpo", "alfworld") is None


def test_a_run_that_stopped_early_is_left_out_and_named() -> None:
    """Its last evaluations are not those of the others."""
    stopped = [run.until(5) if (run.method, run.seed) == ("mcgpo", 2) else run for run in curves()]
    found = compare(stopped)
    assert list(found.summary("mcgpo", "alfworld").per_seed) == [0, 1]
    assert found.summary("mcgpo", "alfworld").remarks == ("seed 2: left out, the run ends at update 5 of 10",)
    versus = found.difference("mcgpo", "alfworld")
    assert versus.paired is not None
    assert list(versus.paired.per_seed) == [0, 1]
    assert len(versus.remarks) == 1  # the reason stands once
    assert versus.remarks[0].startswith("seed 2: other schedules: 2 evaluations up to update 5 and 3 up to 10")
    assert list(found.reaching("mcgpo", "alfworld", 20.0)) == [0, 1]
    assert [match.seed for match in found.budgets("mcgpo", "alfworld").matches] == [0, 1]
    assert "seed 2: a run did not finish" in found.budgets("mcgpo", "alfworld").remarks
    both = compare([run.until(5) if run.seed == 2 else run for run in curves()]).difference("mcgpo", "alfworld")
    assert both.paired is not None
    assert list(both.paired.per_seed) == [0, 1]
    assert both.remarks == tuple(f"{entry}, seed 2: left out, the run ends at update 5 of 10" for entry in ("mcgpo", "grpo"))


def test_an_entry_that_ends_before_the_others_is_named() -> None:
    found = compare([run.until(5) if run.method == "mcgpo" else run for run in curves()])
    assert found.summary("mcgpo", "alfworld").remarks == ("all runs end at update 5, others in this setting at 10",)
    assert found.difference("mcgpo", "alfworld").paired is None


def test_too_few_evaluations_leave_the_measure_out_with_the_key_that_helps() -> None:
    """The runs pair: it is L5 alone that three evaluations do not have."""
    found = compare(k=5)
    why = "seeds 0, 1, 2: left out, 3 evaluations, the mean of the last 5 needs 5; last=3 takes what there is"
    assert found.summary("grpo", "alfworld").moments is None
    assert found.summary("grpo", "alfworld").remarks == (why,)
    versus = found.difference("mcgpo", "alfworld")
    assert versus.paired is None
    assert versus.reading == "not measured"
    assert versus.remarks == ("mcgpo and grpo do not both have L5 at any seed", f"mcgpo, {why}", f"grpo, {why}")
    assert [row[-1] for row in differences_table(found).rows] == ["not measured", "covers zero", "above zero"]
    assert found.difference("mcgpo", "alfworld", "final").paired is not None
    assert found.baseline_level("alfworld") is None
    assert (reach_table(found).rows, reach_table(found).notes) == ((), ())
    assert compare(k=3).summary("grpo", "alfworld").per_seed[0] == 20.0


def test_one_evaluation_has_no_area() -> None:
    found = compare([Curve(method, "a", 0, (250,), (1.0,)) for method in ("grpo", "mcgpo")], k=1)
    assert found.summary("grpo", "a", "auc").remarks == ("seed 0: left out, one evaluation has no area; the AUC needs two",)
    assert found.summary("grpo", "a").per_seed == {0: 1.0}


def five(*, settings: tuple[str, ...] = ("alfworld",)) -> list[Curve]:
    """Two entries, five seeds, one evaluation each."""
    values = {"grpo": (1.0, 2.0, 3.0, 4.0, 5.0), "mcgpo": (2.0, 4.0, 3.0, 6.0, 9.0)}
    return [
        Curve(method, setting, seed, (5,), (value * (place + 1),))
        for place, setting in enumerate(settings)
        for method, side in values.items()
        for seed, value in enumerate(side)
    ]


def test_five_seeds_have_bootstrap_intervals_and_four_have_none() -> None:
    found = compare(five(), k=1)
    versus = found.difference("mcgpo", "alfworld")
    assert versus.iqm == interquartile_mean([[1.0, 2.0, 0.0, 2.0, 4.0]])
    # of 25 pairs mcgpo is above in 1 + 3 + 2 + 5 + 5 and level in 1 + 1 + 1
    assert versus.improvement is not None
    assert versus.improvement.value == pytest.approx((16 + 1.5) / 25)
    assert found.summary("mcgpo", "alfworld").iqm == interquartile_mean([[2.0, 4.0, 3.0, 6.0, 9.0]])
    rows = bootstrap_table(found).rows
    assert len(rows) == 4
    assert rows[0][:3] == ("alfworld", "grpo", "L1")
    assert rows[0][3].startswith("3.00 [")
    assert rows[0][4:] == ("–", "–")
    # differences alone carry a sign; of 0, 1, 2, 2, 4 the middle three are 5/3
    assert [cell.split()[0] for cell in rows[2][3:]] == ["4.33", "+1.67", "0.70"]
    four = compare([run for run in five() if run.seed < 4], k=1)
    assert four.difference("mcgpo", "alfworld").iqm is None
    assert four.difference("mcgpo", "alfworld").improvement is None
    assert bootstrap_table(four).rows == ()


def test_settings_are_strata() -> None:
    found = compare(five(settings=("alfworld", "webshop")), k=1).across("mcgpo")
    assert found is not None
    ours, theirs = [2.0, 4.0, 3.0, 6.0, 9.0], [1.0, 2.0, 3.0, 4.0, 5.0]
    twice = [2 * value for value in ours], [2 * value for value in theirs]
    assert found.settings == ("alfworld", "webshop")
    assert found.iqm == interquartile_mean([[1.0, 2.0, 0.0, 2.0, 4.0], [2.0, 4.0, 0.0, 4.0, 8.0]])
    assert found.improvement == probability_of_improvement([ours, twice[0]], [theirs, twice[1]])
    assert compare(five(), k=1).across("mcgpo") is None
    assert bootstrap_table(compare(five(settings=("alfworld", "webshop")), k=1)).rows[-1][0] == "alfworld + webshop"


def test_budgets_over_seeds() -> None:
    """mcgpo spends twice: grpo's total of 1000 is reached at update 5, where its last two evaluations are matched."""
    twice = [replace(run, transitions=(0, 990, 2000)) if run.method == "mcgpo" else run for run in curves()]
    found = compare(twice).budgets("mcgpo", "alfworld")
    assert [match.updates for match in found.matches] == [(5, 10)] * 3
    assert found.difference is not None
    assert found.difference.per_seed == {0: 20 - 25.0, 1: 20 - 27.0, 2: 21.5 - 24.5}
    assert found.remarks == ("seeds 0, 1, 2: the nearest checkpoints' budgets differ by more than 1 %",)
    row = budget_table(compare(twice)).rows[0]
    assert row == ("alfworld", "mcgpo", "0", "5 / 10", "990 / 1000", "1.010 %", "20.00 / 25.00", "−5.00")
    uncounted = compare(curves(transitions=None)).budgets("mcgpo", "alfworld")
    assert uncounted.matches == ()
    assert uncounted.remarks == ("seeds 0, 1, 2: no environment transitions are recorded, so budgets cannot be matched",)


def test_budgets_are_matched_whatever_the_schedules() -> None:
    other = [replace(run, updates=(0, 7, 14)) if run.method == "mcgpo" else run for run in curves()]
    assert compare(other).difference("mcgpo", "alfworld").paired is None
    assert len(compare(other).budgets("mcgpo", "alfworld").matches) == 3


def test_reaching_what_the_baseline_ends_with() -> None:
    """grpo's L2 is 25.5 in the mean; mcgpo has 30, 28, 32 at update 5."""
    found = compare()
    assert found.baseline_level("alfworld") == 25.5
    assert found.reaching("mcgpo", "alfworld", 25.5) == dict.fromkeys(range(3), Reached(5, 500, 5.0))
    assert found.reaching("mcgpo", "alfworld", 41.0) == {0: None, 1: None, 2: Reached(10, 1000, 10.0)}
    assert reach_table(found).rows[3] == ("alfworld", "mcgpo", "25.50", "0", "5", "500", "5", "5")
    (note,) = reach_table(found).notes
    assert "without the warm start, evaluations, and what was repeated" in note
    dips = [replace(run, values=(26.0, 20.0, 31.0)) if run.method == "grpo" else run for run in curves()]
    assert reach_table(compare(dips)).rows[0] == ("alfworld", "grpo", "25.50", "0", "0", "0", "0", "10")


def test_bands_of_curves_and_of_differences() -> None:
    """At update 5: 20, 18, 19, SD 1; the differences at update 0 are none, at update 10 those of the final evaluation."""
    found = compare()
    band = found.band("grpo", "alfworld")
    assert band is not None
    assert band.low is not None
    assert band.high is not None
    assert (band.updates, band.mean, band.seeds) == (UPDATES, (11.0, 19.0, 32.0), (0, 1, 2))
    assert (band.low[1], band.high[1]) == (18.0, 20.0)
    assert found.seed_differences("mcgpo", "alfworld") == {
        0: {0: 0.0, 5: 10.0, 10: 10.0}, 1: {0: 0.0, 5: 10.0, 10: 4.0}, 2: {0: 0.0, 5: 13.0, 10: 12.0},
    }  # fmt: skip
    versus = found.difference_band("mcgpo", "alfworld")
    final = found.difference("mcgpo", "alfworld", "final").paired
    assert versus is not None
    assert versus.low is not None
    assert versus.high is not None
    assert final is not None
    assert final.interval is not None
    assert (versus.mean[0], versus.low[0], versus.high[0]) == (0.0, 0.0, 0.0)
    assert (versus.mean[2], versus.low[2], versus.high[2]) == (final.mean, final.interval.low, final.interval.high)


def test_bands_hold_the_updates_that_all_runs_were_evaluated_at() -> None:
    other = [replace(run, updates=(0, 7, 10)) if run.seed == 1 else run for run in curves()]
    band = compare(other).band("grpo", "alfworld")
    assert band is not None
    assert (band.updates, band.mean) == ((0, 10), (11.0, 32.0))
    assert compare().band("grpo", "webshop") is None


def test_families_of_tasks() -> None:
    heat = [replace(run, families={"heat": tuple(value / 2 for value in run.values)}) for run in curves()]
    heat[-1] = replace(heat[-1], families={})
    found = compare(heat)
    assert found.families("alfworld") == ["heat"]
    assert found.summary("mcgpo", "alfworld", family="heat").per_seed == {0: 17.5, 1: 17.0}
    paired = found.difference("mcgpo", "alfworld", family="heat").paired
    assert paired is not None
    assert paired.per_seed == {0: 5.0, 1: 3.5}
    table = family_table(found)
    assert table.rows[1][:4] == ("alfworld", "heat", "mcgpo", "17.25 ± 0.35")
    assert table.rows[1][-1] == "2"
    assert table.notes == ("alfworld, heat, mcgpo: seed 2: left out, the family heat was not evaluated",)
    missing = family_table(compare(heat[:-1]))  # what is missing as a whole stands below the results
    assert missing.notes == ()


def test_what_was_not_recorded_stands_in_the_pairing() -> None:
    assert pairing_table(compare(curves(panel=None))).rows[0][-1] == "evaluation panels"


def test_every_number_is_in_the_records() -> None:
    found = compare(five(), k=1)
    record = json.loads(json_text(as_record(found)))
    assert record["results"] == json.loads(json_text(plain_rows(found)))
    row = next(row for row in record["results"] if (row["entry"], row["measure"]) == ("mcgpo", "L1"))
    assert row["difference"] == pytest.approx(1.8)
    assert row["difference_per_seed"] == {"0": 1.0, "1": 2.0, "2": 0.0, "3": 2.0, "4": 4.0}
    assert (row["pairs"], row["reading"]) == (5, "covers zero")
    assert row["improvement_low"] <= row["improvement"] <= row["improvement_high"]
    assert record["bootstrap"]["resamples"] == 10_000
    assert record["pairing"][0]["seeds"] == [0, 1, 2, 3, 4]
    assert seeds_table(found).rows[-1] == ("alfworld", "mcgpo", "final", "4", "9.00", "+4.00")


def test_an_entry_is_listed_only_in_the_settings_where_it_has_runs() -> None:
    alone = [curve("grpo", seed, values, setting="webshop", families={"shoes": values}) for seed, values in GRPO.items()]
    found = compare([*curves(), *alone])
    for table in tables(found):
        assert [row for row in table.rows if {"webshop", "mcgpo"} <= {*row}] == []
        assert [note for note in table.notes if note.startswith("webshop") and "mcgpo" in note] == []
    places = [("alfworld", "grpo"), ("alfworld", "mcgpo"), ("webshop", "grpo")]
    assert [row[:2] for row in results_table(found).rows] == places
    assert [row[:3] for row in family_table(found).rows] == [("webshop", "shoes", "grpo")]
    record = as_record(found)
    for name in ("results", "budgets", "pairing"):
        assert ("webshop", "mcgpo") not in {(row["setting"], row["entry"]) for row in record[name]}


def test_every_table_can_be_written_whatever_its_entries_are_called() -> None:
    named = [replace(run, method=run.method if run.method == "grpo" else "<b>mc|gpo</b> & 100 %") for run in curves()]
    found = tables(compare(named))
    assert len(found) == 6
    assert all("<" not in markdown(table) for table in found)
    assert all(r"\textless{}b\textgreater{}mc\textbar{}gpo" in latex(table) for table in found)


def test_what_cannot_be_compared_is_named() -> None:
    with pytest.raises(ValueError, match="there are no curves"):
        compare([])
    with pytest.raises(ValueError, match="the baseline 'ppo' has no curves; there are: grpo, mcgpo"):
        Comparison(curves(), "ppo")
    with pytest.raises(ValueError, match="grpo on alfworld, seed 0: there are two curves; keep one"):
        compare([*curves(), curves()[0]])
    with pytest.raises(ValueError, match="take at least 1"):
        compare(k=0)


def test_task_scores_are_compared_where_they_say_more_than_success() -> None:
    """L2 of the scores, 2 · success / 3 + 40: 170/3, 58 and 169/3; differences are 2/3 of those of success."""
    scored = [replace(one, score=tuple(2 * value / 3 + 40 for value in one.values)) for one in curves()]
    elsewhere = [replace(one, setting="binary", score=one.values) for one in curves()]
    found = compare([*scored, *elsewhere])
    scores = found.scores
    assert scores is not None
    assert scores.settings == ["alfworld"]
    assert scores.summary("grpo", "alfworld").per_seed == pytest.approx({0: 170 / 3, 1: 58, 2: 169 / 3})
    ours, success = (one.difference("mcgpo", "alfworld").paired for one in (scores, found))
    assert ours is not None
    assert success is not None
    assert ours.mean == pytest.approx(2 / 3 * success.mean)
    results, differences = score_tables(found)
    assert results.rows[0][:3] == ("alfworld", "grpo", "57.00 ± 0.88")
    assert {row[0] for row in differences.rows} == {"alfworld"}
    assert [row["mean"] for row in plain_rows(found) if (row["entry"], row["measure"]) == ("grpo", "score, L2")] == [
        pytest.approx(57.0)
    ]


def test_without_scores_of_their_own_there_is_no_comparison_of_them() -> None:
    assert compare().scores is None
    assert compare(curves(score=None)).scores is None
    assert score_tables(compare([replace(one, score=one.values) for one in curves()])) == []
