"""One rank of runs on two ranks, one after the other, with the ranks' variables set."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from corridor import Corridor, quick_job
from past_runs import watch_endings, without_figures

from creditlab.__main__ import main
from creditlab.config import Job
from creditlab.hookspecs import Credit, Rows
from creditlab.learner.distributed import rank
from creditlab.training.session import train

SHORT = ("training.updates=2", "warm_start.steps=0", "rollout.groups=3", "evaluation.every=0", "training.timeout=60")


@dataclass(frozen=True)
class Batchwise:
    """A method of scope `update`: the return less the mean over all decisions of the update."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "batchwise"
    scope: ClassVar[str] = "update"

    def __call__(self, rows: Rows) -> Credit:
        returns = rows.episode_return[rows.trajectory]
        return Credit(returns - returns.mean(), diagnostics={"decisions": len(rows), "mean": float(returns.mean())})


@dataclass(frozen=True)
class FailsElsewhere:
    """A method that fails on the second rank."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "broken"
    error: type[Exception] = ValueError

    def __call__(self, rows: Rows) -> Credit:
        if rank() == 1:
            raise self.error("no credit today")
        return Credit(np.zeros(len(rows)))


class Signalled(Corridor):
    """The second rank is asked to end in the first rollouts of training."""

    def episode(self, task: Any) -> Any:
        if rank() == 1 and task.id.startswith("t") and self.made == 3:
            os.kill(os.getpid(), signal.SIGTERM)
            os.kill(os.getpid(), signal.SIGINT)  # the same request, passed on by a launcher
        return super().episode(task)


def failing_on(number: int) -> Corridor:
    return Corridor(fault=lambda episode, moment: rank() == number)


def no_space(target: str, number: int) -> Callable[[pytest.MonkeyPatch], None]:
    """The disk of one rank is full from here on."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    return lambda patch: patch.setattr(target, fail) if rank() == number else None


def die(patch: pytest.MonkeyPatch) -> None:
    """The learner fails on the second rank, where the first one waits for it."""

    def fail(*arguments: Any, **options: Any) -> Any:
        raise RuntimeError("out of memory")

    if rank() == 1:
        patch.setattr("creditlab.learner.learner.Learner._micro", fail)


def job_of(name: str, root: Path) -> Job:
    """The job of a run by its name, under a folder of its own."""
    place = root / name
    jobs: dict[str, Callable[[], Job]] = {
        "scope": lambda: quick_job(place, *SHORT, "checkpoint.rollouts_every=1", method=Batchwise()),
        "one_group": lambda: quick_job(place, *SHORT, "rollout.groups=1", "method=mcgpo"),
        "one_rank_fails": lambda: quick_job(place, *SHORT, "method=mcgpo", env=failing_on(1)),
        "credit": lambda: quick_job(place, *SHORT, method=FailsElsewhere()),
        "mistake": lambda: quick_job(place, *SHORT, "resume=true"),
        "checkpoint": lambda: quick_job(place, *SHORT),
        "rollouts": lambda: quick_job(place, *SHORT, "checkpoint.rollouts_every=1"),
        "signal": lambda: quick_job(place, *SHORT, env=Signalled()),
        "lost": lambda: quick_job(place, *SHORT),
    }
    return jobs[name]()


FAULTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "checkpoint": no_space("creditlab.learner.state.save_file", 0),
    "rollouts": no_space("creditlab.rollouts.store.os.fsync", 1),
    "lost": die,
}


def run(name: str, root: Path) -> dict[str, Any]:
    """One run to its end: the exit code, or the error in words, and how the tracker was told it ended."""
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        endings = watch_endings(patch)
        patch.setattr("creditlab.training.ranks.ignore_signals", lambda: None)  # more runs follow in this process
        FAULTS.get(name, lambda patch: None)(patch)
        try:
            result: int | str = train(job_of(name, root))
        except (ValueError, RuntimeError) as error:
            result = f"{type(error).__name__}: {error}"
    return {"result": result, "endings": [(e.status, e.message) for e in endings]}


def sessions(folder: Path, names: Sequence[str]) -> None:
    """The runs of those names; `rank0.json` and `rank1.json` are to hold how each of them ended (`run`)."""
    found = {name: run(name, folder) for name in names}
    (folder / f"rank{rank()}.json").write_text(json.dumps(found))


def command(arguments: Sequence[str]) -> None:
    """The command line of a run; ends the process."""
    sys.argv[1:] = arguments
    main()
