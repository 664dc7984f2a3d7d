"""How much trajectories of different lengths weigh in the policy loss."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from creditlab.learner.distributed import largest, total
from creditlab.learner.sequences import TrainBatch

BUCKETS = ("short", "middle", "long")
"""Thirds of the longest trajectory of the update."""


def balanced(batch: TrainBatch) -> TrainBatch:
    """The batch with advantages scaled so that every trajectory weighs as much as the others; collective.

    A decision gets the mean length over the trajectory's own, so that the sum of all weights stays what it was. Lengths are
    numbers of trained decisions, so trajectories weigh alike per decision; under `token_mean` longer responses still weigh
    more. The KL, entropy and auxiliary losses are not scaled.
    """
    length = _trained_length(batch)
    trained = length > 0
    share = np.where(trained, 1.0 / np.maximum(length, 1), 0.0)
    rows, trajectories = total(np.array([trained.sum(), share.sum()], np.float64))
    weight = share * rows / max(trajectories, 1.0)
    return replace(batch, advantages=batch.advantages * weight)


def mass_by_length(batch: TrainBatch) -> dict[str, float]:
    """Share of the gradient mass Σ |A|·(response tokens) by the length of the trajectory; collective.

    Nothing is reported for an update without any.
    """
    tokens = np.array([len(response) for response in batch.responses], np.float64)
    longest = largest(float(batch.lengths.max(initial=0)))
    bucket = np.minimum(len(BUCKETS) * (batch.lengths - 1) // max(int(longest), 1), len(BUCKETS) - 1)
    mass = np.bincount(np.maximum(bucket, 0), weights=np.abs(batch.advantages) * tokens, minlength=len(BUCKETS))
    everywhere = total(mass.astype(np.float64))
    if not everywhere.sum():
        return {}
    return {f"actor/mass_{name}": float(share) for name, share in zip(BUCKETS, everywhere / everywhere.sum(), strict=True)}


def _trained_length(batch: TrainBatch) -> NDArray[np.int64]:
    """Number of trained decisions in the trajectory of each decision [N], 0 for one that is not trained on itself."""
    trained = np.array([len(response) > 0 for response in batch.responses], np.bool_)
    count = np.bincount(batch.trajectories, weights=trained, minlength=1) if len(trained) else np.zeros(1)
    return np.where(trained, count[batch.trajectories], 0).astype(np.int64)
