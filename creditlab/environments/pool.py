"""Worker processes side by side, each with one occupant at a time.

A worker that dies or does not answer in time is stopped; it costs its occupant a `WorkerError`, and another process takes
its place when the next occupant comes. Workers see neither the terminal's Ctrl-C nor its screen, and end with the process
that owns the pool, however that one ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from contextlib import suppress
from typing import Any

from creditlab.environments.worker import send
from creditlab.plaintext import clean

_REAPING = 5.0
"""Seconds given to a killed process to disappear."""
_SMALLEST_WAIT = 1e-3
"""A socket's time-out of 0 would mean something else; an answer that is already there is read past the deadline."""


class WorkerError(RuntimeError):
    """A worker died, did not answer in time, or could not do what it was asked."""


class Worker:
    """One process of a pool; `send` a request, then `receive` its answer. After a `WorkerError` it is of no more use."""

    def __init__(self, module: str, timeout: float, folder: str) -> None:
        self._timeout = timeout
        self._remarks = tempfile.TemporaryFile()  # noqa: SIM115 it stays open as long as the worker lives
        self._socket, far = socket.socketpair()
        try:
            with far:
                self._process = _start(module, far, self._remarks, folder)
        except OSError as error:
            self._socket.close()
            self._remarks.close()
            raise WorkerError(f"no worker can be started: {error.strerror}") from None
        self._buffer = bytearray()
        self.started = False
        """Whether it has got ready for requests."""
        self._deadline = time.monotonic() + timeout
        self.pending = False
        """Whether an answer is outstanding."""
        self.failed = False
        self.failure = ""
        """How it failed, where it died or was too slow."""
        self.served = 0
        """Number of occupants so far."""

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the process runs and has not failed."""
        return not self.failed and self._process.poll() is None

    def send(self, request: Any) -> None:
        """Sends a request, plain JSON data, without waiting for the answer; raises WorkerError."""
        self.pending = True
        self._socket.settimeout(self._timeout)
        try:
            send(self._socket, request)
        except OSError as error:
            raise self._failure(timed_out=isinstance(error, TimeoutError)) from None
        if self.started:
            self._deadline = time.monotonic() + self._timeout

    def receive(self) -> Any:
        """The answer to the request that was sent, waited for until its time is over; raises WorkerError."""
        if not self.started:
            self._message()
            self.started = True
            self._deadline = time.monotonic() + self._timeout
        answer = self._message()
        self.pending = False
        if "error" in answer:
            self.failed = True  # nobody knows in what state the exception has left it
            raise WorkerError(clean(str(answer["error"])))
        return answer["result"]

    def stop(self) -> None:
        """Ends the process at once."""
        self.failed = True
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_REAPING)
        self._socket.close()
        self._remarks.close()

    def _message(self) -> Any:
        while b"\n" not in self._buffer:
            self._socket.settimeout(max(self._deadline - time.monotonic(), _SMALLEST_WAIT))
            try:
                part = self._socket.recv(1 << 16)
            except OSError as error:
                raise self._failure(timed_out=isinstance(error, TimeoutError)) from None
            if not part:
                raise self._failure(timed_out=False)
            self._buffer += part
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        return json.loads(line)

    def _failure(self, *, timed_out: bool) -> WorkerError:
        """Stops the process; the error says how it ended and the last thing it said."""
        if timed_out:
            task = "answer" if self.started else "start"
            text = f"worker {self.pid} did not {task} within {self._timeout:g} s and was stopped"
        else:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_REAPING)
            text = f"worker {self.pid} died ({_ending(self._process.poll())})"
        remark = self._last_remark()
        self.stop()
        self.failure = f"{text}; its last words: {remark}" if remark else text
        return WorkerError(self.failure)

    def _last_remark(self) -> str:
        self._remarks.seek(0, os.SEEK_END)
        self._remarks.seek(max(0, self._remarks.tell() - (1 << 12)))
        lines = self._remarks.read().decode(errors="replace").split("\n")
        return clean(next((line for line in reversed(lines) if line.strip()), ""))


class WorkerPool:
    """At most `size` workers that run `python -m module` (see `worker.serve`), started when they are first needed.

    Every wait for a worker, its start included, ends after `timeout` seconds. A worker is replaced after `recycle`
    occupants, so that no memory grows for ever. After `size` + 1 workers in a row that could not start, no other is tried:
    every one might cost its time-out. Not for use in threads.
    """

    def __init__(self, module: str, size: int, timeout: float, recycle: int) -> None:
        self._module, self._size, self._timeout, self._recycle = module, size, timeout, recycle
        self._failed_starts, self._last_failure = 0, ""
        self._idle: list[Worker] = []
        self._workers: set[Worker] = set()
        # temporary files of the workers' own, for one that is killed cannot tidy up
        self._folder = tempfile.TemporaryDirectory(prefix="creditlab-workers-", ignore_cleanup_errors=True)
        self._end = weakref.finalize(self, _end, self._workers, self._folder)

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids of the present workers."""
        return tuple(sorted(worker.pid for worker in self._workers))

    def acquire(self) -> Worker:
        """A worker for a new occupant; raises WorkerError when all are taken or none can be started."""
        while self._idle:
            worker = self._idle.pop()
            if worker.alive:
                break
            self._discard(worker)
        else:
            if len(self._workers) >= self._size:
                raise WorkerError(f"all {self._size} workers are taken")
            if self._failed_starts > self._size:
                raise WorkerError(f"{self._failed_starts} workers in a row could not start, the last: {self._last_failure}")
            worker = Worker(self._module, self._timeout, self._folder.name)
            self._workers.add(worker)
        worker.served += 1
        return worker

    def release(self, worker: Worker) -> None:
        """Takes a worker back from its occupant; one that failed, still owes an answer or is due for it is ended."""
        if worker.started:
            self._failed_starts = 0
        elif worker.failure:
            self._failed_starts += 1
            self._last_failure = worker.failure
        if worker.alive and not worker.pending and worker.served < self._recycle:
            self._idle.append(worker)
        else:
            self._discard(worker)

    def close(self) -> None:
        """Ends all workers; the pool is of no more use."""
        self._idle.clear()
        self._end()

    def _discard(self, worker: Worker) -> None:
        self._workers.discard(worker)
        worker.stop()


def _start(module: str, far: socket.socket, remarks: Any, folder: str) -> subprocess.Popen[bytes]:
    """A process of its own session, which the terminal's signals do not reach, with the imports of this one."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path or str(os.curdir) for path in sys.path),
        "OMP_NUM_THREADS": "1",  # the workers share the cores among themselves
        "TMPDIR": folder,
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", module, str(far.fileno()), folder],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=remarks,
        pass_fds=[far.fileno()],
        env=environment,
        start_new_session=True,
    )


def _end(workers: set[Worker], folder: tempfile.TemporaryDirectory[str]) -> None:
    while workers:
        workers.pop().stop()
    folder.cleanup()


def _ending(code: int | None) -> str:
    if code is None:
        return "without ending"
    if code >= 0:
        return f"exit code {code}"
    with suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
