"""A run in a process of its own: started, watched, ended in order, and its last words."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from creditlab.plaintext import clean
from creditlab.suites.plan import PlannedRun

Command = Callable[[PlannedRun], Sequence[str]]
"""The command line of a run."""
_TAIL = 20_000
"""Bytes of a log in which the last words are looked for."""


def train_command(run: PlannedRun) -> list[str]:
    """The command that trains a run with this interpreter."""
    return [sys.executable, "-m", "creditlab", *run.overrides]


def log_path(folder: Path, run: PlannedRun) -> Path:
    """The log of a run, below the suite's folder."""
    return folder / "logs" / f"{run.folder.name}.log"


def environment() -> dict[str, str]:
    """The environment of a run: one OpenMP thread unless the user says otherwise, for runs share the cores."""
    return {"OMP_NUM_THREADS": "1", **os.environ}


@dataclass
class RunProcess:
    """A process at work on one run, the leader of a process group of its own."""

    run: PlannedRun
    log: Path
    offset: int
    """Where the log of this sitting begins."""
    process: subprocess.Popen[Any]

    @classmethod
    def start(cls, run: PlannedRun, log: Path, command: Sequence[str]) -> RunProcess:
        """Starts the command with its output at the end of the log; a terminal's Ctrl-C does not reach it."""
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            file.write(f"$ {shlex.join(command)}\n".encode())
            file.flush()
            offset = file.tell()
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment(),
                start_new_session=True,
            )
            return cls(run, log, offset, process)

    def poll(self) -> int | None:
        """The exit code; None while it is at work."""
        return self.process.poll()

    def end(self) -> None:
        """Asks for an orderly end: the run finishes its update and writes a checkpoint. Its helpers are left to it."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Ends the run and its helpers at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def last_words(self) -> str:
        """The last line that the run wrote in this sitting, or the signal that ended it."""
        code = self.process.returncode
        if code is not None and code < 0:
            return f"ended by {signal.Signals(-code).name}"
        return last_line(self.log, self.offset) or f"ended with code {code} and said nothing"


def last_line(log: Path, offset: int = 0) -> str:
    """The last line of a log that is not empty, without what would steer a terminal; empty where there is none."""
    try:
        with log.open("rb") as file:
            file.seek(max(offset, file.seek(0, os.SEEK_END) - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    return clean(next((line for line in reversed(lines) if line.strip()), "")).removeprefix("creditlab: ")
