"""Hypothesis strategies over batches of rollouts; needs hypothesis, which the base installation does not bring."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from creditlab.rollouts import Group
from creditlab.testing.builders import random_groups


def batches(*, groups: int = 3, slots: tuple[int, ...] = (2, 4, 8), turns: int = 8) -> st.SearchStrategy[tuple[Group, ...]]:
    """Batches of up to `groups` task groups; few states make groups of matching decisions, many make singletons."""
    return st.builds(
        _batch,
        seed=st.integers(0, 2**32 - 1),
        groups=st.integers(1, groups),
        slots=st.sampled_from(slots),
        turns=st.integers(1, turns),
        states=st.integers(1, 6),
        actions=st.integers(1, 4),
    )


def _batch(seed: int, groups: int, slots: int, turns: int, states: int, actions: int) -> tuple[Group, ...]:
    rng = np.random.default_rng(seed)
    return random_groups(rng, groups=groups, slots=slots, turns=turns, states=states, actions=actions)
