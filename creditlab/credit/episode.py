"""The episode term: a trajectory's return against those of its siblings, with the invalid-action penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.conventions import Convention, preset
from creditlab.credit.normalise import Mode, Singleton, moments, standardise
from creditlab.credit.segments import Bools, Floats, Ints, first_index
from creditlab.rollouts import Rows
from creditlab.rollouts.rows import check_finite

Samples = Literal["row", "first_row", "trajectory"]
"""What the moments run over: every row, the first row of each trajectory, or each trajectory once."""
Penalty = Literal["row_local", "trajectory_sum"]
"""`row_local`: an invalid row loses ρ itself; `trajectory_sum`: a trajectory loses ρ for each of its invalid rows."""


@dataclass(frozen=True)
class EpisodeOptions:
    """Options of the episode term, inherited by the methods that have one."""

    convention: Convention = "default"
    """Presets `moments`, `penalty`, `singleton` and, where the method has one, `exponent`."""
    normalise: Mode = "mean_std"
    """Divide by the deviation or only centre (Dr. GRPO); holds for every term of the method."""
    moments: Samples | None = None
    """Samples of the mean and deviation of the episode term; unset: as the convention says."""
    penalty: Penalty | None = None
    """Where an invalid action is paid for in the episode term; unset: as the convention says."""
    coefficient: Annotated[float, Field(ge=0)] = 0.1
    """Penalty ρ of an invalid action, in units of reward."""
    singleton: Singleton | None = None
    """What a single sample and a constant group get in the episode term; unset: as the convention says."""

    def episode_term(self, rows: Rows) -> Floats:
        """Episode advantage [N] under these options."""
        return episode_advantage(
            rows,
            mode=self.normalise,
            samples=preset("moments", self.convention, self.moments),
            penalty=preset("penalty", self.convention, self.penalty),
            coefficient=self.coefficient,
            singleton=preset("singleton", self.convention, self.singleton),
        )


def episode_advantage(
    rows: Rows,
    *,
    mode: Mode = "mean_std",
    samples: Samples = "trajectory",
    penalty: Penalty = "row_local",
    coefficient: float = 0.1,
    singleton: Singleton = "zero",
) -> Floats:
    """Normalised episode score per decision [N] (GRPO, arXiv 2402.03300); rows without trained tokens get 0.

    Raises ValueError when a reward is not finite or when every task group holds a single trajectory.
    """
    check_finite(rows, rows.reward)
    check_siblings(rows)
    score = rows.episode_return[rows.trajectory] - invalid_penalty(rows, penalty, coefficient)
    sample, group = _samples(rows, score, samples, penalty)
    of = moments(sample, group, rows.groups)
    return np.where(rows.trainable, standardise(score, rows.group, of, mode=mode, singleton=singleton), 0.0)


def invalid_penalty(rows: Rows, penalty: Penalty = "row_local", coefficient: float = 0.1) -> Floats:
    """What each decision [N] loses for invalid actions: its own, or those of its whole trajectory."""
    invalid: Floats = (rows.trainable & ~rows.valid).astype(np.float64)
    if penalty == "trajectory_sum":
        total = np.bincount(rows.trajectory, weights=invalid, minlength=len(rows.length)).astype(np.float64)
        invalid = total[rows.trajectory]
    return coefficient * invalid


def check_siblings(rows: Rows) -> None:
    """Raises ValueError when several task groups hold one trajectory each: the sign of a wrong group id."""
    siblings = np.bincount(rows.trajectory_group, minlength=rows.groups)
    if rows.groups > 1 and siblings.max(initial=0) <= 1:
        raise ValueError(
            f"each of the {rows.groups} task groups holds a single trajectory, so there is nothing to compare "
            f"(first group: {rows.group_names[0]!r}); give sibling rollouts of one task the same group id"
        )


def _samples(rows: Rows, score: Floats, samples: Samples, penalty: Penalty) -> tuple[Floats, Ints]:
    """The values and groups that the moments run over."""
    trained: Bools = rows.trainable
    if samples == "row":
        return score[trained], rows.group[trained]
    first = np.flatnonzero(trained)[first_index(rows.trajectory[trained])]
    if samples == "trajectory" and penalty == "row_local":
        # A penalty that belongs to single rows has no place in a sample that stands for the whole trajectory.
        return rows.episode_return[rows.trajectory[first]], rows.group[first]
    return score[first], rows.group[first]
