"""Warm start: imitation of demonstrated decisions, with a language-model loss on the prompts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  # torch's own convention
from numpy.typing import NDArray

Ids = NDArray[np.int32]
WARM_UP = 50
"""Steps of linear warm-up."""
FLOOR = 0.05
"""Share of the peak learning rate that is kept to the end."""


class ImitationSettings(Protocol):
    """The part of the configuration that imitation reads."""

    @property
    def steps(self) -> int: ...
    @property
    def batch_size(self) -> int: ...
    @property
    def lr(self) -> float: ...
    @property
    def prompt_loss(self) -> float: ...


def imitate(
    model: Any,
    examples: Sequence[tuple[Ids, Ids]],
    settings: ImitationSettings,
    rng: np.random.Generator,
    progress: Callable[[int, int, float], None] | None = None,
) -> list[float]:
    """Trains a model in place on (prompt, response) token ids and returns the response loss of every step.

    Loss: cross-entropy of response tokens plus `prompt_loss` times that of prompt tokens, each averaged over its tokens.
    """
    if not examples:
        raise ValueError("the warm start has no demonstrations to learn from; raise warm_start.games")
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.lr, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    losses: list[float] = []
    for step, batch in zip(range(settings.steps), _batches(examples, settings.batch_size, rng), strict=False):
        for group in optimizer.param_groups:
            group["lr"] = settings.lr * rate(step, settings.steps)
        ids, answer, prompt = _pad(batch, model.device)
        logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
        entropy = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view_as(answer)
        response_loss = entropy[answer].mean()
        loss = response_loss + settings.prompt_loss * entropy[prompt].mean()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(float(response_loss.detach()))
        if progress:
            progress(step + 1, settings.steps, losses[-1])
    return losses


def rate(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear warm-up, constant to the middle, then linear decay to a floor."""
    decay = 1.0 if 2 * step < steps else max(FLOOR, 2 * (1 - step / steps))
    return min(1.0, (step + 1) / WARM_UP) * decay


def _batches(examples: Sequence[tuple[Ids, Ids]], size: int, rng: np.random.Generator) -> Any:
    """Endless batches; neighbours in length share one, so that little is padded."""
    while True:
        pool = rng.permutation(len(examples))[: size * 32]
        pool = pool[np.argsort([len(examples[i][0]) for i in pool], kind="stable")]
        starts = np.arange(0, len(pool), size)
        for start in rng.permutation(starts):
            yield [examples[i] for i in pool[start : start + size]]


def _pad(batch: Sequence[tuple[Ids, Ids]], device: Any) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids padded on the right, and masks over predicted positions of response and of prompt tokens."""
    width = max(len(p) + len(r) for p, r in batch)
    ids = np.zeros((len(batch), width), np.int64)
    answer = np.zeros((len(batch), width), bool)
    prompt = np.zeros((len(batch), width), bool)
    for row, (p, r) in enumerate(batch):
        end = len(p) + len(r)
        ids[row, :end] = np.concatenate([p, r])
        prompt[row, : len(p)], answer[row, len(p) : end] = True, True
    return (
        torch.from_numpy(ids).to(device),
        torch.from_numpy(answer[:, 1:]).to(device),
        torch.from_numpy(prompt[:, 1:]).to(device),
    )
