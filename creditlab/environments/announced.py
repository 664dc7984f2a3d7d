"""Long preparations that tell of themselves: nothing is said of short ones."""

from __future__ import annotations

import logging
import time

_log = logging.getLogger(__name__)
EVERY = 10.0
"""Seconds between two lines."""


class Announced:
    """A report of progress that logs how far something is, every ten seconds."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._told = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Notes that `done` of `total` is done."""
        now = time.monotonic()
        if now - self._told >= EVERY:
            self._told = now
            _log.warning("%s: %.0f %%", self._what, 100 * done / max(total, 1))
