"""Records with every decision the features that credit asks for; nothing is computed for a method that asks for none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditlab.credit.types import Feature
from creditlab.policy.features import hidden_states
from creditlab.rollouts import Group, StopReason, Trajectory

Values = Mapping[str, NDArray[np.float32]]


def record_features(
    groups: Sequence[Group], features: Sequence[Feature], models: Mapping[str, Any], batch_size: int
) -> tuple[Group, ...]:
    """The groups with every feature in the steps of their trajectories; those that failed to run get none.

    `models` holds the actor and, where a feature wants it, the frozen reference. Raises ValueError as `hidden_states` does.
    """
    steps = [s for g in groups for t in g.trajectories if t.stop is not StopReason.ERROR for s in t.steps]
    if not features or not steps:
        return tuple(groups)
    prompts = [step.prompt_ids for step in steps]
    values = {f.name: hidden_states(models[f.model], prompts, f.layer, batch_size) for f in features}
    rest = iter(range(len(steps)))
    return tuple(replace(g, trajectories=tuple(_with(t, values, rest) for t in g.trajectories)) for g in groups)


def _with(trajectory: Trajectory, values: Values, numbers: Iterator[int]) -> Trajectory:
    if trajectory.stop is StopReason.ERROR:
        return trajectory
    steps = []
    for step in trajectory.steps:
        number = next(numbers)
        steps.append(replace(step, features={**step.features, **{name: value[number] for name, value in values.items()}}))
    return replace(trajectory, steps=tuple(steps))
