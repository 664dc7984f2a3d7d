"""Runs of a suite for tests: planned by hand, and a stand-in that writes what a run writes without training anything."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from creditlab.suites.plan import PlannedRun
from creditlab.suites.suite import Entry

MANIFEST = {
    "configuration_hash": "0123456789",
    "panel": {"name": "panel", "episodes": 4, "hash": "p" * 64},
    "environment": {"environment": "corridor", "train_games": 10},
    "warm_start": {"hash": "w" * 16, "weights": "a" * 64},
}


def planned(root: Path, entry: str = "grpo", seed: int = 0, updates: int = 4, every: int = 2, **config: Any) -> PlannedRun:
    """A run that was never composed."""
    plain = {"rollout": {"groups": 2}, "env": {"name": "corridor"}, "warm_start": {"seed": 0}, **config}
    folder = root / f"{entry.replace(' ', '-')}-corridor-0123456789-s{seed}"
    words = entry.split()
    return PlannedRun(
        "tried", "corridor", Entry(entry, words[0], tuple(words[1:])), seed, "0123456789", folder, updates, every, plain, ()
    )


def line(step: int, *, evaluated: bool, success: float = 0.5, **more: float) -> dict[str, float]:
    """One line of metrics.jsonl: ten environment steps and two seconds an update."""
    found: dict[str, float] = {"step": step, **more}
    if step:
        found |= {"training/transitions": 10.0 * step, "timing_s/step": 2.0}
    if evaluated:
        found |= {"val/success_rate": success, "val/walk/success_rate": success / 2, "timing_s/testing": 1.0}
    return found


def write_run(run: PlannedRun, lines: Sequence[dict[str, float]], **manifest: Any) -> None:
    """A run folder with these metrics."""
    run.folder.mkdir(parents=True, exist_ok=True)
    (run.folder / "config.json").write_text(json.dumps(run.config))
    (run.folder / "manifest.json").write_text(json.dumps({**MANIFEST, **manifest}))
    (run.folder / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in lines))


def whole(run: PlannedRun) -> list[dict[str, float]]:
    """The metrics of a run that is over."""
    return [line(step, evaluated=step in run.schedule) for step in range(run.updates + 1)]


def stand_in(run: PlannedRun, *conduct: str) -> list[str]:
    """The command of a stand-in for a run; words say how it behaves (crash, slow, meet) or are overrides."""
    made = {"config": run.config, "hash": run.hash}
    return [sys.executable, __file__, str(run.folder), str(run.updates), str(run.every), json.dumps(made), *conduct]


def soon(happens: Callable[[], bool]) -> bool:
    """Waits until something happens, a minute at most; whether it did."""
    deadline = time.monotonic() + 60
    while not happens() and time.monotonic() < deadline:
        time.sleep(0.02)
    return happens()


def starts(run: PlannedRun) -> list[list[float]]:
    """Beginning and end of every process that was at work on a stand-in; the end is missing where it did not come to it."""
    path = run.folder.parent / f"{run.folder.name}.times"
    return [json.loads(text) for text in path.read_text().splitlines()] if path.exists() else []


def _work(folder: Path, updates: int, every: int, made: dict[str, Any], conduct: Sequence[str]) -> int:
    """Locks the folder, goes on after the last line, and stops after an update when told to."""
    updates = next((int(word[17:]) for word in conduct if word.startswith("training.updates=")), updates)
    stop: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: stop.append(number))
    began = time.time()
    folder.mkdir(parents=True, exist_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.stderr.write(f"creditlab: {folder} is in use by another process\n")
        return 2
    if "meet" in conduct:  # another run must begin before this one goes on
        soon(lambda: any(other != folder for other in folder.parent.glob("*-s*/")))
    time.sleep(0.3)  # its warm start
    (folder / "config.json").write_text(json.dumps(made["config"]))
    manifest = {**MANIFEST, "configuration_hash": made["hash"], "ready": time.time()}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    metrics = folder / "metrics.jsonl"
    done = len(metrics.read_text().splitlines()) if metrics.exists() else 0
    for step in range(done, updates + 1):
        if "crash" in conduct and step == 2:
            sys.stdout.write("much was said before\n")
            sys.stderr.write("Traceback (most recent call last):\nRuntimeError: the engine is \x1b[31mgone\n")
            return 1
        with metrics.open("a") as file:
            file.write(json.dumps(line(step, evaluated=step in (0, updates) or step % every == 0)) + "\n")
        if stop:
            return 130
        time.sleep(0.5 if "slow" in conduct else 0.01)
    with (folder.parent / f"{folder.name}.times").open("a") as file:
        file.write(json.dumps([began, time.time()]) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(_work(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4]), sys.argv[5:]))
