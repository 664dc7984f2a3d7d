"""Feeds many damaged inputs to what reads them, each under a time limit, and keeps the one that got through.

`CREDITLAB_FUZZ_SEED=417 pytest tests/fuzz/test_fuzz_games.py` runs the input with that seed alone, as a failure names it;
`CREDITLAB_FUZZ_TIMES=10` runs ten times as many.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

import numpy as np
import pytest

from creditlab.training.seeds import derive

Rng = np.random.Generator
T = TypeVar("T")
LONGEST = 10.0
"""Seconds of processor time that one input may take."""
LONGEST_MESSAGE = 2500
"""Characters of an error that still is one clear message."""
TRACES = ("Traceback", 'File "', "line 1, in ")


class HangError(BaseException):
    """An input took too long; no handler of exceptions may swallow it."""


def fuzz(name: str, count: int, make: Callable[[Rng], T], check: Callable[[T, Rng], str]) -> None:
    """Every input that `make` gives must stand `check`, which says how it was handled; each kind of handling must occur."""
    handled: dict[str, int] = {}
    for seed in _seeds(count):
        rng = derive("fuzz", name, seed)
        given = make(rng)
        try:
            with _limited():
                outcome = check(given, rng)
        except (Exception, HangError, SystemExit, pytest.fail.Exception) as error:
            shown = repr(given)
            shown = shown if len(shown) < 3000 else f"{shown[:1500]} … {shown[-1500:]}"
            pytest.fail(f"{type(error).__name__}: {str(error)[:1500]}\nCREDITLAB_FUZZ_SEED={seed}, {name} given {shown}")
        handled[outcome] = handled.get(outcome, 0) + 1
    assert len(handled) > 1 or "CREDITLAB_FUZZ_SEED" in os.environ, f"the inputs of {name} all ended as {handled}"


def check_message(error: BaseException, names: Sequence[object]) -> None:
    """One line that says which input is meant: it holds one of the names."""
    message = str(error)
    assert len(message) <= LONGEST_MESSAGE, f"a message of {len(message)} characters: {message[:300]}"
    assert "\n" not in message.strip(), f"several lines: {message}"
    assert not any(trace in message for trace in TRACES), message
    assert any(str(name) in message for name in names), f"none of {list(map(str, names))} in: {message}"


def _seeds(count: int) -> Sequence[int]:
    if "CREDITLAB_FUZZ_SEED" in os.environ:
        return [int(os.environ["CREDITLAB_FUZZ_SEED"])]
    return range(count * int(os.environ.get("CREDITLAB_FUZZ_TIMES", "1")))


@contextmanager
def _limited() -> Iterator[None]:
    """Raises HangError in what takes more processor time than allowed; pytest's own time-out is for what sleeps."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise HangError(f"not done after {LONGEST:.0f} s")

    previous = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, LONGEST)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
