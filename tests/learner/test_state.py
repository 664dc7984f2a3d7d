"""Every ZeRO stage and precision on one rank: an update, its equality with no sharding, and the state on disk and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_batches import Watching, largest_difference, learner, model, tokenizer, train_batch, weights

from creditlab.learner.learner import Learner
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.learner.state import OPTIMIZER_FILE, gather_state, load_optimizer, optimizer_tensors
from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.loading import load_model

KINDS = [(0, "fp32"), (1, "fp32"), (2, "fp32"), (3, "fp32"), (0, "bf16"), (2, "bf16"), (3, "bf16")]
OPTIONS: dict[str, Any] = {"lr": 1e-3, "steps": 2, "micro_batch": 7, "max_grad_norm": 0.1}


def restored(folder: Path, **options: Any) -> Learner:
    """A learner of what lies in a folder."""
    loaded, words = load_model(folder / "model")
    again = Learner(loaded, DeepSpeedLearner(**options), pad=words.pad_token_id)
    load_optimizer(again, folder)
    return again


@pytest.mark.parametrize(("stage", "precision"), KINDS)
def test_an_updated_learner_comes_back_from_disk_bit_for_bit(stage: int, precision: Any, tmp_path: Path) -> None:
    options = {**OPTIONS, "zero_stage": stage, "precision": precision}
    trained = learner(**options)
    for seed in (0, 1):
        assert trained.update(train_batch(seed=seed, shift=0.3), seed=seed).skipped is None
    gather_state(trained).write(tokenizer(), tmp_path)
    again = restored(tmp_path, **options)
    saved = weights(trained)
    assert all(torch.equal(saved[name], value) for name, value in weights(again).items())
    first, second = optimizer_tensors(trained), optimizer_tensors(again)
    assert float(first["step"]) == 4.0
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name].cpu(), second[name].cpu()) for name in first)
    for one in (trained, again):
        one.update(train_batch(seed=2, shift=0.3), seed=2)
    assert largest_difference(weights(trained), weights(again)) == 0.0
    assert largest_difference(saved, weights(trained)) > 0.0


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_sharding_changes_nothing(stage: int) -> None:
    found = {}
    for zero_stage in (0, stage):
        trained = learner(**OPTIONS, zero_stage=zero_stage)
        metrics = [trained.update(train_batch(seed=s, shift=0.3), seed=s).metrics for s in (0, 1)]
        found[zero_stage] = weights(trained), [m["actor/grad_norm"] for m in metrics]
    assert largest_difference(found[0][0], found[stage][0]) < 1e-5
    assert found[0][1] == pytest.approx(found[stage][1], rel=1e-4)
    assert found[0][1][0] > 0.1  # the clip binds


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_bf16_follows_fp32_up_to_its_precision(stage: int) -> None:
    start = {f"model.{name}": value.detach() for name, value in model().named_parameters()}
    moved = {}
    for precision in ("fp32", "bf16"):
        trained = learner(**OPTIONS, zero_stage=stage, precision=precision)
        assert trained.update(train_batch(shift=0.3), seed=0).skipped is None
        master = optimizer_tensors(trained)
        found = {n: master.get(f"{n}/master", value).cpu() for n, value in weights(trained).items()}
        moved[precision] = torch.cat([(found[name].float() - start[name]).flatten() for name in sorted(start)])
    # bf16 rounds a weight w by up to |w|/256 before any step is taken
    assert torch.nn.functional.cosine_similarity(moved["fp32"], moved["bf16"], dim=0) > 0.5


@pytest.mark.parametrize(("stage", "precision"), [(1, "fp32"), (2, "fp32"), (3, "fp32"), (0, "bf16")])
def test_a_refused_step_leaves_nothing_behind(stage: int, precision: Any) -> None:
    """A loss that turns bad in the second micro-batch, and a gradient that is not finite."""
    options = {**OPTIONS, "steps": 1, "zero_stage": stage, "precision": precision}
    trained, untouched = learner(**options), learner(**options)
    before = weights(trained)
    calls: list[Any] = []

    def bad_loss(view: Any) -> torch.Tensor:
        return view.logp.sum() * (float("nan") if len(calls) > 1 else 0.0)

    def bad_gradient(view: Any) -> torch.Tensor:
        return (view.logp.sum() * 0.0).abs().sqrt()

    no_pairs = torch.zeros(0, 2, dtype=torch.int64).numpy()
    for value in (bad_loss, bad_gradient):
        result = trained.update(train_batch(auxiliary=[Watching(calls, no_pairs, value=value)]), seed=0)
        assert "not finite" in str(result.skipped)
        assert largest_difference(before, weights(trained)) == 0.0
    for one in (trained, untouched):
        assert one.update(train_batch(), seed=1).skipped is None
    assert largest_difference(weights(untouched), weights(trained)) == 0.0


@pytest.mark.parametrize("stage", [2, 3])
def test_a_sharded_model_generates(stage: int) -> None:
    batch = train_batch()
    uniforms = torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).double().numpy()
    samples = [
        TransformersGenerator(learner(zero_stage=s).module.model, tokenizer())(batch.prompts[:4], uniforms, 1.0, 4)
        for s in (0, stage)
    ]
    assert [s.ids.tolist() for s in samples[0]] == [s.ids.tolist() for s in samples[1]]


def test_a_fresh_learner_saves_no_moments_and_takes_none(tmp_path: Path) -> None:
    trained = learner(**OPTIONS)
    gather_state(trained).write(tokenizer(), tmp_path)
    assert load_file(tmp_path / OPTIMIZER_FILE) == {}
    again = restored(tmp_path, **OPTIONS)
    for one in (trained, again):
        one.update(train_batch(), seed=0)
    assert largest_difference(weights(trained), weights(again)) == 0.0


def test_moments_of_another_model_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / OPTIMIZER_FILE
    save_file({"step": torch.tensor(1.0), "other/exp_avg": torch.zeros(2)}, path)
    with pytest.raises(ValueError, match=rf"{path} belongs to another model: it lacks 'model\."):
        load_optimizer(learner(), tmp_path)


def test_an_fp32_learner_computes_in_float32_whatever_the_weights_were_stored_in() -> None:
    stored = model().to(torch.bfloat16)
    trained = Learner(stored, DeepSpeedLearner(), pad=tokenizer().pad_token_id)
    assert {value.dtype for value in trained.module.parameters()} == {torch.float32}
