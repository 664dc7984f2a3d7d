"""Which decisions share a baseline, and what one that shares none gets: cases that concern several methods."""

from __future__ import annotations

import numpy as np
import pytest
from creditlab_gigpo import GiGPO
from creditlab_graphgpo import GraphGPO
from creditlab_hgpo import HGPO
from creditlab_rloo import RLOO

from creditlab.credit.folds import LeaveOneOut
from creditlab.credit.ladders import History, SimilarState, Turn
from creditlab.credit.match import Observation
from creditlab.credit.types import Feature
from creditlab.credit.weighting import Depth
from creditlab.registry import registry
from creditlab.rollouts import Group, Rows
from creditlab.testing import move, rows_of, siblings, state, walk
from creditlab.testing.conformance import featured

X = "abcdefghijklmnopqrstuvwxyz0123456789ABCD"
Y = f"{X[:-2]}!!"
Z = f"??{Y[2:]}"
"""38 of 40 characters agree between X and Y and between Y and Z, ratio 0.95; 36 between X and Z, ratio 0.9."""


class AnyFeature:
    """Asks for what the match rule of BiPACE needs."""

    requires = (Feature("actor_hidden_-1", "actor"),)


def one_step(name: str, *texts: str, order: tuple[int, ...] = ()) -> Group:
    """Siblings of one decision each, by slot; the first wins. `order` is that of recording."""
    made = [walk(move(text, "go"), end=f"end {slot}", success=slot == 0, slot=slot) for slot, text in enumerate(texts)]
    return siblings(name, *(made[slot] for slot in order or range(len(made))))


@pytest.mark.parametrize("match", registry().names("match"))
def test_no_match_rule_puts_states_of_two_tasks_under_one_key(match: str) -> None:
    here = state("A", rubric={"goal_progress": (0, 1)})
    same = [siblings(name, walk(move(here, "go"), end=here), walk(move(here, "go"), end=here)) for name in ("g1", "g2")]
    rows = Rows.from_groups(featured(AnyFeature, same))  # type: ignore[arg-type]
    for level in registry().create("match", match).levels(rows):
        first, second = (set(level.ids[rows.state_group == group].tolist()) for group in (0, 1))
        assert not first & second, level.name


def test_decisions_of_one_turn_can_be_the_unit_of_comparison() -> None:
    """Returns-to-go 9.5, 10 against 0, 0: every turn is a pair, whatever its states; the other task has its own."""
    won, lost = walk(move("A", "go"), move("B", "go"), success=True), walk(move("C", "go"), move("D", "go"))
    quick = walk(move("A", "go"), success=True)
    rows = rows_of(siblings("g1", won, lost), siblings("g2", quick, walk(move("B", "go"))))
    by_turn = GiGPO(match=Turn(), normalise="mean", episode_weight=0.0)(rows).advantages
    np.testing.assert_allclose(by_turn, [4.75, 5.0, -4.75, -5.0, 5.0, -5.0])
    assert not GiGPO(match=Observation(), episode_weight=0.0)(rows).advantages[:4].any()


@pytest.mark.parametrize(("singleton", "expected"), [("zero", 0.0), ("raw", 10.0)])
def test_a_lone_trajectory_has_no_baseline_to_be_left_out_of(singleton: str, expected: float) -> None:
    rows = rows_of(siblings("lone", walk(move("A", "go"), success=True)), one_step("pair", "A", "A"))
    given = RLOO(fold=LeaveOneOut(), singleton=singleton)(rows).advantages  # type: ignore[arg-type]
    np.testing.assert_allclose(given, [expected, 10.0, -10.0])


def test_gigpo_divides_by_the_sample_deviation_and_hgpo_by_the_populations() -> None:
    """Returns 1 and 0 in one state: ±1/√2 and ±1."""
    rows = rows_of(siblings("g", walk(move("A", "go", reward=1.0)), walk(move("A", "go", reward=0.0))))
    gigpo = GiGPO(match=Observation(), episode_weight=0.0)(rows).advantages
    hgpo = HGPO(match=History(past=0), weighting=Depth())(rows).advantages
    np.testing.assert_allclose(gigpo, [np.sqrt(0.5), -np.sqrt(0.5)], atol=1e-5)
    np.testing.assert_allclose(hgpo, [1.0, -1.0], atol=1e-5)


def test_a_level_that_ties_is_absent_from_hgpo_unless_it_is_kept() -> None:
    """p and q share S, X, and r comes to X from N: level 1 gives p and q +0.7071, level 2 nothing or ∓1 (ε takes 2 %).

    Tied: 0.7071, or 2/5 of it when the level is kept. Nearly tied: (2 · 0.707 ∓ 3 · 0.980)/5.
    """

    def last_turns(second: float, *, skip_zero: bool) -> list[float]:
        paths = [("S", 1.0), ("S", second), ("N", 0.0)]
        rows = rows_of(siblings("g", *(walk(move(s, "go"), move("X", "go", reward=r)) for s, r in paths)))
        method = HGPO(match=History(), weighting=Depth(counting="matched"), skip_zero=skip_zero)
        return method(rows).advantages[[1, 3]].tolist()

    assert last_turns(1.0, skip_zero=True) == pytest.approx([0.7071, 0.7071], abs=1e-4)
    assert last_turns(1.0, skip_zero=False) == pytest.approx([0.2828, 0.2828], abs=1e-4)
    for skip_zero in (True, False):
        assert last_turns(1.0001, skip_zero=skip_zero) == pytest.approx([-0.3055, 0.8711], abs=2e-4)


def clusters(*texts: str, order: tuple[int, ...] = (), threshold: float = 0.95) -> list[int]:
    """Cluster of each slot's first state, numbered by first appearance."""
    rows = rows_of(one_step("g", *texts, order=order))
    ids = SimilarState(threshold=threshold).levels(rows)[0].ids[rows.state].tolist()
    return [list(dict.fromkeys(ids)).index(i) for i in ids]


def test_clusters_of_similar_texts_follow_the_slots_and_not_the_order_of_recording() -> None:
    """Greedy clusters depend on who comes first; that is the lower slot, however the rollouts were recorded."""
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0)):
        assert clusters(X, Y, Z, order=order) == [0, 0, 1]
        assert clusters(Y, X, Z, order=order) == [0, 0, 0]


def test_similarity_has_no_direction_and_no_frequent_characters() -> None:
    """The ratio of difflib is 0.25 for tide against diet and 0.5 the other way; frequent characters of long texts vanish."""
    assert clusters("tide", "diet", threshold=0.5) == clusters("diet", "tide", threshold=0.5) == [0, 0]
    assert clusters("ab" * 150, "ab" * 150 + "c") == [0, 0]


def test_a_graph_over_merged_states_compares_the_merged_states() -> None:
    """X and Y are one node under similarity, and its two decisions, to the goal and away from it, are compared."""
    rows = rows_of(one_step("g", X, Y))
    merged = GraphGPO(match=SimilarState(), episode_weight=0.0)(rows).advantages
    np.testing.assert_allclose(merged, [np.sqrt(0.5), -np.sqrt(0.5)], atol=1e-5)
    assert not GraphGPO(match=Observation(), episode_weight=0.0)(rows).advantages.any()
