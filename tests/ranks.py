"""Processes of several ranks, forked from one that has imported everything, so that a start takes no seconds."""

from __future__ import annotations

import multiprocessing
import os
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["ranks_preload"])


@dataclass(frozen=True)
class Rank:
    """One of the processes; what it writes goes into files."""

    process: BaseProcess
    stream: Path

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def output(self) -> str:
        return self.stream.with_suffix(".out").read_text()

    @property
    def errors(self) -> str:
        return self.stream.with_suffix(".err").read_text()

    def wait(self, timeout: float) -> int:
        """The exit code."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"rank {self.stream.name} did not end in {timeout} s"
        return self.process.exitcode


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def variables(rank: int, port: int) -> dict[str, str]:
    """What srun or another launcher has to set for one of two ranks."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return {**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}


def _be(variables: dict[str, str], stream: Path, target: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Redirects what the process writes, and does as the target says, in its own folder."""
    for number, suffix in ((1, ".out"), (2, ".err")):
        with stream.with_suffix(suffix).open("wb") as file:
            os.dup2(file.fileno(), number)
    os.environ.update(variables)
    os.chdir(stream.parent)
    sys.exit(target(*arguments))


@contextmanager
def two_ranks(
    folder: Path, target: Callable[..., Any], *arguments: Any, only: int | None = None, port: int = 0
) -> Iterator[list[Rank]]:
    """Both ranks of a function's call, or `only` one of them; what is left of them at the end is killed."""
    folder.mkdir(parents=True, exist_ok=True)
    port = port or free_port()
    with pytest.MonkeyPatch.context() as patch:  # the fork server finds its preloaded module by the environment alone
        patch.setenv("PYTHONPATH", str(Path(__file__).parent), prepend=os.pathsep)
        forkserver.ensure_running()
    found = []
    for rank in (0, 1) if only is None else (only,):
        stream = folder / f"rank{rank}"
        process = _context.Process(target=_be, args=(variables(rank, port), stream, target, arguments))
        process.start()
        found.append(Rank(process, stream))
    try:
        yield found
    finally:
        for rank in found:
            rank.process.kill()
            rank.process.join()
