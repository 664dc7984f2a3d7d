"""A run on the real engine whose workers are killed and stopped: each costs one trajectory."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from corridor import quick_job

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.packing import installed
from creditlab.policy.policy import Decision, Policy
from creditlab.rollouts import StopReason
from creditlab.rollouts.store import load
from creditlab.training.session import train

KILLED, STOPPED = 4, 7
"""The policy's calls, with both workers at work, in which one of them is killed, or stopped."""


@pytest.mark.skipif(not installed(), reason="the real engine is not installed: pip install 'creditlab[alfworld]'")
def test_a_killed_and_a_stopped_worker_are_survived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = ALFWorld(engine="textworld", workers=2, timeout=200.0, horizon=2, rooms=("bathroom",), train_games=1)
    decide, calls, harmed = Policy.decide, [0], {}

    def treacherous(policy: Policy, *arguments: Any) -> list[Decision]:
        decided = decide(policy, *arguments)
        calls[0] += len(decided) == 2  # both workers wait for a command
        if calls[0] in (KILLED, STOPPED) and calls[0] not in harmed:
            worker = min(env._pool._workers, key=lambda worker: worker.pid)
            harmed[calls[0]] = worker.pid
            worker._timeout = 1.0  # the others may take their time on busy cores
            os.kill(worker.pid, signal.SIGKILL if calls[0] == KILLED else signal.SIGSTOP)
        return decided

    monkeypatch.setattr(Policy, "decide", treacherous)
    job = quick_job(
        tmp_path, "training.updates=3", "rollout.groups=1", "evaluation.episodes=1", "evaluation.every=0",
        "warm_start.steps=0", "checkpoint.rollouts_every=1", "checkpoint.every=0", env=env,
    )  # fmt: skip
    assert train(job) == 0
    assert "_pool" not in vars(env), "the session did not end the workers"

    lines = [json.loads(line) for line in (job.folder / "metrics.jsonl").read_text().splitlines()]
    updates = {line["step"]: line for line in lines if "episode/errors" in line}
    assert sorted(updates) == [1, 2, 3]
    trajectories = [
        t for path in sorted((job.folder / "rollouts").glob("*.parquet")) for g in load(path).groups for t in g.trajectories
    ]
    failed = [t for t in trajectories if t.stop is StopReason.ERROR]
    assert len(trajectories) == 12
    assert sum(line["episode/errors"] for line in updates.values()) == len(failed) == 2
    assert f"WorkerError: worker {harmed[KILLED]} died (killed by SIGKILL)" in failed[0].error
    assert f"WorkerError: worker {harmed[STOPPED]} did not answer within 1 s and was stopped" in failed[1].error
    for trajectory in failed:
        assert trajectory.error.startswith("task 'pick_and_place_simple-")
        assert "last command " in trajectory.error
