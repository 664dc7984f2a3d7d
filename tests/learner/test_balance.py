"""The weight of trajectories of different lengths, from its definition."""

from __future__ import annotations

import numpy as np
import pytest

from creditlab.learner.balance import balanced, mass_by_length
from creditlab.learner.sequences import TrainBatch


def batch(trajectories: list[int], advantages: list[float], tokens: list[int] | None = None) -> TrainBatch:
    """Decisions of the given trajectories, each with a response of one token unless given."""
    count = np.bincount(trajectories)
    tokens = tokens or [1] * len(trajectories)
    return TrainBatch(
        prompts=tuple(np.zeros(1, np.int32) for _ in trajectories),
        responses=tuple(np.zeros(n, np.int32) for n in tokens),
        old_logp=tuple(np.zeros(n, np.float32) for n in tokens),
        advantages=np.array(advantages),
        auxiliary=(),
        keys=np.arange(len(trajectories)),
        trajectories=np.array(trajectories),
        lengths=count[trajectories],
        describe=str,
    )


def test_a_trajectory_of_nine_turns_weighs_as_much_as_one_of_a_single_turn() -> None:
    given = batch([0] + [1] * 9, [0.9] + [-0.1] * 9)
    weighed = balanced(given).advantages
    by_trajectory = np.bincount(given.trajectories, weights=weighed / given.advantages)
    assert by_trajectory.tolist() == pytest.approx([5, 5]), "ten decisions in two trajectories"
    assert (weighed / given.advantages).sum() == pytest.approx(10), "the sum of the weights stays"


def test_decisions_without_response_do_not_lengthen_a_trajectory() -> None:
    weighed = balanced(batch([0, 0, 0, 1], [1.0, 1.0, 0.0, 1.0], tokens=[1, 1, 0, 1])).advantages
    assert weighed.tolist() == pytest.approx([0.75, 0.75, 0, 1.5])


def test_the_mass_by_length() -> None:
    """Lengths 1, 2 and 6 of at most 6 are in the thirds short, short and long; |A|·tokens are 3, 2 and 6·½."""
    given = batch([0, 1, 1] + [2] * 6, [3.0, -1.0, 1.0] + [0.25] * 6, tokens=[1, 1, 1] + [2] * 6)
    assert mass_by_length(given) == pytest.approx(
        {"actor/mass_short": 5 / 8, "actor/mass_middle": 0, "actor/mass_long": 3 / 8}
    )
    assert mass_by_length(batch([0], [0.0])) == {}
