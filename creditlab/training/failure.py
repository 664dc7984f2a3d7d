"""How a run ends that cannot go on."""

from __future__ import annotations


class TrainingFailedError(RuntimeError):
    """The run cannot go on; its message says why and where the evidence lies."""
