"""Checks that the main job learns: `python benchmarks/learning.py [overrides]` runs it in a folder of its own.

The held-out success on at least 256 episodes must start between 25 % and 60 % and the mean of the last three evaluations
must lie at least 12 points higher (`--gain`). Prints what was measured, and the run's own time split.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console

from creditlab.tracking.jsonl import read
from creditlab.tracking.summary import summarise

EPISODES = 256


def main() -> int:
    """Runs the job and returns 0 when it learned as promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gain", type=float, default=12.0, help="points that the last evaluations must lie higher")
    parser.add_argument("--low", type=float, default=25.0, help="least success of the warm start, in percent")
    parser.add_argument("--high", type=float, default=60.0, help="largest success of the warm start, in percent")
    arguments, overrides = parser.parse_known_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="creditlab-learning-") as folder:
        command = [sys.executable, "-m", "creditlab", f"run_root={folder}", "tracking.wandb=offline", *overrides]
        done = subprocess.run(command, check=False)
        if done.returncode:
            console.print(f"the run ended with code {done.returncode}")
            return done.returncode
        run = next(Path(folder).iterdir())
        records = read(run / "metrics.jsonl")
        manifest = json.loads((run / "manifest.json").read_text())
    found = summarise(records)
    start, end = 100 * found["warm_start"], 100 * found["last_three"]
    episodes = manifest["panel"]["episodes"]
    checks = {
        f"panel of {episodes} episodes, at least {EPISODES}": episodes >= EPISODES,
        f"warm start {start:.1f} %, between {arguments.low:g} and {arguments.high:g}": arguments.low
        <= start
        <= arguments.high,
        f"gain {end - start:+.1f} points, at least {arguments.gain:g}": end - start >= arguments.gain,
    }
    for text, held in checks.items():
        console.print(f"{'held' if held else 'FAILED'}: {text}")
    return 0 if all(checks.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
