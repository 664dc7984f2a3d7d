"""Returns, match ladders, weightings, shaping and keys."""

from __future__ import annotations

import sys
from fractions import Fraction
from subprocess import run

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.credit.match import GraphState, Observation, RubricOnly, StateOnly, StateRubric
from creditlab.credit.returns import discounted_return
from creditlab.credit.segments import count, first_index, joint, several
from creditlab.credit.shaping import RubricProgress, ScoreProgress
from creditlab.credit.weighting import Evidence, Uniform
from creditlab.rollouts import Rows
from creditlab.testing import move, rows_of, siblings, state, walk

TWO_TASKS = rows_of(
    siblings("g", walk(move(state("A", exact="x", coarse="k"), "go"), end=state("B", exact="y", coarse="k"))),
    siblings("h", walk(move(state("A", exact="x", coarse="k"), "go"), end=state("A", exact="x", coarse="k"))),
)


def test_discounted_return_follows_turns_not_rows() -> None:
    """10 after three steps at γ = ½: 2.5, 5, 10; the next trajectory starts afresh."""
    rows = rows_of(siblings("g", walk(move("A", "x"), move("B", "x"), move("C", "x"), success=True), walk(move("A", "y"))))
    assert discounted_return(rows, 0.5).tolist() == [2.5, 5, 10, 0]


def test_discounted_return_of_rewards_on_the_way() -> None:
    moves = [move(f"S{t}", "x", reward=r) for t, r in enumerate((1.0, 0.0, 4.0))]
    assert discounted_return(rows_of(siblings("g", walk(*moves))), 0.5).tolist() == [1 + 0 + 1, 2, 4]


@pytest.mark.parametrize(
    ("match", "names", "resolutions"),
    [
        (Observation(), ("observation",), (1.0,)),
        (GraphState(), ("graph",), (1.0,)),
        (StateRubric(), ("exact", "coarse"), (1.0, 0.7)),
        (StateOnly(), ("exact", "coarse"), (1.0, 0.7)),
        (RubricOnly(), ("rubric",), (1.0,)),
    ],
)
def test_ladders(match: Observation, names: tuple[str, ...], resolutions: tuple[float, ...]) -> None:
    levels = match.levels(TWO_TASKS)
    assert tuple(level.name for level in levels) == names
    assert tuple(level.resolution for level in levels) == resolutions
    for level in levels:
        first, second = set(level.ids[:2].tolist()), set(level.ids[2:].tolist())
        assert not first & second, "tasks share a key"
        assert sorted(first | second) == list(range(len(first | second)))


def test_keys_compare_texts_byte_by_byte() -> None:
    texts = ["on", "On", "on ", "oń", "on\n", "1", "1.0"]
    rows = rows_of(siblings("g", walk(*[move(text, "x") for text in texts], end="on")))
    ids = Observation().levels(rows)[0].ids.tolist()
    assert len(set(ids)) == len(texts)
    assert ids[0] == ids[-1]


def test_the_rubric_enters_as_an_exact_fraction() -> None:
    third = Fraction(1, 3)
    near = Fraction(1, 3) + Fraction(1, 10**12)
    moves = [move(state("s", rubric={"attribute_match": (value, 1)}), "x") for value in (third, near, third)]
    rows = rows_of(siblings("g", walk(*moves, end="t")))
    ids = StateRubric().levels(rows)[0].ids
    assert ids[0] == ids[2] != ids[1]


def test_evidence_weighting() -> None:
    """|Δu| · n*/(n* + 2) · q; the values MCGPO can reach with evidence folds of four."""
    contrast, support = np.array([1, 1, 0.5, 1 / 3, 1 / 3]), np.array([1, 2, 1, 1, 1])
    c = Evidence().pair(contrast, support, np.ones(5))
    np.testing.assert_allclose(c, [1 / 3, 1 / 2, 1 / 6, 1 / 9, 1 / 9])
    np.testing.assert_allclose(Evidence().pair(contrast, support, np.full(5, 0.7)), 0.7 * c)
    np.testing.assert_allclose(Evidence(kappa=0.0).pair(contrast, support, np.ones(5)), contrast)
    assert Uniform().pair(contrast, support, np.full(5, 0.7)).tolist() == [1.0] * 5


def test_rubric_progress_shaping() -> None:
    """η times the change of the mean share: (0 + 0)/2 → (1 + 0)/2 → (1 + 1/2)/2, on top of the reward."""
    stages = [{"acquired": (a, 1), "placed": (p, 2)} for a, p in ((0, 0), (1, 0), (1, 1))]
    moves = [move(state(f"S{i}", rubric=stages[i]), "x", reward=float(i)) for i in range(2)]
    rows = rows_of(siblings("g", walk(*moves, end=state("S2", rubric=stages[2]))))
    np.testing.assert_allclose(RubricProgress(eta=2.0)(rows), [0 + 2 * 0.5, 1 + 2 * 0.25])
    shaped = rows.with_rewards(RubricProgress(eta=2.0)(rows))
    assert shaped.episode_return.tolist() == [2.5]
    assert shaped.outcome.tolist() == [1.0]


def test_score_progress_shaping() -> None:
    """η times the change of the share of the goal alone, 0 → 1/4 → 1, whatever the other channels do."""
    stages = [{"acquired": (a, 1), "goal_progress": (g, 4)} for a, g in ((1, 0), (0, 1), (1, 4))]
    moves = [move(state(f"S{i}", rubric=stages[i]), "x", reward=float(i)) for i in range(2)]
    rows = rows_of(siblings("g", walk(*moves, end=state("S2", rubric=stages[2]))))
    np.testing.assert_allclose(ScoreProgress(eta=2.0)(rows), [0 + 2 * 0.25, 1 + 2 * 0.75])
    np.testing.assert_allclose(ScoreProgress()(rows), [0.25, 1.75])


@settings(deadline=None)
@given(st.lists(st.tuples(*[st.integers(0, 5)] * 3), max_size=30), st.sampled_from([1, 7, 2**40]))
def test_joint_ids_are_equal_exactly_where_all_columns_are(entries: list[tuple[int, ...]], factor: int) -> None:
    """Also where ids are scattered, and where the product of the columns' ranges exceeds 64 bits."""
    columns = [np.array([e[i] * factor for e in entries], np.int64) for i in range(3)]
    ids = joint(*columns).tolist()
    assert len(ids) == len(entries)
    assert all((a == b) == (x == y) for a, x in zip(entries, ids, strict=True) for b, y in zip(entries, ids, strict=True))
    assert set(ids) == set(range(len(set(entries))))


@pytest.mark.parametrize("factor", [1, 1000])
def test_first_index_of_close_and_of_scattered_ids(factor: int) -> None:
    ids = factor * np.array([2, 0, 2, 3, 0])
    assert first_index(ids).tolist() == [1, 0, 3]


def test_counts() -> None:
    ids, members = np.array([0, 0, 2, 2, 2]), np.array([7, 7, 7, 8, 9])
    assert count(ids, 4).tolist() == [2, 0, 3, 0]
    assert count(ids, 4, np.array([True, False, True, True, False])).tolist() == [1, 0, 2, 0]
    assert several(ids, members, 4).tolist() == [False, False, True, False]


def test_an_update_without_decisions_has_empty_levels() -> None:
    rows = Rows.from_groups([siblings("g", walk(move("A", "x"), error="the engine timed out"))])
    for match in (Observation(), GraphState(), StateRubric(), StateOnly(), RubricOnly()):
        assert [len(level.ids) for level in match.levels(rows)] == [0] * len(match.levels(rows))


def test_credit_and_plugins_load_without_torch_and_hypothesis() -> None:
    """Credit is numpy; a plug-in must not make the command line slow, and the kit must work in a base installation."""
    code = (
        "import sys, creditlab.testing, creditlab_grpo, creditlab_graphgpo, creditlab_mcgpo, creditlab_pair;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'hypothesis', 'hydra', 'omegaconf')))"
    )
    assert run([sys.executable, "-c", code], check=False).returncode == 0
