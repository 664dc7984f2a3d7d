"""The episode term: a trajectory's return against those of its siblings, with the invalid-action penalty."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.conventions import Convention, preset
from creditlab.credit.diagnostics import credit_diagnostics
from creditlab.credit.normalise import Mode, Singleton, moments, standardise
from creditlab.credit.peers import peer_mean
from creditlab.credit.returns import discounted_return
from creditlab.credit.segments import Bools, Floats, Ints, first_index
from creditlab.credit.types import Credit, Peers
from creditlab.credit.values import shared_groups
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
    """Presets `moments`, `penalty` and `singleton`."""
    normalise: Mode = "mean_std"
    """Divide by the deviation or only centre (Dr. GRPO); holds for every term of the method."""
    moments: Samples | None = None
    """Samples of the mean and deviation of the episode term; unset: as the convention says."""
    penalty: Penalty | None = None
    """Where an invalid action is paid for in the episode term; unset: as the convention says."""
    coefficient: Annotated[float, Field(ge=0)] = 0.1
    """Penalty ρ of an invalid action, in units of reward."""
    singleton: Singleton | None = None
    """What a single sample and a constant group get in the episode term, and a lone trajectory in all of them; unset: as the
    convention says."""

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

    def baseline_term(self, rows: Rows, peers: Peers) -> Floats:
        """Score of each decision [N] less the mean sample of its peers, under these options (RLOO)."""
        return peer_advantage(
            rows,
            peers,
            samples=preset("moments", self.convention, self.moments),
            penalty=preset("penalty", self.convention, self.penalty),
            coefficient=self.coefficient,
            singleton=preset("singleton", self.convention, self.singleton),
        )

    def credit(self, rows: Rows, advantages: Floats, sizes: Ints, **diagnostics: float) -> Credit:
        """Credit of advantages [N] from comparisons of the given sizes [N], under the rule on lone trajectories.

        A trajectory whose siblings have no trained decision gets 0 under `singleton=zero`, though it may have met a state
        twice: its own visits are no evidence against each other.
        """
        if preset("singleton", self.convention, self.singleton) == "zero":
            lone = ~shared_groups(rows)[rows.group]
            advantages, sizes = np.where(lone, 0.0, advantages), np.where(lone, np.minimum(sizes, 1), sizes)
        return Credit(advantages, diagnostics={**credit_diagnostics(rows, advantages, sizes), **diagnostics})


@dataclass(frozen=True)
class StepOptions(EpisodeOptions):
    """Options of the methods that also compare single decisions."""

    penalise_step: bool = True
    """Whether an invalid decision also loses ρ in what the step term compares; published code does."""

    def step_penalty(self, rows: Rows) -> Floats:
        """What each decision [N] loses in the step term for its own invalid action."""
        return invalid_penalty(rows, coefficient=self.coefficient if self.penalise_step else 0.0)

    def step_return(self, rows: Rows, gamma: float) -> Floats:
        """Return-to-go of each decision [N], less ρ where the decision itself is invalid (GiGPO).

        Raises ValueError as `episode_term` does.
        """
        check_siblings(rows)
        return discounted_return(rows, gamma) - self.step_penalty(rows)


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
    sample, group, _ = _samples(rows, score, samples, penalty)
    of = moments(sample, group, rows.groups)
    return np.where(rows.trainable, standardise(score, rows.group, of, mode=mode, singleton=singleton), 0.0)


def peer_advantage(
    rows: Rows,
    peers: Peers,
    *,
    samples: Samples = "trajectory",
    penalty: Penalty = "row_local",
    coefficient: float = 0.1,
    singleton: Singleton = "zero",
) -> Floats:
    """Episode score less the mean sample of the admitted peers per decision [N] (RLOO, arXiv 2402.14740).

    A decision without peers gets 0, or its score where `singleton` is raw. Raises ValueError as `episode_advantage` does.
    """
    check_finite(rows, rows.reward)
    check_siblings(rows)
    score = rows.episode_return[rows.trajectory] - invalid_penalty(rows, penalty, coefficient)
    sample, group, trajectory = _samples(rows, score, samples, penalty)
    mean, number = peer_mean(sample, group, trajectory, peers)
    place = np.zeros(len(rows), np.int64)  # of each decision's own sample
    if samples == "row":
        place[rows.trainable] = np.arange(len(sample))
    else:
        of_trajectory = np.zeros(len(rows.length), np.int64)
        of_trajectory[trajectory] = np.arange(len(sample))
        place = of_trajectory[rows.trajectory]
    if not len(sample):
        return np.zeros(len(rows))
    value = score - mean[place]
    if samples == "first_row" and peers.without != "nothing":
        # The published code takes the row's own score out of the sum, not the first row's that went into it.
        value += (score - sample[place]) / np.maximum(number[place], 1)
    alone = number[place] == 0
    value = np.where(alone, score if singleton == "raw" else 0.0, value)
    if singleton == "zero":
        value = np.where(moments(sample, group, rows.groups).constant[rows.group], 0.0, value)
    return np.where(rows.trainable, value, 0.0)


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


def _samples(rows: Rows, score: Floats, samples: Samples, penalty: Penalty) -> tuple[Floats, Ints, Ints]:
    """The values that the moments run over, their task groups and their trajectories [K]."""
    trained: Bools = rows.trainable
    if samples == "row":
        return score[trained], rows.group[trained], rows.trajectory[trained]
    present = np.flatnonzero(rows.trained_decisions)
    if samples == "trajectory" and penalty == "row_local":
        # A penalty that belongs to single rows has no place in a sample that stands for the whole trajectory.
        return rows.episode_return[present], rows.trajectory_group[present], present
    first = np.flatnonzero(trained)[first_index(rows.trajectory[trained])]
    return score[first], rows.group[first], present
