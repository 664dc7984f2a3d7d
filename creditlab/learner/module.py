"""The trained module: one forward pass from token ids to per-token log-probabilities and entropies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from creditlab.learner.sequences import MicroBatch


class PolicyModule(nn.Module):
    """Wraps a causal language model so that every pass, sharded or not, goes through one `forward`."""

    def __init__(self, model: nn.Module, temperature: float = 1.0) -> None:
        super().__init__()
        self.model, self.temperature = model, temperature

    def forward(
        self, ids: torch.Tensor, attention: torch.Tensor, positions: torch.Tensor, length: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Log-probabilities and entropies [B, length] of the last `length` tokens, at the sampling temperature."""
        logits = self.model(
            input_ids=ids, attention_mask=attention, position_ids=positions, use_cache=False, logits_to_keep=length + 1
        ).logits[:, :-1]
        logp = torch.log_softmax(logits.float() / self.temperature, dim=-1)
        chosen = logp.gather(-1, ids[:, -length:, None])[..., 0]
        return chosen, -(logp.exp() * logp).sum(-1)


def score(module: nn.Module, micro: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities, 0 where masked, and entropies of a micro-batch's responses [B, L]."""
    logp, entropy = module(micro.ids, micro.attention, micro.positions, micro.mask.shape[1])
    return torch.where(micro.mask, logp, torch.zeros_like(logp)), entropy


class GuardedAdamW(torch.optim.AdamW):
    """AdamW that clips where asked and refuses to apply gradients that are not finite, on all ranks alike."""

    def __init__(self, *args: Any, max_norm: float | None, agree: Callable[[float], float], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.max_norm, self.agree = max_norm, agree
        self.norm = 0.0
        """Gradient norm before clipping, of this rank's share under ZeRO."""
        self.refused = False
        """Whether a step was refused since this was last set to False; ZeRO may take several calls for one step."""
        self.refuse_next = False
        """Set to True to have the next step drop its gradients."""

    def step(self, closure: Any = None) -> Any:
        """Applies the gradients, unless the norm on any rank is not finite."""
        gradients = [p.grad for group in self.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(gradients) if gradients else torch.zeros(())
        self.norm = float(norm)
        if self.agree(1.0 if self.refuse_next or not torch.isfinite(norm) else 0.0):
            self.refused, self.refuse_next = True, False
            return None
        if self.max_norm:
            parameters = [p for group in self.param_groups for p in group["params"]]
            torch.nn.utils.clip_grads_with_norm_(parameters, self.max_norm, norm)
        return super().step(closure)
