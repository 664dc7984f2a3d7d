"""A game as text: what generators and loaders hand to the engine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GameText:
    """One game: the planning problem and the sentence that states the task."""

    name: str
    """Stable across machines: a path for loaded games, (family, types, plan, seed) for generated ones."""
    task: str
    """The task sentence without its final period."""
    family: str
    room: str
    plan: int
    """Number of the floor plan."""
    problem: str = field(repr=False)

    @property
    def digest(self) -> str:
        """SHA-256 of task and problem, whatever the game is called."""
        return hashlib.sha256(f"{self.task}\n{self.problem}".encode()).hexdigest()
