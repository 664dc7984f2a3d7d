"""The configuration section `tracking`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True)
class TrackingConfig:
    """Where the events of a run go; metrics.jsonl is always written."""

    axis: ClassVar[str] = "tracking"
    name: ClassVar[str] = "default"

    wandb: Literal["auto", "online", "offline", "disabled"] = "auto"
    """`auto` is online when W&B finds credentials, else offline; `WANDB_MODE` of the environment decides before it."""
    project: str = "creditlab"
    """W&B project."""
    run_name: str = ""
    """Name of the run in W&B; empty for the run's own name."""
    group: str = ""
    """W&B group; empty for the run's own group."""
    job_type: str = ""
    """W&B job type; empty for the run's own job type."""
    tags: tuple[str, ...] = ()
    """W&B tags, beside those of the run."""
    wandb_timeout: float = 20.0
    """Seconds to wait for the W&B server when a run starts and when it ends."""
    console: Literal["auto", "live", "plain", "quiet"] = "auto"
    """`auto` is live on a terminal, else plain; `quiet` shows only warnings."""
    every: int = 5
    """Updates between two lines of the plain console."""

    def __post_init__(self) -> None:
        if self.every < 1:
            raise ValueError(f"tracking.every is {self.every}; it must be at least 1")
        if self.wandb_timeout <= 0:
            raise ValueError(f"tracking.wandb_timeout is {self.wandb_timeout}; it must be a positive number of seconds")
