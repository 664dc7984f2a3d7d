"""Small models and batches of decisions with real token ids, for the learner's tests."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditlab.credit.types import AuxiliaryLoss, Credit, LossView
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.settings import TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer
from creditlab.rollouts import Group, RolloutBatch, Rows
from creditlab.testing import random_groups
from creditlab.training.seeds import derive

WORDS = [a + b for a in "abcdef" for b in "abcde"]


@functools.cache
def tokenizer() -> Any:
    return build_tokenizer(WORDS)


def model(seed: int = 0) -> Any:
    """A fresh Qwen2 of some thousand weights, the same for the same seed."""
    return build_model(TinyModel(hidden_size=16, layers=1, heads=2, ffn_size=16, init_std=0.2), tokenizer(), seed)


def learner(seed: int = 0, temperature: float = 1.0, reference: Any = None, **options: Any) -> Learner:
    """A learner of the fresh model; options are those of `DeepSpeedLearner`."""
    settings = DeepSpeedLearner(**options)
    return Learner(model(seed), settings, pad=tokenizer().pad_token_id, temperature=temperature, reference=reference)


@functools.cache
def rollouts(seed: int, temperature: float = 1.0, groups: int = 3, slots: int = 4) -> RolloutBatch:
    """Random trajectories whose responses are sampled from the fresh model at random prompts."""
    found = random_groups(derive(seed, "groups"), groups=groups, slots=slots, turns=4, errors=0.1)
    steps = [step for group in found for t in group.trajectories for step in t.steps]
    rng = derive(seed, "prompts")
    prompts = [rng.integers(3, len(WORDS), rng.integers(1, 9)).astype(np.int32) for _ in steps]
    uniforms = derive(seed, "uniforms").random((len(steps), 5))
    samples = TransformersGenerator(model(), tokenizer())(prompts, uniforms, temperature, 64)
    filled = iter(
        replace(s, prompt_ids=p, response_ids=r.ids, logprobs=r.logprobs)
        if len(s.response_ids) else replace(s, prompt_ids=p, logprobs=np.zeros(0, np.float32))
        for s, p, r in zip(steps, prompts, samples, strict=True)
    )  # fmt: skip

    def fill(group: Group) -> Group:
        return replace(
            group,
            trajectories=tuple(replace(t, steps=tuple(next(filled) for _ in t.steps)) for t in group.trajectories),
        )

    return RolloutBatch(tuple(fill(group) for group in found), update=1, seed=seed, temperature=temperature)


def train_batch(seed: int = 0, auxiliary: Sequence[AuxiliaryLoss] = (), shift: float = 0.0, **options: Any) -> TrainBatch:
    """Decisions with random advantages; `shift` moves the recorded log-probabilities, so that ratios differ from 1."""
    batch = rollouts(seed, **options)
    rows = Rows.from_batch(batch)
    built = TrainBatch.build(batch, rows, Credit(derive(seed, "advantages").normal(size=len(rows)), tuple(auxiliary)))
    rng = derive(seed, "shift")
    moved = tuple((logp + rng.normal(0, shift, logp.shape)).astype(np.float32) for logp in built.old_logp)
    return replace(built, old_logp=moved)


def permuted(batch: TrainBatch, order: NDArray[np.int64]) -> TrainBatch:
    """The same decisions in another order."""
    return replace(
        batch,
        prompts=tuple(batch.prompts[i] for i in order),
        responses=tuple(batch.responses[i] for i in order),
        old_logp=tuple(batch.old_logp[i] for i in order),
        advantages=batch.advantages[order],
        keys=batch.keys[order],
        trajectories=batch.trajectories[order],
        lengths=batch.lengths[order],
        describe=lambda row: batch.describe(int(order[row])),
    )


def weights(trained: Learner) -> dict[str, torch.Tensor]:
    """A copy of all weights, whole ones under ZeRO-3 too."""
    from deepspeed.runtime.zero import GatheredParameters

    with GatheredParameters(list(trained.module.parameters()), enabled=trained.zero_stage == 3):
        return {name: value.detach().clone() for name, value in trained.module.named_parameters()}


def largest_difference(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    return max(float((first[name].float() - second[name].float()).abs().max()) for name in first)


@dataclass(frozen=True)
class Watching:
    """An auxiliary loss that remembers what it was shown; `value` makes its loss out of a view, which is else 0."""

    seen: list[LossView]
    pairs: NDArray[np.int64]
    weight: float = 1.0
    name: str = "watching"
    value: Callable[[LossView], torch.Tensor] | None = None

    def __call__(self, view: LossView) -> torch.Tensor:
        self.seen.append(view)
        return self.value(view) if self.value else view.logp.sum() * 0.0
