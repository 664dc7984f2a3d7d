"""How a run ends that cannot go on, on all ranks together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

from creditlab.learner.distributed import gather_texts, largest, rank, world_size
from creditlab.registry import ConfigError
from creditlab.stopping import EXIT_FAILED, EXIT_MISTAKE
from creditlab.tracking.writing import WriteError


class TrainingFailedError(RuntimeError):
    """The run cannot go on; its message says why and where the evidence lies."""


class ElsewhereError(RuntimeError):
    """The run cannot go on, and the first rank tells why; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__("the first rank tells why")
        self.code = code


@contextmanager
def agreed() -> Iterator[None]:
    """What is within succeeds on all ranks or ends the run on all of them; no rank may wait for another within.

    The first rank raises the error, named by its rank if it is that of another one, and the others ElsewhereError. An error
    that nobody foresaw is also raised where it happened, so that its stack trace is seen.
    """
    if world_size() == 1:
        yield
        return
    error: Exception | None = None
    try:
        yield
    except Exception as found:
        error = found
    if not largest(float(error is not None)):
        return
    told = [json.loads(text) for text in gather_texts(json.dumps(error and _kind(error)))]
    where, (kind, message) = next((i, found) for i, found in enumerate(told) if found)
    if error and (rank() == 0 or _kind(error)[0] == "unforeseen"):
        raise error
    if rank() != 0:
        raise ElsewhereError(EXIT_MISTAKE if kind == "mistake" else EXIT_FAILED) from error
    raise {"mistake": ConfigError, "write": WriteError}.get(kind, TrainingFailedError)(f"rank {where}: {message}")


def _kind(error: Exception) -> tuple[str, str]:
    """What kind of error it is, and its message."""
    for kind, cls in (("mistake", ValueError), ("write", WriteError), ("failed", TrainingFailedError)):
        if isinstance(error, cls):
            return kind, str(error)
    return "unforeseen", f"{type(error).__name__}: {error}"
