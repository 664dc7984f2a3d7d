"""The position of a run."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Progress:
    """The position of a run: all that a checkpoint holds beside the learner's state."""

    update: int = 0
    evaluations: list[list[float]] = field(default_factory=list)
    """[update, held-out success] of every evaluation so far."""
    skipped: int = 0
    skipped_in_a_row: int = 0
    transitions: int = 0
    """Environment steps of all training trajectories so far."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time split and total of the whole run, over its sittings up to the checkpoint."""

    @property
    def best(self) -> int | None:
        """The update with the highest held-out success, the earliest of equals; the warm start, update 0, does not count."""
        trained = [e for e in self.evaluations if e[0] > 0]
        return int(max(trained, key=lambda e: (e[1], -e[0]))[0]) if trained else None
