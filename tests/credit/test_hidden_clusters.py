"""Clusters of hidden states (BiPACE), by hand: directions in the plane, given as angles, with a reach of 40 degrees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from creditlab_bipace import BiPACE, HiddenState

from creditlab.rollouts import Rows
from creditlab.testing import move, rows_of, siblings, walk

REACH = 1 - np.cos(np.radians(40))
FEATURE = "actor_hidden_-1"


def rows_at(*angles: Sequence[float], untrained: Sequence[float] = ()) -> Rows:
    """One trajectory per sequence of angles, in order of slot; those in `untrained` have no response."""
    made = [walk(*(move(f"s{a}", "go", trainable=a not in untrained) for a in walked)) for walked in angles]
    return with_angles(rows_of(siblings("task", *made)), [a for walked in angles for a in walked])


def with_angles(rows: Rows, angles: Sequence[float]) -> Rows:
    """Vectors of different lengths in these directions, one per row."""
    turned, length = np.radians(np.asarray(angles)), 1.0 + np.arange(len(angles))
    return replace(rows, features={FEATURE: np.stack([np.cos(turned), np.sin(turned)], axis=1) * length[:, None]})


def clusters(rows: Rows, epsilon: float = REACH, **options: Any) -> list[list[int]]:
    """The rows of each cluster, in the order of their first members."""
    [level] = HiddenState(epsilon=epsilon, **options).levels(rows)
    ids = level.ids[rows.state].tolist()
    return [[row for row, other in enumerate(ids) if other == key] for key in dict.fromkeys(ids)]


def test_a_centre_is_the_mean_of_the_members_or_the_founder() -> None:
    """0 and 30 have their mean at 15, from where 50 is 35 away; from the founder it is 50."""
    rows = rows_at([0, 30, 50])
    assert clusters(rows) == [[0, 1, 2]]
    assert clusters(rows, centre="founder") == [[0, 1], [2]]


def test_every_member_counts_alike_in_the_mean() -> None:
    """The mean of 0, 0, 0 and 40 points to 9.7, from where 55 is too far; the middle between 0 and 40 would reach it."""
    assert clusters(rows_at([0, 0, 0, 40, 55])) == [[0, 1, 2, 3], [4]]


def test_the_nearest_of_two_within_reach_is_joined() -> None:
    """35 is 35 from 0 and 25 from 60; 25 the other way round."""
    assert clusters(rows_at([0, 60, 35]), centre="founder") == [[0], [1, 2]]
    assert clusters(rows_at([0, 60, 25]), centre="founder") == [[0, 2], [1]]


@pytest.mark.parametrize(("epsilon", "expected"), [(0.2, [[0, 1]]), (0.1999, [[0], [1]])])
def test_the_boundary_belongs_to_the_cluster(epsilon: float, expected: list[list[int]]) -> None:
    """(1, 0) and (0.8, 0.6) are at cosine distance 0.2."""
    rows = replace(rows_at([0, 30]), features={FEATURE: np.array([[1.0, 0.0], [0.8, 0.6]])})
    assert clusters(rows, epsilon) == expected


def test_decisions_are_taken_by_slot_and_turn_in_whatever_order_they_were_recorded() -> None:
    """0, 50 of the first slot come before 30 of the second, which joins 50; by turns all would be one cluster."""
    first, second = walk(move("a", "go"), move("b", "go"), slot=0), walk(move("c", "go"), slot=1)
    for recorded in ((first, second), (second, first)):
        assert clusters(with_angles(rows_of(siblings("task", *recorded)), [0, 50, 30])) == [[0], [1, 2]]


def test_task_groups_are_apart() -> None:
    groups = [siblings(name, walk(move("a", "go")), walk(move("a", "go"))) for name in ("g1", "g2")]
    assert clusters(with_angles(rows_of(*groups), [0, 0, 0, 0])) == [[0, 1], [2, 3]]


def test_a_decision_without_trained_tokens_stands_alone_and_moves_no_centre() -> None:
    """Were 30 a member, the centre at 15 would reach 50."""
    assert clusters(rows_at([0, 30, 50], untrained=[30])) == [[0], [1], [2]]
    assert clusters(rows_at([30], [0, 50], untrained=[30])) == [[0], [1], [2]]


def test_credit_compares_within_the_cluster() -> None:
    """10 from 0 and 0 from 30 by another action, about their mean 5; 180 is alone."""
    won, lost, other = walk(move("a", "go"), success=True), walk(move("b", "stay")), walk(move("c", "go"))
    rows = with_angles(rows_of(siblings("task", won, lost, other)), [0, 30, 180])
    step_term = BiPACE(match=HiddenState(epsilon=REACH), episode_weight=0.0)
    np.testing.assert_allclose(step_term(rows).advantages, [5.0, -5.0, 0.0], atol=1e-12)


def test_rollouts_without_the_feature_or_with_that_of_another_layer_are_refused() -> None:
    rows = rows_at([0, 30])
    with pytest.raises(ValueError, match=r"needs the feature 'actor_hidden_-8', these rollouts hold actor_hidden_-1"):
        HiddenState(layer=-8).levels(rows)
    with pytest.raises(ValueError, match=r"needs the feature 'actor_hidden_-1', these rollouts hold none"):
        HiddenState().levels(replace(rows, features={}))
