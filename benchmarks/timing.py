"""How the benchmarks measure time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], repeats: int) -> float:
    """Shortest of several calls, in seconds: what the machine can do when left alone."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
