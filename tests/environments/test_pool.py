"""The worker pool: side by side, and no death, silence or growth of a worker costs more than its occupant."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pool_worker
import pytest

from creditlab.environments.pool import Worker, WorkerError, WorkerPool

PATIENCE = 60.0
"""Seconds; only tests of time-outs wait for less."""
SHORT = 1.0


@pytest.fixture
def pool() -> Iterator[WorkerPool]:
    made = WorkerPool("pool_worker", 2, PATIENCE, 100)
    yield made
    made.close()


def ask(worker: Worker, verb: str, argument: Any = None) -> Any:
    worker.send([verb, argument])
    return worker.receive()


def hasty(module: str = "pool_worker") -> WorkerPool:
    """A pool that waits for a short time only."""
    return WorkerPool(module, 1, SHORT, 100)


def gone(pid: int) -> bool:
    """Whether a process has ended, even where nobody has reaped it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def wait_until_gone(pids: list[int]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not all(map(gone, pids)):
        time.sleep(0.05)
    return all(map(gone, pids))


def test_a_worker_answers_and_serves_one_occupant_after_another(pool: WorkerPool) -> None:
    first = pool.acquire()
    assert ask(first, "echo", "hé\n\u2028") == {"echo": "hé\n\u2028", "heard": 1, "pid": first.pid}
    pool.release(first)
    again = pool.acquire()
    assert ask(again, "echo", [1, None]) == {"echo": [1, None], "heard": 2, "pid": first.pid}
    assert pool.pids == (first.pid,)


def test_no_more_workers_than_its_size(pool: WorkerPool) -> None:
    taken = [pool.acquire(), pool.acquire()]
    assert len({worker.pid for worker in taken}) == 2
    with pytest.raises(WorkerError, match="all 2 workers are taken"):
        pool.acquire()
    pool.release(taken[0])
    assert pool.acquire() is taken[0]


def test_workers_work_side_by_side(pool: WorkerPool) -> None:
    workers = [pool.acquire(), pool.acquire()]
    for worker in workers:
        ask(worker, "echo")  # both have started
    for worker in workers:
        worker.send(["sleep", 0.5])
    spans = [worker.receive() for worker in workers]
    assert max(start for start, _ in spans) < min(end for _, end in spans)


def test_a_worker_that_dies_says_how_and_costs_its_occupant_alone(pool: WorkerPool) -> None:
    dying, other = pool.acquire(), pool.acquire()
    ask(dying, "say", "a warning\nterminate called:\t\x1b[31mout of memory\n\n")
    with pytest.raises(WorkerError) as caught:
        ask(dying, "exit", 3)
    assert str(caught.value) == (
        f"worker {dying.pid} died (exit code 3); its last words: terminate called: �[31mout of memory"
    )
    assert ask(other, "echo", 1)["echo"] == 1
    pool.release(dying)
    fresh = pool.acquire()
    assert fresh.pid != dying.pid
    assert ask(fresh, "echo", 2) == {"echo": 2, "heard": 1, "pid": fresh.pid}


@pytest.mark.parametrize("moment", ["before", "while"])
def test_a_worker_that_is_killed(pool: WorkerPool, moment: str) -> None:
    worker = pool.acquire()
    ask(worker, "echo")
    if moment == "while":
        worker.send(["sleep", 60])
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkerError, match=rf"^worker {worker.pid} died \(killed by SIGKILL\)$"):
        worker.receive() if moment == "while" else ask(worker, "echo", 1)


@pytest.mark.parametrize("size", [1, 4_000_000], ids=["small", "more than a pipe holds"])
def test_a_stopped_worker_is_waited_for_no_longer_than_the_time_out(size: int) -> None:
    pool = WorkerPool("pool_worker", 1, PATIENCE, 100)
    worker = pool.acquire()
    ask(worker, "echo")
    os.kill(worker.pid, signal.SIGSTOP)
    worker._timeout = SHORT
    start = time.monotonic()
    with pytest.raises(WorkerError, match=rf"^worker {worker.pid} did not answer within 1 s and was stopped$"):
        ask(worker, "echo", "x" * size)
    assert SHORT <= time.monotonic() - start < 20 * SHORT
    assert gone(worker.pid)
    pool.release(worker)
    assert ask(pool.acquire(), "echo", 5)["heard"] == 1
    pool.close()


def test_a_worker_that_does_not_start_in_time() -> None:
    pool = hasty(pool_worker.NEVER_STARTS)
    worker = pool.acquire()
    with pytest.raises(WorkerError, match=r"^worker \d+ did not start within 1 s and was stopped$"):
        ask(worker, "echo")
    pool.close()


def test_a_worker_that_cannot_start_says_why() -> None:
    pool = WorkerPool(pool_worker.FAILS_TO_START, 1, PATIENCE, 100)
    with pytest.raises(WorkerError, match=r"died \(exit code 1\); its last words: RuntimeError: no engine here$"):
        ask(pool.acquire(), "echo")
    pool.close()


def fail(pool: WorkerPool) -> str:
    """What an occupant is told whose worker cannot start, or is not even tried."""
    try:
        worker = pool.acquire()
    except WorkerError as error:
        return str(error)
    with pytest.raises(WorkerError) as caught:
        ask(worker, "echo")
    pool.release(worker)
    return str(caught.value)


def test_workers_that_cannot_start_are_not_tried_for_ever() -> None:
    """Else each episode of a run would wait for one until its time-out."""
    pool = WorkerPool(pool_worker.FAILS_TO_START, 2, PATIENCE, 100)
    died = r"worker \d+ died \(exit code 1\); its last words: RuntimeError: no engine here"
    for _ in range(3):
        assert re.fullmatch(died, fail(pool))
    pids = pool.pids
    for _ in range(2):
        assert re.fullmatch(rf"3 workers in a row could not start, the last: {died}", fail(pool))
    assert pool.pids == pids == ()


def test_a_worker_that_starts_makes_up_for_those_that_did_not(pool: WorkerPool) -> None:
    for _ in range(2):
        pool._module = pool_worker.FAILS_TO_START
        for _ in range(2):
            assert fail(pool).endswith("no engine here")
        pool._module = "pool_worker"
        started = pool.acquire()
        ask(started, "echo")
        with pytest.raises(WorkerError):
            ask(started, "exit", 1)  # what comes after the start does not count
        pool.release(started)


def test_a_worker_that_nobody_waited_for_has_not_failed_to_start(pool: WorkerPool) -> None:
    for _ in range(4):
        pool.release(pool.acquire())
    assert ask(pool.acquire(), "echo", 1)["echo"] == 1


def test_an_exception_is_told_and_its_worker_replaced(pool: WorkerPool) -> None:
    worker = pool.acquire()
    with pytest.raises(WorkerError, match=r"^LookupError: cannot fly at�\[1mall$"):
        ask(worker, "fly")
    pool.release(worker)
    assert gone(worker.pid)
    assert pool.pids == ()


def test_a_worker_is_replaced_after_its_number_of_occupants() -> None:
    pool = WorkerPool("pool_worker", 1, PATIENCE, 3)
    pids = []
    for _ in range(7):
        worker = pool.acquire()
        pids.append(ask(worker, "echo")["pid"])
        pool.release(worker)
    first, second, third = pids[0], pids[3], pids[6]
    assert pids == [first] * 3 + [second] * 3 + [third]
    assert len({first, second, third}) == 3
    assert gone(first)
    assert gone(second)
    pool.close()


def test_a_worker_that_died_while_nobody_used_it_costs_nobody_anything(pool: WorkerPool) -> None:
    idle = pool.acquire()
    ask(idle, "echo")
    pool.release(idle)
    os.kill(idle.pid, signal.SIGKILL)
    assert wait_until_gone([idle.pid])
    assert ask(pool.acquire(), "echo", 1)["heard"] == 1


def test_nobody_gets_the_answer_to_the_question_of_another(pool: WorkerPool) -> None:
    worker = pool.acquire()
    worker.send(["echo", "left behind"])
    pool.release(worker)
    assert ask(pool.acquire(), "echo", "mine")["echo"] == "mine"


def test_closing_ends_all_workers_and_removes_their_files(pool: WorkerPool) -> None:
    workers = [pool.acquire(), pool.acquire()]
    ask(workers[0], "scratch", "x")
    workers[1].send(["sleep", 60])
    folder = Path(pool._folder.name)
    assert (folder / "scratch").exists()
    pool.close()
    assert all(gone(worker.pid) for worker in workers)
    assert not folder.exists()
    pool.close()  # does no harm


OWNER = """
import os, signal, sys, time
from creditlab.environments.pool import WorkerPool
pool = WorkerPool("pool_worker", 2, 60.0, 100)
workers = [pool.acquire(), pool.acquire()]
for worker in workers:
    worker.send(["say", "noise"])
    worker.receive()
workers[1].send(["sleep", 2])
sys.stdout.write(" ".join(str(pid) for pid in pool.pids) + "\\n")
sys.stdout.flush()
"""


def owner(ending: str, folder: Path) -> subprocess.Popen[str]:
    """A process of its own group that has a pool with a worker at rest and one at work."""
    return subprocess.Popen(
        [sys.executable, "-c", OWNER + ending],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TMPDIR": str(folder)},
    )


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(4)", 4),
        ("raise KeyboardInterrupt", -signal.SIGINT),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
    ],
)
def test_workers_end_with_the_process_that_owns_them(ending: str, code: int, tmp_path: Path) -> None:
    process = owner(ending, tmp_path)
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == code
    assert re.fullmatch(r"\d+ \d+\n", out), "workers wrote to the screen"
    assert wait_until_gone([int(pid) for pid in out.split()])
    assert not list(tmp_path.iterdir()), "files were left behind"


def test_ctrl_c_in_the_terminal_reaches_the_owner_alone(tmp_path: Path) -> None:
    process = owner(
        """
told = []
signal.signal(signal.SIGINT, lambda *_: told.append(True))
sys.stdout.write("ready\\n")
sys.stdout.flush()
while not told:  # the signal may come before anyone waits for it
    time.sleep(0.01)
workers[0].send(["echo", 6])
sys.stdout.write(f"{workers[0].receive()['echo']} {len(workers[1].receive())}\\n")
""",
        tmp_path,
    )
    assert process.stdout is not None
    process.stdout.readline()
    assert process.stdout.readline() == "ready\n"
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE)
    assert (out, err, process.returncode) == ("6 2\n", "", 0)
