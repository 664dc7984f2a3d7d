"""What the workers of the pool's tests run: it does as it is told, bad things included."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from creditlab.environments.worker import Handler, serve

NEVER_STARTS, FAILS_TO_START = "pool_worker_that_hangs", "pool_worker_that_fails"
"""Modules beside this one whose start takes for ever, or ends in an exception."""


def obedient() -> Handler:
    """Does one request: a verb and its argument."""
    memory: list[Any] = []

    def act(request: Any) -> Any:
        verb, argument = request
        if verb == "echo":
            memory.append(argument)
            return {"echo": argument, "heard": len(memory), "pid": os.getpid()}
        if verb == "sleep":
            start = time.monotonic()
            time.sleep(argument)
            return [start, time.monotonic()]
        if verb == "say":
            os.write(1, b"to the screen\n")
            sys.stderr.write(argument)
            return None
        if verb == "scratch":
            return Path(os.environ["TMPDIR"], "scratch").write_text(argument)
        if verb == "exit":
            os._exit(argument)
        raise LookupError(f"cannot {verb}\nat\x1b[1mall")

    return act


if __name__ == "__main__":
    serve(obedient)
