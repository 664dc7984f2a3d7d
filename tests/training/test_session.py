"""A run in the corridor: what it leaves, and how it ends when something is wrong."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corridor import Corridor, quick_job
from past_runs import (
    events,
    model_bytes,
    records,
    run_of_four_updates,
    store_of,
    watch_endings,
    without_figures,
)
from transformers import AutoModelForCausalLM

from creditlab.config import Job
from creditlab.credit.types import Credit
from creditlab.hookspecs import Rows
from creditlab.learner.learner import Learner
from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.loading import load_model
from creditlab.policy.policy import Policy
from creditlab.registry import registry
from creditlab.rollouts.store import load, load_advantages
from creditlab.tracking import Summary
from creditlab.tracking.jsonl import read
from creditlab.training import session as session_module
from creditlab.training.evaluation import evaluate
from creditlab.training.seeds import task_order
from creditlab.training.session import train


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    return watch_endings(monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run_of_four_updates(tmp_path_factory.mktemp("finished"))


# what a run leaves


def test_every_step_is_recorded_once(finished: Job) -> None:
    lines = records(finished)
    assert [line["step"] for line in lines] == [0, 1, 2, 3, 4]
    assert [line["step"] for line in lines if "val/success_rate" in line] == [0, 2, 4]
    assert all("episode/success_rate" in line for line in lines[1:])
    decisions = np.cumsum([line["episode/decisions"] for line in lines[1:]])
    assert [line["training/transitions"] for line in lines[1:]] == decisions.tolist()


def test_the_time_split_adds_up(finished: Job) -> None:
    lines = read(finished.folder / "metrics.jsonl")
    assert lines[0]["timing_s/warm_start"] > 0
    assert [line["step"] for line in lines if "timing_s/testing" in line] == [0, 2, 4]
    for line in lines[1:]:
        parts = [line[f"timing_s/{name}"] for name in ("gen", "adv", "update_actor", "store")]
        assert all(seconds > 0 for seconds in parts)
        assert sum(parts) <= line["timing_s/step"]
        assert line["timing_s/env"] <= line["timing_s/gen"]


def test_the_manifest_says_what_the_run_was_made_of(finished: Job) -> None:
    manifest = json.loads((finished.folder / "manifest.json").read_text())
    assert manifest["panel"] == {"name": "corridor", "episodes": 6, "hash": "hash-6-20260"}
    assert manifest["environment"] == {"environment": "corridor", "starts": [0, 0, 0, 0, 0]}
    assert manifest["configuration_hash"] == finished.hash
    assert manifest["warm_start"]["cached"] is False
    assert manifest["warm_start"]["loss_last"] < manifest["warm_start"]["loss_first"]
    assert manifest["packages"]["torch"] == torch.__version__
    assert manifest["convention"] == "default"
    assert json.loads((finished.folder / "config.json").read_text())["rollout"]["group_size"] == 4


def test_stored_rollouts_hold_the_credit_they_got(finished: Job) -> None:
    path = finished.folder / "rollouts" / "update-000003.parquet"
    batch = load(path)
    assert [g.id for g in batch.groups] == ["u3-g0", "u3-g1"]
    assert (batch.update, batch.temperature) == (3, 1.0)
    expected = finished.method(Rows.from_batch(batch)).advantages
    np.testing.assert_array_equal(load_advantages(path), expected)


def test_a_checkpoint_is_a_model_that_plays_like_the_one_that_was_evaluated(finished: Job) -> None:
    folder = finished.folder / "checkpoints" / "update-000004" / "model"
    assert AutoModelForCausalLM.from_pretrained(folder).num_parameters() > 1000
    model, tokenizer = load_model(folder)
    policy = Policy(finished.prompt, tokenizer, TransformersGenerator(model, tokenizer), batch_size=4)
    metrics = evaluate(finished.env, policy, finished.env.panel(6, 20260), 1.0)
    assert metrics["val/success_rate"] == records(finished)[-1]["val/success_rate"]
    assert metrics["val/turns"] == records(finished)[-1]["val/turns"]


def test_the_first_step_on_fresh_samples_has_ratio_one(finished: Job) -> None:
    for line in records(finished)[1:]:
        assert line["actor/ratio_p95_first"] < 1e-4


def test_a_run_learns(finished: Job, tmp_path: Path) -> None:
    """The expert's warm start leaves room in two steps; the corridor is learned within some updates."""
    job = quick_job(
        tmp_path, "training.updates=12", "evaluation.every=0", "checkpoint.every=0", "evaluation.episodes=40",
        "learner.lr=0.003", "rollout.group_size=8",
    )  # fmt: skip
    assert train(job) == 0
    first, last = (line["val/success_rate"] for line in records(job) if "val/success_rate" in line)
    assert last > first + 0.2


def test_the_best_and_the_newest_checkpoints_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scores = iter([0.1, 0.2, 0.9, 0.3, 0.4, 0.9, 0.2])  # the first of equals is the best

    def scored(*arguments: Any, **options: Any) -> dict[str, float]:
        return {"val/success_rate": next(scores), "val/episodes": 6.0}

    monkeypatch.setattr(session_module, "evaluate", scored)
    job = quick_job(tmp_path, "training.updates=6", "evaluation.every=1", "checkpoint.every=3", "checkpoint.keep=1")
    assert train(job) == 0
    assert store_of(job).updates() == [2, 6]  # 2 was the best, though no checkpoint was due
    assert train(replace(job, settings=replace(job.settings, resume="auto"))) == 0


# tasks


def test_every_task_comes_once_per_pass_in_an_order_of_the_seed_alone(tmp_path: Path) -> None:
    def order(*overrides: str) -> list[str]:
        job = quick_job(tmp_path, "rollout.groups=3", *overrides)
        tasks, settings = job.env.train_tasks(), job.settings
        places = [i for n in range(1, 11) for i in task_order(settings.seed, n, settings.rollout.groups, len(tasks))]
        return [tasks[place].id for place in places]

    found = order()
    assert len(found) == 30
    for start in range(0, 30, 5):  # five tasks, six passes
        assert sorted(found[start : start + 5]) == ["t0", "t1", "t2", "t3", "t4"]
    assert len({tuple(found[start : start + 5]) for start in range(0, 30, 5)}) > 1
    assert order("method=grpo") == order("method=mcgpo") == found
    assert order("seed=1") != found


def test_a_run_uses_no_global_random_state(tmp_path: Path) -> None:
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    assert train(quick_job(tmp_path, "training.updates=1")) == 0
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])


# shaping and auxiliary losses


@dataclass(frozen=True)
class Told:
    """A method that remembers the rows it was given."""

    seen: list[Rows]

    def __call__(self, rows: Rows) -> Credit:
        self.seen.append(rows)
        return Credit(np.zeros(len(rows)), diagnostics={"told": 1.0})


@dataclass(frozen=True)
class Numbered:
    """Shaping that adds its number to every decision's reward."""

    def __call__(self, rows: Rows) -> Any:
        return rows.reward + np.arange(len(rows))


@dataclass(frozen=True)
class Undefined:
    """A method without an answer."""

    def __call__(self, rows: Rows) -> Credit:
        return Credit(np.full(len(rows), np.nan))


@dataclass(frozen=True)
class Nothing:
    """An auxiliary loss of zero, and the component that builds it."""

    name: str = "nothing"
    weight: float = 1.0
    value: float = 0.0

    @property
    def pairs(self) -> Any:
        return np.zeros((0, 2), np.int64)

    def __call__(self, given: Any) -> Any:
        if isinstance(given, Rows):
            return self, {"nothing/rows": float(len(given))}
        return given.logp.sum() * 0.0 + self.value


def test_shaping_comes_before_credit_and_auxiliary_losses_are_added(tmp_path: Path) -> None:
    method = Told([])
    job = quick_job(
        tmp_path,
        "training.updates=1",
        method=method,
        shaping=Numbered(),
        aux=(Nothing(), Nothing(name="more", value=2.5)),
    )
    assert train(job) == 0
    [rows] = method.seen
    plain = rows.reward - np.arange(len(rows))
    assert set(plain.tolist()) <= {0.0, 10.0}
    assert rows.outcome.tolist() == np.bincount(rows.trajectory, plain, len(rows.outcome)).tolist()
    line = records(job)[1]
    assert line["credit/told"] == 1.0
    assert line["credit/nothing/rows"] == len(rows)
    assert line["actor/more_loss"] == pytest.approx(2.5)


def test_weightless_pairs_train_like_graphgpo_bit_for_bit(tmp_path: Path) -> None:
    options = ("training.updates=2", "rollout.group_size=8", "rollout.groups=4")
    plain = quick_job(tmp_path, "method=graphgpo", *options)
    weightless = quick_job(tmp_path, "method=mcgpo", "method.pair_weight=0", *options)
    paired = quick_job(tmp_path, "method=mcgpo", *options)
    for job in (plain, weightless, paired):
        assert train(job) == 0
    assert sum(line.get("credit/pairs/accepted", 0) for line in records(paired)) > 0
    assert model_bytes(plain, 2) == model_bytes(weightless, 2)
    assert model_bytes(plain, 2) != model_bytes(paired, 2)


# what goes wrong


def fails(episodes: Callable[[int], bool]) -> Corridor:
    return Corridor(fault=lambda episode, moment: moment == "step" and episodes(episode))


def test_a_failing_episode_costs_a_trajectory_and_the_run_goes_on(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=1", env=fails(lambda episode: episode == 4 + 6 + 3))
    assert train(job) == 0  # four demonstrations and six evaluated episodes come before the first group
    assert records(job)[1]["episode/errors"] == 1.0
    assert [e for e in events(job) if "1 trajectories failed, first: task 't" in e and "the world ended" in e]


def test_a_run_in_which_every_trajectory_fails_stops(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=2", env=fails(lambda episode: episode >= 4 + 6))
    assert train(job) == 1
    assert endings[0].status == "failed"
    assert endings[0].message.startswith("every trajectory of the update failed; first error: task 't")
    assert [line["step"] for line in records(job)] == [0]


def test_a_run_in_which_every_evaluated_episode_fails_stops(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=2", env=fails(lambda episode: 4 <= episode < 4 + 6))
    assert train(job) == 1
    assert "every episode of the evaluation failed" in endings[0].message
    assert records(job) == []
    assert any("task 'p0'" in event for event in events(job))


def test_three_skipped_updates_in_a_row_stop_the_run_with_its_batch(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=9", aux=(Nothing(value=float("nan")),))
    assert train(job) == 1
    assert endings[0].status == "failed"
    stored = job.folder / "rollouts" / "update-000003.parquet"
    assert "3 updates in a row" in endings[0].message
    assert str(stored) in endings[0].message
    assert load(stored).update == 3
    assert [line["actor/skipped_updates"] for line in records(job)[1:]] == [1.0, 2.0]
    assert sum("group 'u1-g" in event and "turn " in event for event in events(job)) == 1
    assert not store_of(job).updates() or model_bytes(job, 2) == start_bytes(job)  # nothing was learned from it


def start_bytes(job: Job) -> bytes:
    [path] = Path(job.settings.warm_start.cache or "").glob("*/model.safetensors")
    return path.read_bytes()


def test_a_good_update_ends_a_row_of_skipped_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original, count = Learner.update, [0]

    def every_third_is_good(learner: Learner, batch: Any, seed: int) -> Any:
        count[0] += 1
        result = original(learner, batch, seed)
        result.skipped = None if count[0] % 3 == 0 else "of a reason"
        return result

    monkeypatch.setattr(Learner, "update", every_third_is_good)
    job = quick_job(tmp_path, "training.updates=8")
    assert train(job) == 0
    assert [line["actor/skipped_updates"] for line in records(job)[1:]] == [1, 2, 2, 3, 4, 4, 5, 6]


def test_an_advantage_that_is_not_finite_ends_the_run_naming_the_decision(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=2", method=Undefined())
    assert train(job) == 1
    assert endings[0].status == "failed"
    assert "failed in update 1: advantage is nan at group 'u1-g0', trajectory 'u1-g0-s0', turn 0" in endings[0].message


def test_tasks_that_start_solved_are_no_accident(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=2", env=Corridor(starts=(2, 2)), method=registry().create("method", "grpo"))
    with pytest.raises(ValueError, match="no demonstrations"):
        train(job)
    job = quick_job(tmp_path, "training.updates=2", "warm_start.steps=0", env=Corridor(starts=(2, 2, 0)))
    assert train(job) == 0
    assert records(job)[1]["episode/success_rate"] > 0
