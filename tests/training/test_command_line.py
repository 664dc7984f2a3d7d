"""Runs through the real command line, each in its own process: resume, interruption and exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from creditlab.cli import run
from creditlab.tracking.jsonl import read

TINY = (
    "model.hidden_size=16", "model.layers=1", "model.heads=2", "model.ffn_size=16", "warm_start.steps=5",
    "warm_start.games=5", "warm_start.demonstrations=1", "evaluation.episodes=4", "evaluation.every=2",
    "checkpoint.every=2", "rollout.groups=2", "rollout.group_size=4", "env.horizon=4", "tracking.wandb=disabled",
)  # fmt: skip


def command(root: Path, name: str, *overrides: str) -> list[str]:
    places = (f"run_root={root / name}", f"warm_start.cache={root / 'cache'}")
    return [sys.executable, "-m", "creditlab", *TINY, *places, *overrides]


def finish(root: Path, name: str, *overrides: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(root, name, *overrides), cwd=root, capture_output=True, text=True, timeout=300, check=False)


def folder(root: Path, name: str) -> Path:
    [path] = (root / name).iterdir()
    return path


def records(path: Path) -> list[dict[str, float]]:
    lines = read(path / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith("timing_s/")} for line in lines]


def same(one: Path, other: Path) -> None:
    """Weights, moments and metrics are equal bit for bit; only clocks may differ."""
    for name in ("model/model.safetensors", "optimizer.safetensors"):
        first, second = (path / "checkpoints" / "update-000004" / name for path in (one, other))
        assert first.read_bytes() == second.read_bytes(), name
    assert records(one) == records(other)
    assert [line["step"] for line in records(one)] == [0, 1, 2, 3, 4]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def undisturbed(root: Path) -> Path:
    """Four updates in one sitting."""
    done = finish(root, "whole", "training.updates=4")
    assert done.returncode == 0, done.stderr[-3000:]
    return folder(root, "whole")


def test_a_run_says_where_everything_lies_and_nothing_on_stderr(root: Path) -> None:
    done = finish(root, "short", "training.updates=1", "checkpoint.rollouts_every=1")
    assert done.returncode == 0
    assert done.stderr == ""
    path = folder(root, "short")
    for place in ("checkpoints", "rollouts", "manifest.json", "metrics.jsonl", "figures/learning_curve.png"):
        assert str(path / place) in done.stdout.replace("\n", "")
        assert (path / place).exists() or place == "rollouts"


def test_two_updates_and_two_more_equal_four_bit_for_bit(root: Path, undisturbed: Path) -> None:
    assert finish(root, "halves", "training.updates=2").returncode == 0
    done = finish(root, "halves", "training.updates=4", "resume=true")
    assert done.returncode == 0
    assert "resumes after update 2" in done.stdout
    same(undisturbed, folder(root, "halves"))


def test_ctrl_c_finishes_the_update_saves_it_and_says_how_to_go_on(root: Path, undisturbed: Path) -> None:
    process = subprocess.Popen(
        command(root, "stopped", "training.updates=4"), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        deadline = time.monotonic() + 200
        while not any(line["step"] > 0 for path in (root / "stopped").glob("*") for line in read(path / "metrics.jsonl")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGINT)
        output, errors = process.communicate(timeout=200)
    finally:
        process.kill()
    assert process.returncode == 130, errors[-3000:]
    assert "Traceback" not in errors
    assert "resume=true" in output
    path = folder(root, "stopped")
    last = int(records(path)[-1]["step"])
    assert 1 <= last < 4
    state = json.loads((path / "checkpoints" / f"update-{last:06d}" / "state.json").read_text())
    assert state["progress"]["update"] == last
    assert finish(root, "stopped", "training.updates=4", "resume=true").returncode == 0
    same(undisturbed, path)


def test_mistakes_about_the_run_folder_are_one_line_and_code_2(
    root: Path, undisturbed: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def mistake(name: str, *overrides: str) -> str:
        capsys.readouterr()
        assert run([*command(root, name)[3:], *overrides]) == 2
        lines = capsys.readouterr().err.strip().splitlines()
        assert len(lines) == 1
        return lines[0]

    assert "already holds this run" in mistake("whole", "training.updates=4")
    assert "there is no run in" in mistake("absent", "training.updates=4", "resume=true")
    assert not (root / "absent").exists()
    (root / "file").write_text("")
    assert "cannot write the run folder" in mistake("file", "training.updates=4")
    assert "does not suit the model" in mistake("styled", "prompt.style=think_action", "training.updates=1")


def test_the_folders_name_holds_method_environment_hash_and_seed(undisturbed: Path) -> None:
    method, env, digest, seed = undisturbed.name.split("-")
    assert (method, env, seed) == ("mcgpo", "alfworld", "s0")
    assert len(digest) == 10
    manifest: dict[str, Any] = json.loads((undisturbed / "manifest.json").read_text())
    assert manifest["configuration_hash"] == digest
