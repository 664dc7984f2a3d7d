"""A sitting of a run in a process of its own that can be watched and killed."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

PROGRAM = Path(__file__).with_name("sitting.py")
LONGEST_WAIT = 180.0
"""Seconds after which a sitting that says nothing new counts as hung."""


class Sitting:
    """A process of `sitting.py`: it loads its libraries at once and runs when it is told to; `log` takes its stderr."""

    def __init__(self, log: Path) -> None:
        self._pipe, write = os.pipe()
        self._log = log
        command = [sys.executable, str(PROGRAM), str(write)]
        with log.open("wb") as errors:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, pass_fds=(write,)
            )
        os.close(write)
        self._rest = b""
        self._ready = self._over = False
        self.resumed: int | None = None
        """Update that it goes on from, -1 where it begins anew; None until it has looked."""
        self.inside: list[str] = []
        """The parts it is in at the moment, the innermost last."""
        self.entered: Counter[str] = Counter()
        """How often it entered each part."""
        self._since: dict[str, float] = {}
        self.spans: dict[str, list[float]] = defaultdict(list)
        """Seconds that each visit of a part took."""

    @property
    def update(self) -> int:
        """The update in progress; 0 before the first one."""
        return max(self.resumed or 0, 0) + self.entered["rollouts"]

    def start(self, overrides: Sequence[str]) -> None:
        """Begins the run as soon as the libraries are loaded."""
        self.wait_until(lambda: self._ready, "loaded its libraries")
        assert self.process.stdin is not None
        self.process.stdin.write(f"{json.dumps(list(overrides))}\n".encode())
        self.process.stdin.close()
        self.wait_until(lambda: self.resumed is not None, "looked for a checkpoint")

    def finish(self) -> None:
        """Waits for the end of the run; raises RuntimeError when it fails."""
        while not self._over:
            self._listen()
        if self.process.wait(LONGEST_WAIT):
            raise RuntimeError(f"a sitting ended with code {self.process.returncode}: {self.errors()}")

    def kill(self) -> None:
        """Kills the process at once and takes in what it said before."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(LONGEST_WAIT)
        while not self._over:
            self._listen()

    def close(self) -> None:
        """Ends the process, if it still runs."""
        self.process.kill()
        self.process.wait(LONGEST_WAIT)
        os.close(self._pipe)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        """Listens until a condition holds; raises RuntimeError when the process ends before it has done `what`."""
        while not condition():
            if self._over:
                raise RuntimeError(f"a sitting ended before it {what}: {self.errors()}")
            self._listen()

    def errors(self) -> str:
        """The end of what it wrote on stderr."""
        return self._log.read_text(errors="replace")[-2000:]

    def _listen(self) -> None:
        """Takes in what the process says next."""
        if not select.select([self._pipe], [], [], LONGEST_WAIT)[0]:
            raise RuntimeError(f"a sitting said nothing for {LONGEST_WAIT:.0f} s, inside of {self.inside}")
        heard = os.read(self._pipe, 1 << 16)
        self._over = not heard
        *lines, self._rest = (self._rest + heard).split(b"\n")
        for line in lines:
            self._note(*line.decode().split(" ", 2))

    def _note(self, kind: str, value: str = "", part: str = "") -> None:
        match kind:
            case "ready":
                self._ready = True
            case "resumes":
                self.resumed = int(value)
            case "enters":
                self.inside.append(part)
                self.entered[part] += 1
                self._since[part] = float(value)
            case "leaves":
                self.inside.remove(part)
                self.spans[part].append(float(value) - self._since[part])


def sleep(seconds: float) -> None:
    """Waits, exactly enough for parts of a few milliseconds."""
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        time.sleep(left)
