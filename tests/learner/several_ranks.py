"""Three updates on a stored batch, on any number of ranks: the parts that one rank and two of them share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from tiny_batches import learner, rollouts, weights

from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.state import optimizer_tensors
from creditlab.registry import registry
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.training.seeds import derive

SEEDS = (14, 7, 13)
"""Seeds of the stored batches, one per update; each has preferences among the groups of either rank."""
OPTIONS: dict[str, Any] = {"lr": 1e-3, "steps": 2, "micro_batch": 6, "max_grad_norm": 0.0, "weight_decay": 0.1}
GROUPS = 6
SLOTS = 8
Of = Callable[[int], bool]
"""Whether a task group, by its place in the batch, belongs to a rank."""


def everything(group: int) -> bool:
    return True


def nothing(group: int) -> bool:
    return False


UNEVEN: tuple[Of, Of] = (lambda group: group < 4, lambda group: group >= 4)
STAGES: dict[str, tuple[int, tuple[Of, Of]]] = {
    "zero0": (0, UNEVEN),
    "zero1": (1, UNEVEN),
    "zero2": (2, UNEVEN),
    "zero3": (3, UNEVEN),
    "zero3-one-rank-without-groups": (3, (everything, nothing)),
}
"""ZeRO stages, and which groups each of two ranks has."""
BF16 = "zero2-bf16"
"""The same in the arithmetic that the large models are trained in."""


@functools.cache
def stored(seed: int) -> RolloutBatch:
    return rollouts(seed, groups=GROUPS, slots=SLOTS)


def share(seed: int, of: Of = everything) -> TrainBatch:
    """The decisions of some groups of a stored batch, with the credit and the pairs of MCGPO."""
    batch = stored(seed)
    own = RolloutBatch(tuple(g for i, g in enumerate(batch.groups) if of(i)), batch.update, batch.seed)
    rows = Rows.from_batch(own)
    built = TrainBatch.build(own, rows, registry().create("method", "mcgpo", pair_weight=0.5)(rows))
    noise = [derive(int(key), "shift").normal(0, 0.3, len(old)) for key, old in zip(built.keys, built.old_logp, strict=True)]
    moved = tuple((old + n).astype(np.float32) for old, n in zip(built.old_logp, noise, strict=True))
    return replace(built, old_logp=moved)  # so that ratios differ from 1


@dataclass
class Trained:
    """A learner after three updates."""

    learner: Learner
    gradient: dict[str, torch.Tensor]
    """Of the first optimizer step, summed over micro-batches and ranks, whole; on the first rank."""
    metrics: list[dict[str, float]]

    @property
    def weights(self) -> dict[str, torch.Tensor]:
        return weights(self.learner)


def train(of: Of = everything, **options: Any) -> Trained:
    """Three updates with the given groups' decisions."""
    trained = learner(**{**OPTIONS, **options})
    result = Trained(trained, {}, [])
    step = trained.engine.step

    def first_step() -> None:
        trained.engine.step = step
        step()
        # AdamW's first moment starts at 0, so that after one step it is the gradient, times 1 − β₁
        found = optimizer_tensors(trained)
        result.gradient = {k.removesuffix("/exp_avg"): v / 0.1 for k, v in found.items() if k.endswith("/exp_avg")}

    trained.engine.step = first_step
    for seed in SEEDS:
        done = trained.update(share(seed, of), seed=seed)
        assert done.skipped is None, done.skipped
        result.metrics.append(done.metrics)
    return result
