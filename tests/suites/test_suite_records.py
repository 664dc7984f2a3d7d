"""Records of runs, and the curves and mechanism figures that come out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from suite_runs import line, planned, whole, write_run

from creditlab.analysis.pairing import check_pair, pair
from creditlab.options import ConfigError
from creditlab.suites.collect import FinishedRun, curve_of
from creditlab.suites.differences import differences, differences_table
from creditlab.suites.plan import PlannedRun
from creditlab.suites.record import (
    make_record,
    manifest_hash,
    read_record,
    record_of,
    record_path,
    sealed,
    write_record,
)
from creditlab.suites.standing import standing


def finished(run: PlannedRun, **manifest: Any) -> FinishedRun:
    write_run(run, whole(run), **manifest)
    return FinishedRun(run, make_record(run))


def test_a_curve_holds_percent_transitions_and_training_seconds(tmp_path: Path) -> None:
    curve = curve_of(finished(planned(tmp_path, "mcgpo match=state_only", seed=3)))
    assert (curve.method, curve.setting, curve.seed) == ("mcgpo match=state_only", "corridor", 3)
    assert curve.updates == (0, 2, 4)
    assert curve.values == (50.0, 50.0, 50.0)
    assert curve.families == {"walk": (25.0, 25.0, 25.0)}
    assert curve.transitions == (0, 20, 40)
    assert curve.seconds == (0.0, 4.0, 8.0)  # two seconds an update, evaluations not counted
    assert (curve.panel, curve.warm_start) == ("p" * 64, "a" * 64)


def test_the_code_of_plug_ins_is_that_of_every_sitting_and_of_older_runs_unknown(tmp_path: Path) -> None:
    """Where there are no sources the version says which code it was."""
    sittings = [{"plugin_code": {"a:a": {"version": "1", "sha256": "one"}}}, {"creditlab": "0.1.0"}]
    now = {"a:a": {"version": "1", "sha256": "two"}, "b:b": {"version": "3", "sha256": None}, "c": {"sha256": None}}
    run = finished(planned(tmp_path), sittings=[*sittings, {"plugin_code": now}], plugin_code=now)
    assert run.facts["plugin_code"] == {
        "a:a": {"made_with": ["one", "two"], "installed": None},
        "b:b": {"made_with": ["3"], "installed": None},
    }
    assert finished(planned(tmp_path)).facts["plugin_code"] == {}


def test_what_an_earlier_shorter_plan_evaluated_at_its_end_is_no_part_of_the_curve(tmp_path: Path) -> None:
    run = planned(tmp_path, updates=6)
    write_run(run, [line(step, evaluated=step in (0, 2, 3, 4, 6), success=step / 10) for step in range(7)])
    assert curve_of(FinishedRun(run, make_record(run))).updates == (0, 2, 4, 6)


def test_a_longer_run_serves_a_shorter_plan_up_to_its_end(tmp_path: Path) -> None:
    longer, shorter = planned(tmp_path, updates=6), planned(tmp_path, updates=4)
    write_run(longer, whole(longer))
    assert standing(shorter).finished
    assert curve_of(FinishedRun(shorter, make_record(shorter))).updates == (0, 2, 4)
    write_record(tmp_path / "records", longer, make_record(longer))
    record = read_record(tmp_path / "records", shorter)
    assert record is not None
    assert curve_of(FinishedRun(shorter, record)).updates == (0, 2, 4)


def test_a_shorter_plan_takes_nothing_from_the_record_of_a_longer_run(tmp_path: Path) -> None:
    longer, shorter = planned(tmp_path, updates=6), planned(tmp_path, updates=4)
    write_run(longer, [{**record, "credit/group_size": 2.0} if record["step"] else record for record in whole(longer)])
    record = make_record(shorter)  # whichever plan it is made for
    write_record(tmp_path / "records", shorter, record)
    assert record == make_record(longer) == read_record(tmp_path / "records", longer)
    facts = FinishedRun(shorter, {**record, "credit": {"pairs/accepted": [1.0] * 6}}).facts
    assert facts["mechanism"]["pairs/accepted"] == 4.0  # those of the four updates


def test_a_record_that_reaches_further_than_the_run_folder_stays(tmp_path: Path) -> None:
    longer, shorter = planned(tmp_path / "elsewhere", updates=6), planned(tmp_path, updates=4)
    write_run(longer, whole(longer))
    write_record(tmp_path / "records", longer, make_record(longer))
    write_run(shorter, whole(shorter))
    write_record(tmp_path / "records", shorter, make_record(shorter))
    assert read_record(tmp_path / "records", longer) == make_record(longer)


def test_a_folder_that_was_made_again_replaces_its_record(tmp_path: Path) -> None:
    run = planned(tmp_path)
    write_run(run, whole(run))
    write_record(tmp_path / "records", run, make_record(run))
    write_run(run, [line(step, evaluated=step in run.schedule, success=0.75) for step in range(5)])
    write_record(tmp_path / "records", run, make_record(run))
    record = read_record(tmp_path / "records", run)
    assert record is not None
    assert record["evaluations"][-1]["metrics"]["val/success_rate"] == 0.75


def test_a_changed_record_is_not_written_over(tmp_path: Path) -> None:
    run = planned(tmp_path)
    record = finished(run).record
    path = record_path(tmp_path / "records", run)
    write_record(path.parent, run, dict(record))
    changed = path.read_text().replace('"val/success_rate": 0.5', '"val/success_rate": 0.9', 1)
    path.write_text(changed)
    with pytest.raises(ConfigError, match="is not as it was written"):
        write_record(path.parent, run, dict(record))
    assert path.read_text() == changed


def test_a_record_serves_where_the_run_folder_is_damaged(tmp_path: Path) -> None:
    run = planned(tmp_path)
    record = dict(finished(run).record)
    (run.folder / "manifest.json").write_text("{")
    with pytest.raises(ConfigError, match=r"manifest.json is damaged"):
        record_of(tmp_path / "records", run)
    write_record(tmp_path / "records", run, record)
    assert record_of(tmp_path / "records", run) == record


def test_records_leave_out_where_a_run_lay_and_how_it_was_watched(tmp_path: Path) -> None:
    config = {
        "run_root": "/home/someone/runs",
        "resume": "auto",
        "overwrite": False,
        "tracking": {"wandb": "offline"},
        "warm_start": {"seed": 0, "cache": "/home/someone/cache"},
        "env": {"name": "corridor", "cache": "/home/someone/catalogue"},
        "method": {"name": "grpo"},
    }
    run = planned(tmp_path, **config)
    record = finished(run).record
    assert record["config"] == {
        "rollout": {"groups": 2},
        "warm_start": {"seed": 0},
        "env": {"name": "corridor"},
        "method": {"name": "grpo"},
    }
    assert "someone" not in json.dumps(record)


def test_a_longer_run_that_was_not_evaluated_there_is_refused(tmp_path: Path) -> None:
    longer, shorter = planned(tmp_path, updates=6), planned(tmp_path, updates=5)
    write_run(longer, whole(longer))
    with pytest.raises(ConfigError, match="was trained up to update 6 and lacks the evaluation after update 5"):
        standing(shorter)


@pytest.mark.parametrize("lines", [[], [0], [0, 1, 2], [0, 1, 2, 3]])
def test_a_run_is_not_finished_before_its_last_evaluation(tmp_path: Path, lines: list[int]) -> None:
    run = planned(tmp_path)
    write_run(run, [line(step, evaluated=step in run.schedule) for step in lines])
    at = standing(run)
    assert (at.update, at.finished) == (len(lines) - 1, False)


def test_a_torn_last_line_counts_as_absent_and_damage_is_named(tmp_path: Path) -> None:
    run = planned(tmp_path)
    write_run(run, whole(run))
    path = run.folder / "metrics.jsonl"
    text = path.read_text()
    path.write_text(text[:-20])
    assert not standing(run).finished
    path.write_text(text.replace('{"step": 2', '{"stop": 2'))
    with pytest.raises(ConfigError, match=r"metrics.jsonl, line 3"):
        standing(run)


def test_a_record_comes_back_as_it_was_written(tmp_path: Path) -> None:
    run = planned(tmp_path)
    record = dict(finished(run).record)
    write_record(tmp_path / "records", run, record)
    assert read_record(tmp_path / "records", run) == record
    assert read_record(tmp_path / "records", planned(tmp_path, updates=6)) is None
    assert read_record(tmp_path / "nowhere", run) is None


def test_a_changed_or_foreign_record_is_refused_by_name(tmp_path: Path) -> None:
    run, folder = planned(tmp_path), tmp_path / "records"
    write_record(folder, run, dict(finished(run).record))
    path = record_path(folder, run)
    text = path.read_text()
    for damaged, reason in (
        (text.replace('"val/success_rate": 0.5', '"val/success_rate": 0.9', 1), "is not as it was written"),
        (text[:-10], "is no record of a run"),
        ("[]", "is no record of a run in format 2"),
        (text.replace('"format": 2', '"format": 1', 1), "is no record of a run in format 2"),
    ):
        assert damaged != text
        path.write_text(damaged)
        with pytest.raises(ConfigError, match=reason) as error:
            read_record(folder, run)
        assert str(path) in str(error.value)
    path.write_text(text)
    path.rename(record_path(folder, planned(tmp_path, seed=1)))
    with pytest.raises(ConfigError, match="is the record of another run"):
        read_record(folder, planned(tmp_path, seed=1))


def test_a_folder_of_another_configuration_makes_no_record(tmp_path: Path) -> None:
    run = planned(tmp_path)
    with pytest.raises(ConfigError, match="holds configuration 9999999999, not 0123456789"):
        finished(run, configuration_hash="9999999999")


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"panel": {"name": "panel", "episodes": 4, "hash": "q" * 64}}, "other evaluation panels"),
        ({"warm_start": {"hash": "w" * 16, "weights": "b" * 64}}, "other warm starts"),
        ({"environment": {"environment": "corridor", "train_games": 11}}, "other orders of training tasks"),
    ],
)
def test_runs_that_do_not_share_what_pairs_share_are_not_paired(tmp_path: Path, changed: dict[str, Any], reason: str) -> None:
    one, other = finished(planned(tmp_path, "grpo")), finished(planned(tmp_path, "mcgpo"))
    assert check_pair(curve_of(one), curve_of(other)) == ()
    [why] = check_pair(curve_of(one), curve_of(finished(planned(tmp_path, "rloo"), **changed)))
    assert why.startswith(reason)


@pytest.mark.parametrize("digest", ["games_hash", "catalogue_hash"])
def test_where_the_same_tasks_were_read_from_breaks_no_pair(tmp_path: Path, digest: str) -> None:
    tasks = {"environment": "corridor", "train_games": 10, digest: "g" * 64, "source": "/here", "skipped": {}}
    one = curve_of(finished(planned(tmp_path, "grpo"), environment=tasks))
    elsewhere = {**tasks, "source": "/there", "skipped": {"no goal": 2}}
    assert check_pair(one, curve_of(finished(planned(tmp_path, "mcgpo"), environment=elsewhere))) == ()
    others = {**tasks, digest: "h" * 64}
    [why] = check_pair(one, curve_of(finished(planned(tmp_path, "rloo"), environment=others)))
    assert why.startswith("other orders of training tasks")
    # without a hash the source is all that says which tasks these are
    bare = {"environment": "corridor", "train_games": 10, "source": "/here"}
    one, other = (
        curve_of(finished(planned(tmp_path, entry), environment={**bare, "source": source}))
        for entry, source in (("grpo", "/here"), ("mcgpo", "/there"))
    )
    assert len(check_pair(one, other)) == 1


def test_a_run_that_did_not_record_its_weights_is_neither_paired_nor_broken_by_its_recipe(tmp_path: Path) -> None:
    one = curve_of(finished(planned(tmp_path, "grpo")))
    other = curve_of(finished(planned(tmp_path, "mcgpo"), warm_start={"hash": "w" * 16}))
    assert check_pair(one, other) == ()
    assert pair({0: other}, {0: one}, ("mcgpo", "grpo")).unknown == ("warm starts",)


def test_other_groups_per_update_are_another_task_order(tmp_path: Path) -> None:
    one = finished(planned(tmp_path, "grpo"))
    other = finished(planned(tmp_path, "mcgpo", rollout={"groups": 4}))
    [why] = check_pair(curve_of(one), curve_of(other))
    assert why.startswith("other orders of training tasks")


def test_facts_of_a_run_say_what_made_it(tmp_path: Path) -> None:
    run = finished(planned(tmp_path, "mcgpo fold=same"))
    facts = json.loads(json.dumps(run.facts))
    assert (facts["method"], facts["overrides"], facts["manifest_hash"]) == (
        "mcgpo",
        ["fold=same"],
        manifest_hash(run.record),
    )
    assert manifest_hash(run.record) != manifest_hash(sealed({**run.record, "manifest": {}}))


def test_configuration_differences_leave_out_what_every_run_has_of_its_own() -> None:
    shared = {"env": {"name": "corridor"}, "rollout": {"groups": 2}}
    one = {**shared, "method": {"name": "grpo"}, "seed": 0, "tracking": {"tags": ["a"]}}
    other = {**shared, "method": {"name": "mcgpo", "omega": 0.1}, "seed": 1, "tracking": {"tags": []}}
    assert differences({"grpo": one, "mcgpo": other}) == {
        "method.name": {"grpo": "grpo", "mcgpo": "mcgpo"},
        "method.omega": {"mcgpo": 0.1},
    }
    assert differences_table("corridor", {"grpo": one, "mcgpo": other}).notes == ()


def test_differences_that_begin_before_credit_are_marked() -> None:
    one = {"rollout": {"groups": 2, "temperature": 1.0, "batch_size": 8}, "learner": {"lr": 0.1, "precision": "fp32"}}
    other = {"rollout": {"groups": 2, "temperature": 0.7, "batch_size": 4}, "learner": {"lr": 0.2, "precision": "bf16"}}
    [note] = differences_table("corridor", {"grpo": one, "cooler": other}).notes
    assert note == "Not credit alone: by rollout.temperature, learner.precision the first rollouts differ already."
