"""One sitting of the crash campaign's run: `python sitting.py PIPE`, which says on a pipe what it is about.

It imports everything, says `ready`, and waits for its overrides on stdin, so that the campaign can start it ahead of time.
Then it runs the command line as it is; the parts of a run are wrapped so that entering and leaving each is told.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from typing import Any

from creditlab.cli import run
from creditlab.learner.learner import Learner
from creditlab.rollouts.store import RolloutStore
from creditlab.tracking.jsonl import JsonlListener
from creditlab.training import session
from creditlab.training.checkpoint import CheckpointStore
from creditlab.training.demonstrations import WarmStartCache

PARTS = (
    (session, "warm_start", "warm start"),
    (WarmStartCache, "store", "warm start cache"),
    (session, "evaluate", "evaluation"),
    (session, "collect", "rollouts"),
    (session, "assign", "credit"),
    (Learner, "update", "learner"),
    (RolloutStore, "save", "rollout store"),
    (JsonlListener, "_log", "metrics"),
    (CheckpointStore, "save", "checkpoint"),
    (CheckpointStore, "_prune", "old checkpoints"),
)
"""Where each part of a run is called, and what the campaign calls it."""


def main() -> int:
    """Runs with the overrides that arrive on stdin; returns the exit code."""
    pipe = int(sys.argv[1])

    def tell(*words: Any) -> None:
        os.write(pipe, f"{' '.join(map(str, words))}\n".encode())  # short enough to arrive in one piece

    for owner, name, phase in PARTS:
        _wrap(owner, name, phase, tell)
    latest = CheckpointStore.latest

    def telling(store: CheckpointStore, *given: Any) -> Any:
        found = latest(store, *given)
        tell("resumes", -1 if found is None else found.update)
        return found

    CheckpointStore.latest = telling  # type: ignore[method-assign]
    tell("ready")
    return run(json.loads(sys.stdin.readline()))


def _wrap(owner: Any, name: str, phase: str, tell: Any) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapped(*given: Any, **options: Any) -> Any:
        tell("enters", time.monotonic(), phase)
        try:
            return original(*given, **options)
        finally:
            tell("leaves", time.monotonic(), phase)

    setattr(owner, name, wrapped)


if __name__ == "__main__":
    sys.exit(main())
