"""How a command ends: exit codes, and signals before anything is at stake. Importing this module imports next to nothing."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from creditlab.plaintext import printable

EXIT_FAILED = 1
"""Exit code of a run that cannot go on."""
EXIT_MISTAKE = 2
"""Exit code of a command whose configuration or arguments are wrong."""
EXIT_UNREAD = 141
"""Exit code of a command whose reader is gone, as a shell gives it for SIGPIPE."""
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


def run_command(main: Callable[[Sequence[str]], int]) -> NoReturn:
    """Ends the process with what `main` returns for its arguments; quietly where nobody reads on, as before `| head`.

    SIGPIPE stays ignored: a pipe or socket of the run itself that breaks must not end it without a word.
    """
    end_when_told()
    try:
        try:
            code = main(sys.argv[1:])
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        unread = [stream for stream in (sys.stdout, sys.stderr) if _is_unread(stream.fileno())]
        if not unread:
            raise
        for stream in unread:  # otherwise the interpreter complains when it flushes what is left
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        code = EXIT_UNREAD
    sys.exit(code)


def _is_unread(descriptor: int) -> bool:
    """Whether what is written there meets no reader any more."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poll.poll(0))


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
