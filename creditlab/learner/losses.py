"""The policy loss: clipped surrogate with dual clip, k3 KL and entropy, over denominators of the whole optimizer step."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from creditlab.learner.settings import DeepSpeedLearner

KL_BOUND = 10.0
"""Clamp of the k3 estimate, as in the field's trainers."""
EXPONENT_BOUND = 20.0
"""Largest exponent of a ratio: far beyond every clip, and small enough that no gradient becomes infinity times zero."""


@dataclass(frozen=True)
class Denominators:
    """Counts over all micro-batches and ranks of one optimizer step."""

    tokens: int
    rows: int
    """Rows with at least one response token."""


@dataclass(frozen=True)
class PolicyLoss:
    """The parts of a micro-batch's loss, each its share of the optimizer step's value."""

    loss: torch.Tensor
    pg: torch.Tensor
    entropy: torch.Tensor
    kl: torch.Tensor
    clipped: torch.Tensor
    """Tokens at which the clip binds."""
    ppo_kl: torch.Tensor
    """Sum of old minus new log-probabilities."""
    deviation: torch.Tensor
    """|ratio − 1| per response token, flat; at the first step it measures how far sampling and training agree."""


def policy_loss(
    settings: DeepSpeedLearner,
    logp: torch.Tensor,
    old_logp: torch.Tensor,
    advantages: torch.Tensor,
    mask: torch.Tensor,
    entropy: torch.Tensor,
    reference_logp: torch.Tensor | None,
    denominators: Denominators,
) -> PolicyLoss:
    """Clipped surrogate of a micro-batch; log-probabilities, entropy and mask are [B, L], advantages [B].

    l = max(−A·ϱ, −A·clip(ϱ, 1 ± ε)), and for A < 0 at most −A·c (dual clip); ϱ = exp(logp − old_logp). Micro-batches add
    up to the step's loss, because every part is divided by the counts of the whole step.
    """
    advantage = advantages[:, None]
    difference = (logp - old_logp) * mask
    ratio = difference.clamp(max=EXPONENT_BOUND).exp()
    plain = -advantage * ratio
    clipped = -advantage * ratio.clamp(1 - settings.clip, 1 + settings.clip)
    surrogate = torch.maximum(plain, clipped)
    surrogate = torch.where(advantage < 0, torch.minimum(surrogate, -advantage * settings.dual_clip), surrogate)
    pg = aggregate(settings, surrogate, mask, denominators)
    bonus = aggregate(settings, entropy, mask, denominators)
    kl = torch.zeros((), device=logp.device)
    if reference_logp is not None:
        kl = aggregate(settings, k3(logp, reference_logp), mask, denominators)
    return PolicyLoss(
        loss=pg - settings.entropy * bonus + settings.kl * kl,
        pg=pg.detach(),
        entropy=bonus.detach(),
        kl=kl.detach(),
        clipped=((clipped > plain) & mask).sum().detach(),
        ppo_kl=-difference.sum().detach(),
        deviation=(ratio.detach() - 1).abs()[mask],
    )


def k3(logp: torch.Tensor, reference_logp: torch.Tensor) -> torch.Tensor:
    """The k3 estimate of KL(policy ‖ reference) per token, exp(Δ) − Δ − 1 with Δ = reference − policy, clamped."""
    delta = (reference_logp - logp).clamp(max=EXPONENT_BOUND)
    return (delta.exp() - delta - 1).clamp(-KL_BOUND, KL_BOUND)


def aggregate(
    settings: DeepSpeedLearner, values: torch.Tensor, mask: torch.Tensor, denominators: Denominators
) -> torch.Tensor:
    """A micro-batch's share of the step's aggregate of token values [B, L] over the masked tokens."""
    kept = torch.where(mask, values, torch.zeros_like(values))
    if settings.aggregation == "token_mean":
        return kept.sum() / max(denominators.tokens, 1)
    per_row = kept.sum(1)
    if settings.aggregation == "seq_mean_token_mean":
        per_row = per_row / mask.sum(1).clamp(min=1)
    return per_row.sum() / max(denominators.rows, 1)
