"""The real engine: alfworld's games on textworld, in the process that makes it.

Meant for a process of its own. Its planner rewrites `sys.argv` and swaps `sys.stdout` while it reads a game, and every
engine keeps a copy of the planner's library in memory for good, so one engine plays one game after another.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from typing import Any

_TRANSLATIONS = 4
"""Translated problems kept: two of each of the last two games."""
_TEMPLATES = 4096
"""Parsed templates and conditions kept; a game has some hundreds, many of them shared with other games."""


class RealEngine:
    """Plays packed games one after another; not for use in threads. Raises ImportError without the extra `alfworld`."""

    def __init__(self) -> None:
        from alfworld.agents.environment.alfred_tw_env import AlfredDemangler
        from textworld import EnvInfos
        from textworld.envs.pddl import PddlEnv

        planner: Any = import_module("fast_downward")
        if not hasattr(planner.pddl2sas, "cache_info"):
            # a new episode translates its problem four times, with two different results; siblings play the same problem
            planner.pddl2sas = lru_cache(maxsize=_TRANSLATIONS)(planner.pddl2sas)
        for module in ("textworld.envs.pddl.textgen", "textworld.logic"):
            parser: Any = import_module(module)._PARSER
            if not hasattr(parser.parse, "cache_info"):
                # parses the same few templates and conditions at every step, which takes more than half of its time
                parser.parse = lru_cache(maxsize=_TEMPLATES)(parser.parse)
        self._env: Any = AlfredDemangler(PddlEnv(EnvInfos(won=True, admissible_commands=True)), shuffle=False)
        self._packed: str | None = None
        self._state: Any = None
        self._effective = True

    def load(self, packed: str) -> None:
        """Reads a game as `packing.pack` gives it; one that is loaded already is kept."""
        if packed == self._packed:
            return
        self._packed = self._state = None
        with _command_line_kept():
            self._env.load(json.loads(packed))
        self._packed = packed

    def reset(self) -> str:
        """Returns to the loaded game's initial state; the introduction with the task sentence."""
        with _command_line_kept():
            self._state = self._env.reset()
        self._effective = True
        return str(self._state.feedback)

    def step(self, command: str) -> str:
        """Executes a command and returns its feedback; an inadmissible one changes nothing."""
        self._effective = command.strip() in self._state["admissible_commands"]
        self._state, _, _ = self._env.step(command)
        return str(self._state.feedback)

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that would be executed now, sorted."""
        return tuple(self._state["admissible_commands"])

    @property
    def won(self) -> bool:
        """Whether the goal holds in the present state."""
        return bool(self._state["won"])

    @property
    def effective(self) -> bool:
        """Whether the last command was admissible; True at the start."""
        return self._effective


@contextmanager
def _command_line_kept() -> Iterator[None]:
    arguments = sys.argv
    try:
        yield
    finally:
        sys.argv = arguments
