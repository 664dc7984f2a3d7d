"""How the benchmarks measure time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], repeats: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Shortest of several calls, in seconds: what the machine can do when left alone."""
    times = []
    for _ in range(repeats):
        start = clock()
        call()
        times.append(clock() - start)
    return min(times)
