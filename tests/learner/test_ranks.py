"""On the same stored batches, one rank and two, and any split into micro-batches, take the steps of the definition."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import ranks
import torch
from one_of_two_ranks import update
from safetensors.torch import load_file
from several_ranks import BF16, OPTIONS, SEEDS, STAGES, Trained, share, train
from test_learner import definition, relative
from tiny_batches import largest_difference, model

from creditlab.learner.batching import plan_steps
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.learner.state import OPTIMIZER_FILE, load_optimizer, optimizer_tensors
from creditlab.policy.loading import load_model

Weights = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def alone() -> Trained:
    """Three updates on one rank, everything of a step in one micro-batch."""
    return train(micro_batch=1000)


def pair_definition(policy: torch.nn.Module, batch: TrainBatch, rows: list[int]) -> torch.Tensor:
    """Σ c · softplus(−(d⁺ − d⁻)) / ⌊|B|/2⌋ over the pairs of a step; d is a response's mean log-ratio."""
    [loss] = batch.auxiliary
    preferences = loss.loss.preferences  # type: ignore[attr-defined]

    def margin(row: int) -> torch.Tensor:
        prompt, response = batch.prompts[row].tolist(), batch.responses[row].tolist()
        scores = torch.log_softmax(policy(torch.tensor([[*prompt, *response]])).logits[0, len(prompt) - 1 : -1], -1)
        new = scores[torch.arange(len(response)), torch.tensor(response)]
        return (new - torch.from_numpy(batch.old_logp[row])).mean()

    answered = sum(len(batch.responses[r]) > 0 for r in rows)
    terms = [
        weight * torch.nn.functional.softplus(margin(loser) - margin(winner))
        for (winner, loser), weight in zip(preferences.pairs.tolist(), preferences.weight.tolist(), strict=True)
        if winner in rows
    ]
    return loss.weight * torch.stack(terms).sum() / max(answered // 2, 1) if terms else torch.zeros(())


@pytest.fixture(scope="module")
def defined() -> tuple[Weights, Weights]:
    """Gradient of the first step and the weights after three updates, by autograd and torch's own AdamW."""
    settings = DeepSpeedLearner(**OPTIONS)
    policy = model()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    first: Weights = {}
    for seed in SEEDS:
        batch = share(seed)
        pairs = [loss.pairs for loss in batch.auxiliary]
        assert sum(map(len, pairs)) > 2
        plans = plan_steps(batch.keys, np.ones(len(batch), np.int64), pairs, steps=2, mini_batch=1, micro_batch=1, seed=seed)
        for plan in plans:
            rows = np.concatenate(plan.micro_batches).tolist()
            optimizer.zero_grad()
            (definition(policy, batch, rows, settings) + pair_definition(policy, batch, rows)).backward()
            first = first or {f"model.{n}": p.grad.clone() for n, p in policy.named_parameters() if p.grad is not None}
            optimizer.step()
    return first, {f"model.{n}": p.detach() for n, p in policy.named_parameters()}


def test_one_rank_takes_the_steps_of_the_definition(alone: Trained, defined: tuple[Weights, Weights]) -> None:
    gradient, weights = defined
    assert relative(gradient, alone.gradient) < 2e-6
    assert largest_difference(weights, alone.weights) < 1e-5
    start = {f"model.{name}": value.detach() for name, value in model().named_parameters()}
    assert largest_difference(start, weights) > 3e-3


@pytest.mark.parametrize("micro_batch", [1, 6])
def test_the_split_into_micro_batches_changes_nothing(micro_batch: int, alone: Trained) -> None:
    """With one row to a micro-batch the two rows of a pair still share one."""
    split = train(micro_batch=micro_batch)
    assert relative(alone.gradient, split.gradient) < 1e-6
    assert largest_difference(alone.weights, split.weights) < 1e-5
    realised = [m["actor/pair_realised"] for m in split.metrics]
    assert realised == [m["actor/pair_realised"] for m in alone.metrics] == [len(share(s).auxiliary[0].pairs) for s in SEEDS]


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which two ranks, started by their variables alone as srun does, leave what they came to."""
    folder = tmp_path_factory.mktemp("ranks")
    with ranks.two_ranks(folder, update, folder) as both:
        for rank in both:
            assert rank.wait(300) == 0, rank.errors[-3000:]
    return folder


@pytest.mark.parametrize("name", STAGES)
def test_two_ranks_train_like_one(name: str, two_ranks: Path, alone: Trained) -> None:
    assert relative(alone.gradient, load_file(two_ranks / f"{name}-gradient.safetensors")) < 1e-6
    assert largest_difference(alone.weights, load_file(two_ranks / f"{name}-weights.safetensors")) < 1e-5


def test_two_ranks_in_bf16_follow_one_in_fp32_up_to_its_precision(two_ranks: Path, alone: Trained) -> None:
    """bf16 has 8 significant bits, and gradients are added up in it: some units of 2⁻⁸ of the largest gradient."""
    assert 1e-4 < relative(alone.gradient, load_file(two_ranks / f"{BF16}-gradient.safetensors")) < 8 * 2**-8
    weights, written = (load_file(two_ranks / name) for name in (f"{BF16}-weights.safetensors", f"{BF16}/{OPTIMIZER_FILE}"))
    assert float(written["step"]) == 2.0 * len(SEEDS)
    assert all(torch.equal(written[f"{name}/master"].bfloat16(), value) for name, value in weights.items())


@pytest.mark.parametrize("name", STAGES)
@pytest.mark.parametrize("stage", [0, 2])
def test_the_state_of_two_ranks_is_that_of_one_at_any_stage(name: str, stage: int, two_ranks: Path) -> None:
    """Weights, moments and step go back into one rank without or with ZeRO, whatever wrote them."""
    loaded, words = load_model(two_ranks / name / "model")
    again = Learner(loaded, DeepSpeedLearner(**OPTIONS, zero_stage=stage), pad=words.pad_token_id)
    load_optimizer(again, two_ranks / name)
    written = load_file(two_ranks / name / "optimizer.safetensors")
    weights = load_file(two_ranks / f"{name}-weights.safetensors")
    assert largest_difference(weights, {n: p.detach() for n, p in again.module.named_parameters()}) == 0.0
    assert float(written["step"]) == 2.0 * len(SEEDS)
    assert all(torch.equal(written[key], value) for key, value in optimizer_tensors(again).items() if key in written)
