"""Features of decisions that a credit method asks for: hidden states of a causal language model at the prompt's end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditlab.policy.engine import Ids


@torch.no_grad()
def hidden_states(model: Any, prompts: Sequence[Ids], layer: int, batch_size: int) -> NDArray[np.float32]:
    """Hidden state [n, H] after the given layer at the last token of each prompt; layer −1 is the final one, after its norm.

    Layers count as in transformers' `output_hidden_states`, 0 being the embedding. At most `batch_size` prompts stand in one
    call, of which one layer is kept; no logits are computed. Raises ValueError for a layer that the model does not have.
    """
    layers = int(model.config.num_hidden_layers)
    if not -layers - 1 <= layer <= layers:
        raise ValueError(f"layer={layer} does not exist: the model has {layers} layers, counted 0 … {layers} or from −1 back")
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # neighbours of like length pad less
    found: list[NDArray[np.float32] | None] = [None] * len(prompts)
    with _evaluating(model):
        for start in range(0, len(order), batch_size):
            call = order[start : start + batch_size]
            for index, vector in zip(call, _last(model, [prompts[i] for i in call], layer % (layers + 1)), strict=True):
                found[index] = vector
    return np.stack([vector for vector in found if vector is not None])


@contextmanager
def _evaluating(model: Any) -> Iterator[None]:
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def _last(model: Any, prompts: Sequence[Ids], layer: int) -> NDArray[np.float32]:
    """The vectors of one call; padding stands on the right, where no causal model looks."""
    lengths = np.array([len(p) for p in prompts])
    ids = np.zeros((len(prompts), int(lengths.max())), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    mask = torch.from_numpy((np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)).to(model.device)
    place = (torch.arange(len(prompts), device=model.device), torch.from_numpy(lengths - 1).to(model.device))
    kept: list[torch.Tensor] = []
    body, blocks = model.base_model, _blocks(model)
    if layer < len(blocks):  # what enters a block is the hidden state of its number
        hook = blocks[layer].register_forward_pre_hook(lambda _, given: kept.append(given[0][place]))
    else:  # the final one leaves the body, after its norm
        hook = body.register_forward_hook(lambda _, given, answer: kept.append(answer.last_hidden_state[place]))
    with hook:
        body(torch.from_numpy(ids).to(model.device), attention_mask=mask, use_cache=False)
    return np.asarray(kept[0].float().cpu().numpy())


def _blocks(model: Any) -> torch.nn.ModuleList:
    """The transformer blocks, whatever the architecture calls them."""
    count = model.config.num_hidden_layers
    return next(m for m in model.base_model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == count)
