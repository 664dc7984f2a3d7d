"""Whole runs on two ranks: launchers, groups unevenly filled, resume on another number of ranks, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from corridor import quick_job
from one_of_two_sessions import SHORT, Batchwise
from past_runs import records, without_figures
from safetensors.torch import load_file
from test_command_line import TINY, folder

from creditlab.cli import run as command
from creditlab.rollouts.store import RolloutStore, load, load_advantages
from creditlab.rollouts.together import load_update
from creditlab.tracking.jsonl import read
from creditlab.training.session import train

BIN = Path(sys.executable).parent
SCRIPT = Path(__file__).with_name("one_of_two_sessions.py")
FOUR = ("training.updates=4", "rollout.groups=3", "checkpoint.keep=9", "checkpoint.rollouts_every=1")


def overrides(root: Path, name: str, *given: str) -> list[str]:
    own = {g.partition("=")[0] for g in (*FOUR, *given)}
    defaults = [d for d in (*TINY, *FOUR) if d.partition("=")[0] not in own or d in FOUR]
    return [*defaults, f"run_root={root / name}", f"warm_start.cache={root / 'cache'}", *given]


def variables(rank: int, port: int) -> dict[str, str]:
    """What srun or another launcher has to set for one of two ranks."""
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    return {**os.environ, **place, "RANK": str(rank), "LOCAL_RANK": str(rank)}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def two_processes(*arguments: str, cwd: Path) -> Iterator[list[subprocess.Popen[str]]]:
    port = free_port()
    ranks = [
        subprocess.Popen(
            [sys.executable, *arguments], env=variables(r, port), cwd=cwd, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for r in range(2)
    ]  # fmt: skip
    try:
        yield ranks
    finally:
        for process in ranks:
            process.kill()
            process.wait()


def wait_for_update(root: Path, name: str, processes: list[subprocess.Popen[str]], update: int = 1) -> None:
    deadline = time.monotonic() + 300
    while not any(line["step"] >= update for path in (root / name).glob("*") for line in read(path / "metrics.jsonl")):
        assert all(process.poll() is None for process in processes)
        assert time.monotonic() < deadline
        time.sleep(0.02)


def weights(path: Path, update: int) -> dict[str, Any]:
    return load_file(path / "checkpoints" / f"update-{update:06d}" / "model" / "model.safetensors")


def near(one: Path, other: Path, updates: int = 4) -> None:
    """Parameters are equal up to rounding; metrics have neither gap nor repeat and count the same episodes."""
    first, second = weights(one, updates), weights(other, updates)
    assert max(float((first[name] - second[name]).abs().max()) for name in first) < 1e-5
    lines = [read(path / "metrics.jsonl") for path in (one, other)]
    assert [line["step"] for line in lines[0]] == [line["step"] for line in lines[1]] == list(range(updates + 1))
    for a, b in zip(*lines, strict=True):
        for key in ("episode/decisions", "episode/success_rate", "training/transitions", "val/success_rate"):
            assert a.get(key) == b.get(key), (a["step"], key)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def alone(root: Path) -> Path:
    """Four updates on one rank."""
    assert command(overrides(root, "alone")) == 0
    return folder(root, "alone")


# launchers and resume


def test_torchrun_is_interrupted_and_one_rank_goes_on(root: Path, alone: Path) -> None:
    """ZeRO-3 on two ranks, two groups and one; Ctrl-C reaches the launcher and both ranks, as from a terminal."""
    launched = subprocess.Popen(
        [BIN / "torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()), "-m", "creditlab",
         *overrides(root, "torchrun", "learner.zero_stage=3", "training.updates=40")],
        cwd=root, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        wait_for_update(root, "torchrun", [launched])
        os.killpg(launched.pid, signal.SIGINT)
        output, errors = launched.communicate(timeout=200)
    finally:
        launched.kill()
    assert launched.returncode != 0
    assert output.count("interrupted; continue with the same command and resume=true") == 1, errors[-3000:]
    path = folder(root, "torchrun")
    stopped = int(read(path / "metrics.jsonl")[-1]["step"])
    assert max(p.name for p in (path / "checkpoints").iterdir()) == f"update-{stopped:06d}"
    assert 1 <= stopped < 4, "the machine was too fast for the signal"
    assert command(overrides(root, "torchrun", "resume=true")) == 0
    near(alone, path)


def test_one_rank_begins_and_the_deepspeed_launcher_goes_on(root: Path, alone: Path) -> None:
    assert command(overrides(root, "deepspeed", "training.updates=2")) == 0
    done = subprocess.run(
        [BIN / "deepspeed", "--no_local_rank", "--num_accelerators", "2", "--master_port", str(free_port()), "--module",
         "creditlab", *overrides(root, "deepspeed", "learner.zero_stage=2", "resume=true")],
        cwd=root, capture_output=True, text=True, timeout=300, check=False,
        env={**os.environ, "DS_ACCELERATOR": "cpu", "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}"},
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert done.stdout.count("resumes after update 2") == 1  # one rank talks
    near(alone, folder(root, "deepspeed"))


def test_the_rollouts_of_all_ranks_are_read_together(root: Path, alone: Path) -> None:
    path = folder(root, "deepspeed")
    store, whole = RolloutStore(path / "rollouts"), RolloutStore(alone / "rollouts")
    assert [p.name for _, p in store.files()][1:4] == [
        "update-000002.parquet", "update-000003-rank0.parquet", "update-000003-rank1.parquet",
    ]  # fmt: skip
    batch, advantages = load_update(store, 3)
    expected = load(whole.path(3))
    assert [g.id for g in batch.groups] == [g.id for g in expected.groups] == ["u3-g0", "u3-g1", "u3-g2"]
    assert [t.score for t in batch.trajectories] == [t.score for t in expected.trajectories]
    assert np.array_equal(advantages, load_advantages(whole.path(3)))
    (path / "rollouts" / "update-000003-rank1.parquet").unlink()
    with pytest.raises(ValueError, match="holds 1 files of update 3, but 2 ranks stored one each"):
        load_update(store, 3)
    with pytest.raises(ValueError, match="holds no rollouts of update 9"):
        load_update(store, 9)


# one after the other in two processes


NAMES = ("scope", "one_group", "one_rank_fails", "credit", "mistake", "checkpoint", "rollouts", "signal", "lost")
Found = list[dict[str, Any]]


@pytest.fixture(scope="module")
def sessions(root: Path) -> Found:
    """What became of the runs of one_of_two_sessions.py on either rank."""
    place = root / "sessions"
    place.mkdir()
    with two_processes(str(SCRIPT), str(place), *NAMES, cwd=SCRIPT.parent) as ranks:
        for process in ranks:
            _, errors = process.communicate(timeout=400)
            assert process.returncode == 0, errors[-3000:]
    return [json.loads((place / f"rank{r}.json").read_text()) for r in range(2)]


def results(sessions: Found, name: str) -> list[Any]:
    return [found[name]["result"] for found in sessions]


def told(sessions: Found, name: str) -> tuple[str, str]:
    """The status and the message with which the first rank ended."""
    status, message = sessions[0][name]["endings"][0]
    return status, message


def test_a_statistic_of_the_update_is_that_of_all_ranks(sessions: Found, root: Path, tmp_path: Path) -> None:
    assert results(sessions, "scope") == [0, 0]
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        job = quick_job(tmp_path, *SHORT, "checkpoint.rollouts_every=1", method=Batchwise())
        assert train(job) == 0
    [two] = (root / "sessions" / "scope" / "runs").iterdir()
    for update in (1, 2):
        batch, advantages = load_update(RolloutStore(two / "rollouts"), update)
        expected = load(job.folder / "rollouts" / f"update-{update:06d}.parquet")
        assert [t.id for t in batch.trajectories] == [t.id for t in expected.trajectories]
        assert np.array_equal(advantages, load_advantages(job.folder / "rollouts" / f"update-{update:06d}.parquet"))
    for one, both in zip(records(job), read(two / "metrics.jsonl"), strict=True):
        assert one.get("credit/decisions") == both.get("credit/decisions") == one.get("episode/decisions")
        assert one.get("credit/mean") == both.get("credit/mean")


def test_a_rank_without_groups_or_without_sound_trajectories_takes_part(sessions: Found, root: Path) -> None:
    for name in ("one_group", "one_rank_fails"):
        assert results(sessions, name) == [0, 0]
        [path] = (root / "sessions" / name / "runs").iterdir()
        assert [line["step"] for line in read(path / "metrics.jsonl")] == [0, 1, 2]
    # of three groups the second rank has one, and of six episodes of the panel three
    events = [json.loads(line)["message"] for line in (path / "events.jsonl").read_text().splitlines()]
    assert events[0].startswith("3 episodes of the evaluation failed, first: task 'p1'")
    assert events[1].startswith("4 trajectories failed, first: task 't")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("credit", "rank 1: method=broken failed in update 1: no credit today"),
        ("checkpoint", "cannot write {run}/checkpoints/update-000002: No space left on device; free space and continue"),
        ("rollouts", "rank 1: cannot write {run}/rollouts/update-000001-rank1.parquet: No space left on device; free"),
    ],
)
def test_a_failure_on_one_rank_ends_both_and_is_told_once(name: str, message: str, sessions: Found, root: Path) -> None:
    assert results(sessions, name) == [1, 1]
    [path] = (root / "sessions" / name / "runs").iterdir()
    status, said = told(sessions, name)
    assert status == "failed"
    assert said.startswith(message.format(run=path))


def test_a_mistake_is_for_the_first_rank_to_tell(sessions: Found) -> None:
    first, second = results(sessions, "mistake")
    assert first.startswith("ConfigError: resume=true: there is no run in")
    assert second == 2


def test_a_signal_on_one_rank_saves_and_ends_both(sessions: Found, root: Path) -> None:
    assert results(sessions, "signal") == [130, 130]
    assert told(sessions, "signal")[0] == "interrupted"
    [path] = (root / "sessions" / "signal" / "runs").iterdir()
    assert [p.name for p in (path / "checkpoints").iterdir()] == ["update-000001"]


def test_an_error_that_nobody_foresaw_is_raised_where_it_happened(sessions: Found) -> None:
    """The last run of the two processes: the second one ends with it, and the first one notices."""
    first, second = results(sessions, "lost")
    assert second == "RuntimeError: out of memory"
    assert first == 1
    assert told(sessions, "lost") == ("failed", LOST_MESSAGE.format(reason="has ended"))


LOST_MESSAGE = "another rank {reason}; what it said itself, if anything, tells why"


# ranks that are gone


def long_run(root: Path, name: str) -> list[str]:
    return ["-m", "creditlab", *overrides(root, name, "training.updates=500", "training.timeout=8", "checkpoint.every=1")]


def test_a_rank_that_hangs_ends_the_run_in_time(root: Path, alone: Path) -> None:
    with two_processes(*long_run(root, "hangs"), cwd=root) as ranks:
        wait_for_update(root, "hangs", ranks)
        os.kill(ranks[1].pid, signal.SIGSTOP)
        started = time.monotonic()
        output, errors = ranks[0].communicate(timeout=60)
        assert time.monotonic() - started < 50
        assert ranks[0].returncode == 1
        assert output.count(LOST_MESSAGE.format(reason="did not answer in time")) == 1
        assert errors == ""


def test_when_the_first_rank_is_killed_the_second_one_tells(root: Path, alone: Path) -> None:
    with two_processes(*long_run(root, "killed"), cwd=root) as ranks:
        wait_for_update(root, "killed", ranks)
        os.kill(ranks[0].pid, signal.SIGKILL)
        _, errors = ranks[1].communicate(timeout=60)
        assert ranks[1].returncode == 1
        assert errors == f"creditlab: {LOST_MESSAGE.format(reason='has ended')}\n"
