"""Settings of the learner. Importing this module imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class DeepSpeedLearner:
    """The clipped policy-gradient update on DeepSpeed; defaults are the embedded CPU recipe."""

    axis: ClassVar[str] = "learner"
    name: ClassVar[str] = "deepspeed"

    lr: Annotated[float, Field(gt=0)] = 3e-4
    """Learning rate of AdamW, constant; the papers use 1e-6."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """AdamW's decay of the first moment."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.95
    """AdamW's decay of the second moment."""
    weight_decay: NonNegative = 0.01
    """Decoupled weight decay."""
    max_grad_norm: NonNegative = 1.0
    """Gradient norm at which gradients are clipped; 0 does not clip."""
    epochs: Positive = 1
    """Passes over the batch per update."""
    steps: Positive | None = 5
    """Optimizer steps per epoch, whatever the number of turns; null derives them from mini_batch."""
    mini_batch: Positive = 128
    """Decision rows per optimizer step over all ranks, where `steps` is null; longer episodes then mean more steps."""
    micro_batch: Positive = 64
    """Decision rows per forward pass and rank; the loss does not depend on it."""
    clip: Annotated[float, Field(gt=0, lt=1)] = 0.2
    """Clip range of the probability ratio, 1 ± clip."""
    dual_clip: Annotated[float, Field(gt=1)] = 3.0
    """Bound c of the dual clip for negative advantages."""
    entropy: float = 0.01
    """Entropy coefficient; the papers' scripts use 0.001."""
    kl: NonNegative = 0.0
    """Coefficient of the k3 KL to the frozen reference; above 0 the reference is built."""
    aggregation: Literal["token_mean", "seq_mean_token_mean", "seq_mean_token_sum"] = "token_mean"
    """How token losses become one number; denominators are those of the whole optimizer step."""
    trajectory_weight: Literal["per_step", "equal"] = "per_step"
    """Whether every decision weighs alike in the policy loss, so that longer trajectories weigh more, as in published code,
    or every trajectory does."""
    pair_placement: Literal["pack", "filter"] = "pack"
    """`pack` puts both rows of a preference into one micro-batch; `filter` keeps only pairs that land together."""
    precision: Literal["fp32", "bf16"] = "fp32"
    """Arithmetic of the forward and backward pass; bf16 keeps float32 master weights, for which it takes ZeRO stage 1."""
    zero_stage: Annotated[int, Field(ge=0, le=3)] = 0
    """ZeRO stage of DeepSpeed: 0 shards nothing, 1 optimizer states, 2 gradients too, 3 weights too."""

    @property
    def operational(self) -> tuple[str, ...]:
        """Options that change memory, speed and rounding; they do not make it another run."""
        return ("zero_stage", "micro_batch") if self.pair_placement == "pack" else ("zero_stage",)
