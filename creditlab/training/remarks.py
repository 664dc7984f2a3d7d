"""What a run tells of its model: once at the start, and when its answers are of no use."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from creditlab.config import Job
from creditlab.learner.distributed import total, world_size
from creditlab.policy.pretrained import dropout, read_config
from creditlab.rollouts import Trajectory
from creditlab.training.memory import estimate

SHOWN = 120
"""Characters of an answer that are shown."""


def of_start(job: Job, folder: Path) -> list[str]:
    """Remarks on a pretrained model: dropout that was turned off, and the estimate of the run's memory."""
    if not hasattr(job.model, "shape"):
        return []
    found = dropout(read_config(folder).to_dict())
    remarks = [f"dropout is off, although the model's configuration has {', '.join(found)} above 0"] if found else []
    try:
        return [*remarks, estimate(job, world_size()).line]
    except ValueError as error:  # no reason to stop
        return [*remarks, f"memory is not estimated: {error}"]


def of_garbage(job: Job, trajectories: Iterable[Trajectory]) -> str | None:
    """A warning when no response of an update, on any rank, held an action where the prompt asks for one."""
    steps = [step for trajectory in trajectories for step in trajectory.steps]
    parsed, decisions = total(np.array([sum(step.parsed for step in steps), len(steps)], np.float64))
    if parsed or not decisions:
        return None
    first = steps[0].response if steps else ""
    shown = first if len(first) <= SHOWN else f"{first[:SHOWN]}…"
    return (
        f"no response of the update could be read as an action (prompt.layout={job.prompt.layout} "
        f"prompt.style={job.prompt.style}), so nothing the model intended was executed; the first one reads {shown!r}. "
        "Use a model that follows the format, another prompt.style, or a warm start (warm_start.steps)"
    )
