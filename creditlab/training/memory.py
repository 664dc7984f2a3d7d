"""An estimate of the memory a run needs on each rank, from configurations alone.

These compete for what the lasting parts leave: the backward pass of one micro-batch, the optimizer's step, a rollout, and the
pass that records hidden states where credit asks for them. Not counted: the libraries themselves (about 1 GiB on a GPU),
fragmentation, and other processes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from creditlab.config import Job, required_features
from creditlab.plaintext import gibibytes
from creditlab.policy.shape import Shape
from creditlab.registry import ConfigError
from creditlab.training.start import needs_reference

LOGIT = 20
"""Bytes per logit at the peak of the learner's pass: log-softmax, probabilities and their gradients are float32."""
SAMPLED = 40
"""Bytes per logit of one position while a token is drawn: float64 log-probabilities, probabilities and their sums."""
BUCKET = 500_000_000
"""Numbers in the buffer that ZeRO 1 and 2 gather gradients in (DeepSpeed's reduce_bucket_size)."""
LIVE = 1_000_000_000
"""Most numbers that ZeRO-3 gathers at a time in a pass (DeepSpeed's max_live_parameters)."""


@dataclass(frozen=True)
class Estimate:
    """Bytes on each rank."""

    parameters: int
    ranks: int
    lasting: Mapping[str, int]
    """Parts that stay from start to end."""
    moments: Mapping[str, Mapping[str, int]]
    """Parts that come on top at each moment; the moments follow each other."""
    checkpoint: int
    """Host memory of the first rank while it writes a checkpoint: the whole optimizer, and the weights."""

    @property
    def peak(self) -> int:
        """The lasting parts and the largest moment."""
        return sum(self.lasting.values()) + max(sum(parts.values()) for parts in self.moments.values())

    @property
    def moment(self) -> str:
        """The moment that needs most."""
        return max(self.moments, key=lambda name: sum(self.moments[name].values()))

    @property
    def line(self) -> str:
        """The estimate in one sentence."""
        lasting = ", ".join(f"{name} {gibibytes(size)}" for name, size in self.lasting.items() if size)
        each = f"on each of {self.ranks} ranks" if self.ranks > 1 else "on one rank"
        host = f"{gibibytes(self.checkpoint)} of host memory on the first one while a checkpoint is written"
        return f"estimated memory {each}: {gibibytes(self.peak)} at the peak ({self.moment}); {lasting}; {host}"

    def plain(self) -> dict[str, Any]:
        """The estimate as plain data."""
        return {**asdict(self), "peak": self.peak, "peak_moment": self.moment}


def estimate(job: Job, ranks: int) -> Estimate:
    """The memory of a run with a pretrained model on each of `ranks` ranks; raises ValueError for an unknown shape."""
    if not hasattr(job.model, "shape"):
        raise ConfigError(f"the estimate is for model=hf, not model={type(job.model).name}")
    shape: Shape = job.model.shape()
    width = 2 if job.learner.precision == "bf16" else 4
    stage = max(job.learner.zero_stage, 1) if job.learner.precision == "bf16" else job.learner.zero_stage
    weights = shape.parameters * width
    optimizer = shape.parameters * (12 if stage else 8)  # moments, and master weights
    lasting = {
        "weights": _share(weights, ranks, stage >= 3),
        "gradients": _share(weights, ranks, stage >= 2),
        "optimizer": _share(optimizer, ranks, stage >= 1),
        "reference": weights if needs_reference(job) else 0,
    }
    moments = {
        "backward pass": _backward(job, shape, width, stage),
        "optimizer step": _step(shape, ranks, stage),
        "rollout": _rollout(job, shape, width, ranks, weights if stage >= 3 else 0),
    }
    if required_features(job):
        moments["hidden states"] = {
            "prompts": _prompts(job, shape, width, job.learner.micro_batch),
            "gathered weights": weights if stage >= 3 else 0,
        }
    return Estimate(shape.parameters, ranks, lasting, moments, optimizer + weights)


def _share(size: int, ranks: int, sharded: bool) -> int:
    return -(-size // ranks) if sharded else size


def _backward(job: Job, shape: Shape, width: int, stage: int) -> dict[str, int]:
    """Activations and logits of one micro-batch at the longest prompt and response, and ZeRO's buffers."""
    rows, length = job.learner.micro_batch, job.prompt.max_prompt_tokens + job.prompt.max_response_tokens
    layer = rows * length * layer_bytes(shape, width, length, job.model.attention)
    if job.model.gradient_checkpointing:  # the input of every layer; one layer is computed again, beside its gradients
        activations = rows * length * shape.layers * shape.hidden * width + 2 * layer
    else:
        activations = shape.layers * layer
    buffers = {0: 0, 3: min(shape.parameters, LIVE) * width}.get(stage, BUCKET * width)
    logits = rows * (job.prompt.max_response_tokens + 1) * shape.vocabulary * LOGIT
    return {"activations": activations, "logits": logits, "ZeRO buffers": buffers}


def layer_bytes(shape: Shape, width: int, length: int, attention: str = "sdpa") -> int:
    """Bytes that one layer keeps for the backward pass, per token of a sequence of that length; `width` bytes a number.

    Norms keep a float32 copy beside their result; attention keeps queries, and keys and values repeated for every head.
    """
    queries, keys = shape.heads * shape.head, shape.kv_heads * shape.head
    norms = 2 * shape.hidden * (4 + width)
    if shape.normed_heads:
        norms += (queries + keys) * (4 + width)
    inputs = 2 * shape.hidden * width + queries * width  # of the linear maps of attention and feed-forward
    mask = length * width
    scores = 3 * queries * width + mask
    if attention == "eager":
        scores += shape.heads * length * (4 + 2 * width)
    return norms + inputs + scores + 4 * shape.ffn * width


def _step(shape: Shape, ranks: int, stage: int) -> dict[str, int]:
    """Float32 gradients where the weights have another keeper, and AdamW's intermediate results."""
    own = _share(shape.parameters, ranks, stage >= 1)
    return {"float32 gradients": own * 4 if stage else 0, "AdamW": own * 4}


def _rollout(job: Job, shape: Shape, width: int, ranks: int, gathered: int) -> dict[str, int]:
    """The cache of one call of the engine, the widest layer while it reads prompts, and the numbers a token is drawn from."""
    rollout, prompt = job.settings.rollout, job.prompt
    episodes = max(-(-rollout.groups // ranks) * rollout.group_size, -(-job.settings.evaluation.episodes // ranks))
    rows = min(rollout.batch_size, episodes)
    tokens = prompt.max_prompt_tokens + prompt.max_response_tokens
    return {
        "KV cache": rows * tokens * 2 * shape.layers * shape.kv_heads * shape.head * width,
        "prompts": _prompts(job, shape, width, rows),
        "sampling": rows * shape.vocabulary * SAMPLED,
        "gathered weights": gathered,
    }


def _prompts(job: Job, shape: Shape, width: int, rows: int) -> int:
    """The widest layer while it reads that many prompts."""
    return rows * job.prompt.max_prompt_tokens * (3 * shape.ffn + 3 * shape.hidden) * width
