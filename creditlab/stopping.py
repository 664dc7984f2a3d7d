"""How a command ends: exit codes, and signals before anything is at stake. Importing this module imports next to nothing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from creditlab.plaintext import printable

EXIT_FAILED = 1
"""Exit code of a run that cannot go on."""
EXIT_MISTAKE = 2
"""Exit code of a command whose configuration or arguments are wrong."""
EXIT_INTERRUPTED = 130
"""Exit code of an interrupted command, as a shell gives it for Ctrl-C."""

SIGNALS = (signal.SIGINT, signal.SIGTERM)
"""Those that ask a command to end."""
Handler = Callable[[int, FrameType | None], None]


def end_when_told() -> None:
    """Makes an interrupt or termination signal end the process at once, with one line and without a stack trace.

    A part of the program with something to lose puts a handler of its own in place while it runs.
    """

    def end(signum: int, frame: FrameType | None) -> None:
        tell("interrupted")
        os._exit(EXIT_INTERRUPTED)  # an exception might be caught by whatever is just being imported

    for number in SIGNALS:
        signal.signal(number, end)


@contextmanager
def handling(handler: Handler) -> Iterator[None]:
    """Answers interrupt and termination signals with `handler` during what is within, and as before after it."""
    previous = {number: signal.signal(number, handler) for number in SIGNALS}
    try:
        yield
    finally:
        for number, earlier in previous.items():
            signal.signal(number, earlier)


def tell(message: str, program: str = "creditlab", *, every_rank: bool = False) -> None:
    """Writes one line on stderr, without what would steer a terminal.

    Of the ranks of a machine, which read the same command line, only the first one does, unless it concerns `every_rank`.
    """
    if every_rank or os.environ.get("LOCAL_RANK", os.environ.get("RANK", "0")) == "0":
        sys.stderr.write(f"{program}: {printable(message)}\n")
        sys.stderr.flush()
