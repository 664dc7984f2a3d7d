"""The crash campaign: `python tests/crash/campaign.py [--kills N] [--updates N] [--seed N]`.

Runs a small job once undisturbed, and once with a SIGKILL at every one of many random moments, each followed by a restart
with `resume=auto`. Moments are drawn within the parts of a run, so that the short ones are hit as well, and at any time.
Afterwards the two runs must not differ by a bit: weights, moments, position, metrics without their clocks, stored rollouts;
and nothing may lie about. Every sitting is a process of its own, which loads its libraries while the one before still runs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from watched import Sitting, sleep

from creditlab.rollouts.store import load
from creditlab.training.seeds import derive

SMALL = (
    "experiment=quick", "checkpoint.every=1", "warm_start.steps=40", "warm_start.games=20", "evaluation.episodes=8",
    "env.horizon=8", "tracking.wandb=disabled", "tracking.console=quiet", "resume=auto",
)  # fmt: skip
FIRST = ("warm start", "warm start cache", "evaluation")
"""Parts before the first update; the first kills fall there."""
WITHIN = ("checkpoint", "rollout store", "evaluation", "old checkpoints", "rollouts", "learner", "metrics")
"""Parts of an update; the other kills fall there in random order, and every eighth one at any time."""
UNFINISHED = ("rollouts", "learner", "rollout store")
"""Parts of the last update after which the run still has something to do."""
ANY = "any time"
MUST_HIT = ("warm start", "evaluation", "learner", "rollout store", "checkpoint")
"""Where a campaign of full length has to have killed."""
FULL_LENGTH = 20


@dataclass(frozen=True)
class Kill:
    """What one kill hit."""

    planned: str
    part: str
    """The part that was interrupted, the innermost one."""
    update: int
    """The update in progress; 0 before the first one."""
    whole: int
    """Update of the newest checkpoint on disk afterwards; -1 without any."""


@dataclass
class Report:
    """What a campaign found."""

    kills: list[Kill] = field(default_factory=list)
    resumed: list[int] = field(default_factory=list)
    """After each kill, the update that the next sitting went on from; -1 where it began anew."""
    faults: list[str] = field(default_factory=list)
    """What is wrong, in words; empty when nothing is."""


def campaign(root: Path, kills: int, updates: int, seed: int, progress: Callable[[], None] = lambda: None) -> Report:
    """Both runs under `root`, and what differs between them; `progress` is called after every sitting."""
    rng, report = derive(seed, "crash campaign"), Report()
    folder = root / "killed" / "runs"
    with sittings(root) as new:
        undisturbed, waiting = new(), new()
        undisturbed.start(overrides(root / "undisturbed", updates))
        undisturbed.finish()
        progress()
        typical = {part: float(np.median(spans)) for part, spans in undisturbed.spans.items()}
        for planned in plan(kills, rng):
            sitting, waiting = waiting, new()
            sitting.start(overrides(root / "killed", updates))
            report.resumed.append(sitting.resumed or 0)
            strike(sitting, *choose(planned, newest(folder), updates, rng), typical, rng)
            check_folder(folder, report.faults)
            part = sitting.inside[-1] if sitting.inside else "between parts"
            report.kills.append(Kill(planned, part, sitting.update, newest(folder)))
            progress()
        waiting.start(overrides(root / "killed", updates))
        report.resumed.append(waiting.resumed or 0)
        waiting.finish()
        progress()
    del report.resumed[0]  # before the first kill
    check_kills(report)
    report.faults += differences(root / "undisturbed", root / "killed", updates)
    return report


@contextmanager
def sittings(root: Path) -> Iterator[Callable[[], Sitting]]:
    """A maker of sittings, none of which outlives the context."""
    made: list[Sitting] = []

    def new() -> Sitting:
        made.append(Sitting(root / f"sitting-{len(made)}.log"))
        return made[-1]

    try:
        yield new
    finally:
        for sitting in made:
            sitting.close()


def overrides(root: Path, updates: int) -> list[str]:
    """The run's command line, with a warm start of its own."""
    return [*SMALL, f"training.updates={updates}", f"run_root={root / 'runs'}", f"warm_start.cache={root / 'cache'}"]


def plan(kills: int, rng: np.random.Generator) -> list[str]:
    """Where the kills are to fall: first before the first update, then all over."""
    later = [ANY if i % 8 == 7 else WITHIN[i % len(WITHIN)] for i in range(max(kills - len(FIRST), 0))]
    return [*FIRST[:kills], *(later[i] for i in rng.permutation(len(later)))]


def choose(planned: str, whole: int, updates: int, rng: np.random.Generator) -> tuple[str, int]:
    """The part to strike in, and how many visits of it to let pass, so that the run does not end before it is struck."""
    if planned in FIRST and whole < 0:
        return planned, 0
    if whole >= updates - 2 or (planned == ANY and whole >= updates - 5):
        return str(rng.choice(UNFINISHED)), 0
    return planned, int(planned != "evaluation" and rng.random() < 0.25)


def strike(sitting: Sitting, part: str, skip: int, typical: dict[str, float], rng: np.random.Generator) -> None:
    """Kills a sitting at a random moment of a part, after `skip` earlier visits of it."""
    if part == ANY:
        sleep(float(rng.random()) * 4 * (typical["rollouts"] + typical["learner"]))
    else:
        sitting.wait_until(lambda: sitting.entered[part] > skip, f"entered {part}")
        sleep(float(rng.random()) * typical[part])
    sitting.kill()


def run_folder(folder: Path) -> Path | None:
    """The one run in a folder, if there is one yet."""
    runs = [path for path in folder.glob("*") if path.is_dir()]
    assert len(runs) < 2, runs
    return runs[0] if runs else None


def newest(folder: Path) -> int:
    """Update of the newest checkpoint in sight; -1 without any."""
    run = run_folder(folder)
    return max((int(p.name.removeprefix("update-")) for p in run.glob("checkpoints/update-*")), default=-1) if run else -1


def check_folder(folder: Path, faults: list[str]) -> None:
    """Notes what a killed sitting left that somebody could take for whole."""
    run = run_folder(folder)
    if run is None:
        return
    for checkpoint in run.glob("checkpoints/update-*"):
        try:
            files = json.loads((checkpoint / "state.json").read_bytes())["files"]
            torn = [name for name, digest in files.items() if sha256(checkpoint / name) != digest]
        except (OSError, ValueError, KeyError) as error:
            torn = [repr(error)]
        faults += [f"{checkpoint.name} is in sight, but not whole: {name}" for name in torn]
    for file in run.glob("rollouts/update-*.parquet"):
        try:
            load(file)
        except ValueError as error:
            faults.append(f"{file.name} is in sight, but not whole: {error}")


def check_kills(report: Report) -> None:
    """Notes restarts from elsewhere than the last whole checkpoint, and parts that no kill of a full campaign hit."""
    for number, (kill, resumed) in enumerate(zip(report.kills, report.resumed, strict=True), start=1):
        if resumed != kill.whole:
            report.faults.append(
                f"after kill {number} the run went on from {resumed}, the last whole checkpoint is {kill.whole}"
            )
    if len(report.kills) >= FULL_LENGTH:
        hit = {kill.part for kill in report.kills}
        report.faults += [f"no kill hit {part}; give another --seed" for part in MUST_HIT if part not in hit]


def differences(one: Path, other: Path, updates: int) -> list[str]:
    """In what a killed run under `other` differs from the undisturbed one, in words."""
    first, second = run_folder(one / "runs"), run_folder(other / "runs")
    assert first is not None
    assert second is not None
    last = f"checkpoints/update-{updates:06d}"
    listed = [{str(p.relative_to(run)) for p in run.rglob("*") if p.name != "events.jsonl"} for run in (first, second)]
    found = [f"only one of the runs has {name}" for name in sorted(listed[0] ^ listed[1])]
    same = [name for name in sorted(listed[0] & listed[1]) if name.endswith(".parquet") or name.startswith(f"{last}/model/")]
    for name in (*same, f"{last}/optimizer.safetensors"):
        found += [f"{name} differs"] if (first / name).read_bytes() != (second / name).read_bytes() else []
    if position(first / last) != position(second / last):
        found.append(f"{last}/state.json holds another position")
    lines = [metrics(run / "metrics.jsonl") for run in (first, second)]
    if [line["step"] for line in lines[1]] != list(range(updates + 1)):
        found.append(f"metrics.jsonl has the steps {[line['step'] for line in lines[1]]}")
    elif lines[0] != lines[1]:
        found.append("metrics.jsonl holds other values")
    starts = [next((place / "cache").glob("*/model.safetensors")).read_bytes() for place in (one, other)]
    if starts[0] != starts[1]:
        found.append("the warm starts differ")
    left = [path for path in other.rglob("*") if path.name.startswith(".") or path.name.endswith(".tmp")]
    return found + [f"left lying about: {path}" for path in left]


def position(checkpoint: Path) -> dict[str, Any]:
    """The position of a run in a checkpoint, without its clocks."""
    progress: dict[str, Any] = json.loads((checkpoint / "state.json").read_bytes())["progress"]
    return {key: value for key, value in progress.items() if key != "seconds"}


def metrics(path: Path) -> list[dict[str, Any]]:
    """The lines of a metrics.jsonl, each of which has to be whole, without their clocks."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [{k: v for k, v in line.items() if not k.startswith("timing_s/")} for line in lines]


def sha256(path: Path) -> str:
    """The hash of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def table_of(report: Report) -> Table:
    """The kills, one a row."""
    table = Table("kill", "in", "of update", "whole checkpoint", "resumed from", title="SIGKILLs")
    names = {-1: "the start"}
    for number, (kill, resumed) in enumerate(zip(report.kills, report.resumed, strict=True), start=1):
        whole = names.get(kill.whole, str(kill.whole)) if kill.whole >= 0 else "none"
        table.add_row(str(number), kill.part, str(kill.update), whole, names.get(resumed, str(resumed)))
    return table


def main(arguments: Sequence[str]) -> int:
    """Runs a campaign and prints its kills and its verdict; returns 0 when nothing is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=22)
    parser.add_argument("--updates", type=int, default=12)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    console = Console()
    with tempfile.TemporaryDirectory(prefix="creditlab-crash-") as root, Progress(console=console) as bar:
        task = bar.add_task("sittings", total=options.kills + 2)
        report = campaign(Path(root), options.kills, options.updates, options.seed, lambda: bar.advance(task))
    console.print(table_of(report))
    for fault in report.faults:
        console.print(f"FAILED: {fault}")
    if not report.faults:
        console.print(
            f"held: {len(report.kills)} kills, every restart from the last whole checkpoint; after {options.updates} updates "
            "weights, moments, position, metrics and rollouts equal those of the undisturbed run bit for bit"
        )
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
