"""Features of decisions that a credit method asks for: hidden states of a causal language model at the prompt's end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from creditlab.policy.engine import Ids


@torch.no_grad()
def hidden_states(model: Any, prompts: Sequence[Ids], layer: int, batch_size: int) -> NDArray[np.float32]:
    """Hidden state [n, H] after the given layer at the last token of each prompt; layer −1 is the final one, after its norm.

    Raises ValueError for a layer that the model does not have.
    """
    layers = int(model.config.num_hidden_layers)
    if not -layers - 1 <= layer <= layers:
        raise ValueError(f"layer={layer} does not exist: the model has {layers} layers, counted 0 … {layers} or from −1 back")
    training = model.training
    model.eval()
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # neighbours of like length pad less
    found: list[NDArray[np.float32] | None] = [None] * len(prompts)
    for start in range(0, len(order), batch_size):
        call = order[start : start + batch_size]
        for index, vector in zip(call, _last(model, [prompts[i] for i in call], layer), strict=True):
            found[index] = vector
    model.train(training)
    return np.stack([vector for vector in found if vector is not None])


def _last(model: Any, prompts: Sequence[Ids], layer: int) -> NDArray[np.float32]:
    """The vectors of one call; padding stands on the right, where no causal model looks."""
    lengths = np.array([len(p) for p in prompts])
    ids = np.zeros((len(prompts), int(lengths.max())), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, : len(prompt)] = prompt
    mask = torch.from_numpy((np.arange(ids.shape[1]) < lengths[:, None]).astype(np.int64)).to(model.device)
    output = model(torch.from_numpy(ids).to(model.device), attention_mask=mask, output_hidden_states=True, use_cache=False)
    place = torch.from_numpy(lengths - 1).to(model.device)
    hidden = output.hidden_states[layer][torch.arange(len(prompts), device=model.device), place]
    return np.asarray(hidden.float().cpu().numpy())
