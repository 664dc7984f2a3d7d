"""Training sequences: what was sampled, padded for the model, with masks made from lengths."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from creditlab.credit.types import AuxiliaryLoss, Credit
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.rollouts.rows import check_finite

Ids = NDArray[np.int32]


@dataclass(frozen=True)
class TrainBatch:
    """One update's decisions [N] in the order of their `Rows`, with their credit."""

    prompts: tuple[Ids, ...]
    responses: tuple[Ids, ...]
    old_logp: tuple[NDArray[np.float32], ...]
    advantages: NDArray[np.float64]
    auxiliary: tuple[AuxiliaryLoss, ...]
    keys: NDArray[np.int64]
    """A stable number per decision, from group, slot and turn: shuffling by it is the same on any number of ranks."""
    trajectories: NDArray[np.int64]
    """The trajectory of each decision, as a number of this rank."""
    lengths: NDArray[np.int64]
    """Number of decisions of that trajectory."""
    describe: Callable[[int], str] = field(repr=False)
    """Names a row in messages."""

    def __len__(self) -> int:
        return len(self.prompts)

    @classmethod
    def build(cls, batch: RolloutBatch, rows: Rows, credit: Credit) -> TrainBatch:
        """Joins a batch with its credit; raises ValueError naming the decision whose advantage is not finite.

        Decisions without response tokens carry no gradient and are left out of the loss by their empty mask.
        """
        check_finite(rows, credit.advantages, "advantage")
        for loss in credit.auxiliary:
            _check_pairs(loss, rows)
        steps = [step for _, step in batch.decisions()]
        if len(steps) != len(rows):
            raise ValueError(f"the batch holds {len(steps)} decisions but its rows {len(rows)}")
        names = zip(rows.group, rows.slot, rows.turn, strict=True)
        return cls(
            prompts=tuple(s.prompt_ids for s in steps),
            responses=tuple(s.response_ids for s in steps),
            old_logp=tuple(s.logprobs for s in steps),
            advantages=credit.advantages,
            auxiliary=credit.auxiliary,
            keys=np.array([_key(rows.group_names[g], int(s), int(t)) for g, s, t in names], dtype=np.int64),
            trajectories=rows.trajectory,
            lengths=rows.length[rows.trajectory],
            describe=rows.describe,
        )


@dataclass(frozen=True)
class MicroBatch:
    """B sequences, prompts padded on the left and responses on the right to L tokens; a `LossView` once scored."""

    rows: NDArray[np.int64]
    ids: torch.Tensor
    attention: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    """Marks response tokens [B, L]."""
    old_logp: torch.Tensor
    advantages: torch.Tensor

    @classmethod
    def build(cls, batch: TrainBatch, rows: NDArray[np.int64], pad: int, device: torch.device) -> MicroBatch:
        """The chosen rows of a batch, padded to their own longest prompt and response; without rows, one of padding."""
        prompts, responses = [batch.prompts[r] for r in rows], [batch.responses[r] for r in rows]
        left, right = max([1, *map(len, prompts)]), max([1, *map(len, responses)])
        ids = np.full((max(1, len(rows)), left + right), pad, np.int64)
        attention = np.zeros_like(ids)
        old = np.zeros((len(ids), right), np.float32)
        for i, (prompt, response) in enumerate(zip(prompts, responses, strict=True)):
            end = left + len(response)
            ids[i, left - len(prompt) : left], ids[i, left:end] = prompt, response
            attention[i, left - len(prompt) : end] = 1
            old[i, : len(response)] = batch.old_logp[rows[i]]
        positions = np.maximum(attention.cumsum(1) - 1, 0)
        return cls(
            rows=rows,
            ids=torch.from_numpy(ids).to(device),
            attention=torch.from_numpy(attention).to(device),
            positions=torch.from_numpy(positions).to(device),
            mask=torch.from_numpy(attention[:, left:].astype(bool)).to(device),
            old_logp=torch.from_numpy(old).to(device),
            advantages=torch.from_numpy(batch.advantages[rows].astype(np.float32)).to(device),
        )


@dataclass(frozen=True)
class Scored:
    """A micro-batch as an auxiliary loss sees it (`LossView`)."""

    rows: NDArray[np.int64]
    logp: torch.Tensor
    old_logp: torch.Tensor
    mask: torch.Tensor
    step_rows: int


def tokens(batch: TrainBatch, rows: Sequence[int] | NDArray[np.int64]) -> int:
    """Number of response tokens of the chosen rows."""
    return sum(len(batch.responses[r]) for r in rows)


def _check_pairs(loss: AuxiliaryLoss, rows: Rows) -> None:
    pairs = loss.pairs
    if pairs.size and (pairs.min() < 0 or pairs.max() >= len(rows)):
        raise ValueError(f"auxiliary loss {loss.name!r} names row {int(pairs.max())}, but the update has {len(rows)} rows")


def _key(group: str, slot: int, turn: int) -> int:
    digest = hashlib.blake2b(f"{group}\0{slot}\0{turn}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
