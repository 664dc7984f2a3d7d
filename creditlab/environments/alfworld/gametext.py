"""A game as text: what generators and loaders hand to the engine."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field

_PLAIN = re.compile(r"[A-Za-z0-9 ,.'/-]{1,500}")
PLAIN_SENTENCE = "at most 500 letters, digits, spaces and , . ' / -"
"""What a task sentence may hold, in words."""


def is_plain(sentence: str) -> bool:
    """Whether a task sentence holds nothing but text: the real engine reads signs in it as code, which it would run."""
    return _PLAIN.fullmatch(sentence) is not None


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
