"""Whole runs on two ranks: launchers, groups unevenly filled, resume on another number of ranks, and what goes wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import one_of_two_sessions
import pytest
from corridor import quick_job
from one_of_two_sessions import SHORT, Batchwise
from past_runs import records, without_figures
from ranks import Rank, free_port, two_ranks
from safetensors.torch import load_file
from test_command_line import TINY, folder

from creditlab import evaluate
from creditlab.cli import run as command
from creditlab.learner.distributed import own_gpu
from creditlab.rollouts.store import RolloutStore, load, load_advantages
from creditlab.rollouts.together import load_update
from creditlab.tracking.jsonl import read
from creditlab.training.session import train

BIN = Path(sys.executable).parent
INTERRUPTED = Path(__file__).with_name("interrupted_command.py")
FOUR = ("training.updates=4", "rollout.groups=3", "checkpoint.keep=9", "checkpoint.rollouts_every=1")


def overrides(root: Path, name: str, *given: str) -> list[str]:
    own = {g.partition("=")[0] for g in (*FOUR, *given)}
    defaults = [d for d in (*TINY, *FOUR) if d.partition("=")[0] not in own or d in FOUR]
    return [*defaults, f"run_root={root / name}", f"warm_start.cache={root / 'cache'}", *given]


def wait_for_update(root: Path, name: str, processes: list[Rank], update: int = 1) -> None:
    deadline = time.monotonic() + 300
    while not any(line["step"] >= update for path in (root / name).glob("*") for line in read(path / "metrics.jsonl")):
        assert all(rank.process.is_alive() for rank in processes), [rank.errors[-3000:] for rank in processes]
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
    """ZeRO-3 on two ranks, two groups and one; Ctrl-C reaches the launcher and a rank within the first update."""
    done = subprocess.run(
        [BIN / "torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()), INTERRUPTED,
         *overrides(root, "torchrun", "learner.zero_stage=3")],
        cwd=root, capture_output=True, text=True, timeout=300, check=False, start_new_session=True,
    )  # fmt: skip
    assert done.returncode != 0
    assert done.stdout.count("interrupted; continue with the same command and resume=true") == 1, done.stderr[-3000:]
    path = folder(root, "torchrun")
    assert [line["step"] for line in read(path / "metrics.jsonl")] == [0, 1]
    assert [p.name for p in (path / "checkpoints").iterdir()] == ["update-000001"]
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
    with two_ranks(place, one_of_two_sessions.sessions, place, NAMES) as ranks:
        for rank in ranks:
            assert rank.wait(400) == 0, rank.errors[-3000:]
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
    status, message = told(sessions, "lost")
    assert status == "failed"
    assert message.startswith(LOST_MESSAGE.format(reason="has ended"))


LOST_MESSAGE = "another rank {reason}; what it said itself, if anything, tells why (noticed here as: "


# the command line


def long_run(root: Path, name: str) -> list[str]:
    return overrides(root, name, "training.updates=500", "training.timeout=8", "checkpoint.every=1")


def test_a_rank_that_hangs_ends_the_run_in_time(root: Path, alone: Path) -> None:
    with two_ranks(root / "hanging", one_of_two_sessions.command, long_run(root, "hangs")) as ranks:
        wait_for_update(root, "hangs", ranks)
        os.kill(ranks[1].pid, signal.SIGSTOP)
        started = time.monotonic()
        assert ranks[0].wait(60) == 1
        assert time.monotonic() - started < 50
        assert ranks[0].output.count(LOST_MESSAGE.format(reason="did not answer in time")) == 1
        assert ranks[0].errors == ""


def test_when_the_first_rank_is_killed_the_second_one_tells(root: Path, alone: Path) -> None:
    with two_ranks(root / "killing", one_of_two_sessions.command, long_run(root, "killed")) as ranks:
        wait_for_update(root, "killed", ranks)
        os.kill(ranks[0].pid, signal.SIGKILL)
        assert ranks[1].wait(60) == 1
        # torch may tell of the broken connection before, in its own words and over many lines
        told = [line for line in ranks[1].errors.splitlines() if line.startswith("creditlab: ")]
        assert len(told) == 1, ranks[1].errors
        assert "Traceback" not in ranks[1].errors
        assert told[0].startswith(f"creditlab: {LOST_MESSAGE.format(reason='has ended')}")


def test_an_evaluation_on_two_ranks_is_that_of_one(root: Path, alone: Path) -> None:
    with two_ranks(root / "evaluating", evaluate.main, [f"run={alone}", "json=-"]) as ranks:
        assert [rank.wait(200) for rank in ranks] == [0, 0], [rank.errors[-3000:] for rank in ranks]
    facts = json.loads(ranks[0].output)
    logged = read(alone / "metrics.jsonl")[-1]
    assert facts["metrics"] == {name: pytest.approx(logged[name]) for name in facts["metrics"]}
    assert facts["metrics"]["val/episodes"] == 4
    assert ranks[1].output + ranks[1].errors == ""


def test_a_port_in_use_is_named(root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        arguments = overrides(root, "nowhere")
        with two_ranks(root / "meeting", one_of_two_sessions.command, arguments, only=0, port=port) as [first]:
            assert first.wait(100) == 2
    assert first.errors.startswith(
        f"creditlab: rank 0 of 2 cannot meet the others at MASTER_ADDR=127.0.0.1 and MASTER_PORT={port}: "
    )
    assert first.errors.count("\n") == 1
    assert "EADDRINUSE" in first.errors
    assert "free port there" in first.errors


def test_the_gpu_of_a_rank_is_the_only_one_it_sees() -> None:
    """Slurm's --gpus-per-task shows each rank one GPU, whatever its place on the machine."""
    assert [own_gpu(rank, 4) for rank in range(4)] == [0, 1, 2, 3]
    assert [own_gpu(rank, 1) for rank in range(4)] == [0, 0, 0, 0]
