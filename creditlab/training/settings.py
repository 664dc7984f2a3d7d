"""The sections of a run's configuration that are no components; their defaults are the embedded CPU recipe."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import Field

from creditlab.overrides import LARGEST_SEED

Positive = Annotated[int, Field(ge=1)]
Fraction01 = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0)]


@dataclass(frozen=True)
class RolloutSettings:
    """How rollouts are collected."""

    groups: Positive = 8
    """Task groups per update over all ranks, P."""
    group_size: Positive = 8
    """Sibling rollouts per task group, G."""
    temperature: Annotated[float, Field(gt=0)] = 1.0
    """Sampling temperature; the learner scores tokens at the same temperature."""
    batch_size: Positive = 64
    """Prompts per call of the engine; longer queues are cut into calls of similar prompt lengths."""


@dataclass(frozen=True)
class TrainingSettings:
    """How long to train."""

    updates: Annotated[int, Field(ge=0)] = 40
    """Updates (collect, credit, learn) of the whole run."""
    threads: Annotated[int, Field(ge=0, le=1024)] = 1
    """Torch threads per process; 0 leaves torch's own choice. On shared cores one is fastest for a tiny model."""
    max_skipped: Positive = 3
    """Updates skipped in a row for a non-finite loss or gradient before the run stops."""
    timeout: Annotated[float, Field(gt=0, le=1e7)] = 3600.0
    """Seconds that a rank waits for the others, as while the first one makes the warm start, before the run ends."""


@dataclass(frozen=True)
class EvaluationSettings:
    """Evaluation on a frozen, hashed panel of held-out tasks."""

    every: Annotated[int, Field(ge=0)] = 8
    """Updates between evaluations; 0 evaluates only before the first and after the last update."""
    episodes: Positive = 256
    """Episodes per evaluation."""
    temperature: Temperature = 1.0
    """Sampling temperature; 0 is greedy."""
    panel_seed: Annotated[int, Field(ge=0)] = 20260
    """Seed of the panel's sampling seeds and, for generated games, of its games."""


@dataclass(frozen=True)
class CheckpointSettings:
    """What is kept on disk."""

    every: Annotated[int, Field(ge=0)] = 10
    """Updates between checkpoints; one is always written at the end and on interruption."""
    keep: Positive = 2
    """Newest checkpoints kept, beside the best one by held-out success."""
    rollouts_every: Annotated[int, Field(ge=0)] = 10
    """Updates between stored rollout batches; 1 stores all, 0 none."""


@dataclass(frozen=True)
class WarmStartSettings:
    """Imitation of the noisy expert before the first update; cached by the hash of everything it depends on."""

    steps: Annotated[int, Field(ge=0)] = 1400
    """Optimizer steps; 0 starts from the model as it is."""
    batch_size: Positive = 16
    """Decisions per step."""
    lr: Annotated[float, Field(gt=0)] = 5e-3
    """Peak learning rate of AdamW; constant over the first half, then decaying linearly."""
    games: Positive = 400
    """Training tasks demonstrated."""
    demonstrations: Positive = 4
    """Demonstrations per task."""
    random_share: Fraction01 = 0.15
    """Share of decisions at which a random admissible command is executed instead of the expert's, which stays the target."""
    slip_share: Fraction01 = 0.07
    """Share of decisions at which an inadmissible command is executed instead; the expert's action stays the target."""
    prompt_loss: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the language-model loss on prompt tokens."""
    cache: str | None = None
    """Folder of cached warm starts; null is `~/.cache/creditlab/warm_start`."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of demonstrations and of the initial weights; independent of the run's seed, so that seeds share a start."""


@dataclass(frozen=True)
class RunSettings:
    """The top-level keys of a run."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=100)] | None = None
    """First part of the run folder's name; null is method and environment."""
    seed: Annotated[int, Field(ge=0, le=LARGEST_SEED)] = 0
    """Run seed; every random choice derives from (run seed, update, task, slot, turn)."""
    convention: Literal["default", "paper", "reference"] = "default"
    """Preset of the fields on which papers and published code differ."""
    run_root: Annotated[str, Field(min_length=1)] = "runs"
    """Folder that holds the run folders."""
    resume: Literal["auto"] | bool = False
    """true continues the run of the same configuration; auto does so where it exists and starts it otherwise."""
    overwrite: bool = False
    """Whether a run folder of the same configuration may be replaced."""
    rollout: RolloutSettings = field(default_factory=RolloutSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    evaluation: EvaluationSettings = field(default_factory=EvaluationSettings)
    checkpoint: CheckpointSettings = field(default_factory=CheckpointSettings)
    warm_start: WarmStartSettings = field(default_factory=WarmStartSettings)


SECTIONS: dict[str, Any] = {
    "rollout": RolloutSettings,
    "training": TrainingSettings,
    "evaluation": EvaluationSettings,
    "checkpoint": CheckpointSettings,
    "warm_start": WarmStartSettings,
}
