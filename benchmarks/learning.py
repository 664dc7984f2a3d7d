"""Checks that a run on an environment's defaults learns: `python benchmarks/learning.py [--env webshop] [overrides]`.

The run has a folder of its own. On at least 256 held-out episodes the warm start must leave room, and the mean of the last
three evaluations must lie higher by so many points: success on ALFWorld, success and graded score on WebShop. Prints what
was measured, and the run's own time split.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from creditlab.tracking.jsonl import STEP, read
from creditlab.tracking.metrics import VAL_SUCCESS

EPISODES = 256
SCORE = "val/score"


@dataclass(frozen=True)
class Promise:
    """What an environment's defaults are held to, in percent."""

    start: tuple[float, float]
    """Least and largest success of the warm start."""
    gains: Mapping[str, float]
    """Metric to the points that it must gain."""


PROMISES = {
    "alfworld": Promise((25.0, 60.0), {VAL_SUCCESS: 12.0}),
    "webshop": Promise((20.0, 60.0), {VAL_SUCCESS: 10.0, SCORE: 10.0}),
}


def main() -> int:
    """Runs the job and returns 0 when it learned as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=PROMISES, default="alfworld", help="the environment")
    arguments, overrides = parser.parse_known_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="creditlab-learning-") as folder:
        given = (f"env={arguments.env}", f"run_root={folder}", "tracking.wandb=offline", *overrides)
        done = subprocess.run([sys.executable, "-m", "creditlab", *given], check=False)
        if done.returncode:
            console.print(f"the run ended with code {done.returncode}")
            return done.returncode
        run = next(Path(folder).iterdir())
        records = read(run / "metrics.jsonl")
        manifest = json.loads((run / "manifest.json").read_text())
    checks = held(PROMISES[arguments.env], records, manifest["panel"]["episodes"])
    for text, kept in checks.items():
        console.print(f"{'held' if kept else 'FAILED'}: {text}")
    return 0 if all(checks.values()) else 1


def held(promise: Promise, records: Sequence[Mapping[str, float]], episodes: int) -> dict[str, bool]:
    """What was promised, in words and numbers, and whether it was kept."""
    start = 100 * next(r[VAL_SUCCESS] for r in records if r[STEP] == 0)
    low, high = promise.start
    checks = {
        f"panel of {episodes} episodes, at least {EPISODES}": episodes >= EPISODES,
        f"warm start {start:.1f} %, between {low:g} and {high:g}": low <= start <= high,
    }
    for metric, wanted in promise.gains.items():
        before, *after = [100 * r[metric] for r in records if metric in r]
        ended = sum(after[-3:]) / len(after[-3:])
        label = f"{metric} {before:.1f} -> {ended:.1f}, gain {ended - before:+.1f} points, at least {wanted:g}"
        checks[label] = ended - before >= wanted
    return checks


if __name__ == "__main__":
    sys.exit(main())
