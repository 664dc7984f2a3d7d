"""Listeners to the events of a run: metrics.jsonl, console and W&B."""

from __future__ import annotations

from creditlab.tracking.config import TrackingConfig
from creditlab.tracking.console import ConsoleListener
from creditlab.tracking.events import Listener, Metrics, Run, Summary, Tracker
from creditlab.tracking.jsonl import JsonlListener
from creditlab.tracking.wandb_listener import WandbListener


def default_listeners(config: TrackingConfig) -> list[Listener]:
    """The listeners that the `tracking` section of a run's configuration asks for; metrics.jsonl comes first, always."""
    listeners: list[Listener] = [JsonlListener(), ConsoleListener(config.console, config.every)]
    if config.wandb != "disabled":
        listeners.append(WandbListener(config))
    return listeners


__all__ = [
    "ConsoleListener",
    "JsonlListener",
    "Listener",
    "Metrics",
    "Run",
    "Summary",
    "Tracker",
    "TrackingConfig",
    "WandbListener",
    "default_listeners",
]
