from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from creditlab_grpo import GRPO
from examples import e1

from creditlab.credit.conventions import PRESETS
from creditlab.credit.diagnostics import informative_groups
from creditlab.credit.episode import episode_advantage
from creditlab.testing import move, rows_of, siblings, walk

P, Q = [1.3333] * 3, [-0.6633] * 3


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (GRPO(moments="row"), [*P, *Q, -0.6633, -0.6833, -0.6633]),
        (GRPO(convention="reference"), [*P, *Q, -0.6633, -0.6833, -0.6633]),
        (GRPO(convention="paper"), [1.1547] * 3 + [-0.5687] * 3 + [-0.5859] * 3),
        (GRPO(moments="trajectory", penalty="trajectory_sum"), [1.1547] * 3 + [-0.5687] * 3 + [-0.5859] * 3),
    ],
)
def test_worked_example(method: GRPO, expected: list[float]) -> None:
    np.testing.assert_allclose(method(e1()).advantages, expected, atol=6e-5)


def test_default_takes_each_trajectory_once_and_the_penalty_on_its_row() -> None:
    """Samples R = 10, 0, 0: mean 10/3, sample deviation 10/√3; only the invalid row r1 loses 0.1."""
    deviation = 10 / np.sqrt(3) + 1e-6
    centred = np.array([10.0] * 3 + [0.0] * 6) - 10 / 3
    centred[7] -= 0.1
    np.testing.assert_allclose(GRPO()(e1()).advantages, centred / deviation, rtol=1e-12)


@pytest.mark.parametrize(("moments", "expected"), [("row", [0.9] + [-0.1] * 9), ("trajectory", [0.5] + [-0.5] * 9)])
def test_longer_trajectories_weigh_more_only_with_row_moments(moments: str, expected: list[float]) -> None:
    long = walk(*[move(f"S{t}", "go") for t in range(9)])
    rows = rows_of(siblings("g", walk(move("A", "go", reward=1.0), success=True), long))
    np.testing.assert_allclose(GRPO(normalise="mean", moments=moments)(rows).advantages, expected)  # type: ignore[arg-type]


def test_uneven_groups_are_compared_by_key_not_by_position() -> None:
    win, lose = walk(move("A", "go"), success=True), walk(move("A", "go"), move("B", "go"))
    rows = rows_of(siblings("three", win, lose, lose), siblings("two", lose, win))
    expected = [20 / 3, -10 / 3, -10 / 3, -10 / 3, -10 / 3, -5, -5, 5]
    np.testing.assert_allclose(GRPO(normalise="mean")(rows).advantages, expected)


def test_tied_returns_with_an_invalid_row_give_zero_everywhere_by_default() -> None:
    win = walk(move("A", "go"), move("B", "go", valid=False), success=True)
    rows = rows_of(siblings("g", win, walk(move("A", "go"), success=True)))
    assert not GRPO()(rows).advantages.any()
    published = GRPO(convention="reference", moments="first_row")(rows).advantages
    np.testing.assert_allclose(published, [0, -0.1 / 1e-6, 0])


def test_trajectories_without_trained_tokens_move_no_baseline() -> None:
    """Their reward would otherwise shift the mean of their siblings."""
    win, lose = walk(move("A", "go"), success=True), walk(move("A", "stay"))
    rejected = walk(move("A", "go", trainable=False), success=True)
    for moments in ("row", "first_row", "trajectory"):
        method = GRPO(normalise="mean", moments=moments)  # type: ignore[arg-type]
        np.testing.assert_array_equal(method(rows_of(siblings("g", win, lose, rejected))).advantages, [5, -5, 0])


def test_first_row_is_the_first_trained_one() -> None:
    late = walk(move("A", "go", trainable=False), move("B", "go", valid=False), move("C", "go"), success=True)
    rows = rows_of(siblings("g", late, walk(move("A", "stay"))))
    given = episode_advantage(rows, mode="mean", samples="first_row")
    np.testing.assert_allclose(given, [0, 9.9 - 4.95, 10 - 4.95, -4.95])


def test_grouping_by_rollout_instead_of_task_fails_loudly() -> None:
    each = [siblings(f"rollout-{i}", walk(move("A", "go"), success=i % 2 == 0)) for i in range(4)]
    with pytest.raises(ValueError, match=r"each of the 4 task groups holds a single trajectory.*'rollout-0'.*same group id"):
        GRPO()(rows_of(*each))


def test_shaped_rewards_enter_the_return() -> None:
    rows = rows_of(siblings("g", walk(move("A", "go")), walk(move("A", "stay"))))
    np.testing.assert_array_equal(GRPO(normalise="mean")(rows.with_rewards(np.array([2.0, 0.0]))).advantages, [1, -1])


def test_nan_is_refused_with_the_decision_named() -> None:
    rows = replace(e1(), reward=np.array([0.0] * 4 + [np.nan] + [0.0] * 4))
    with pytest.raises(ValueError, match=r"reward is nan at group 'E1', trajectory 'E1/1', turn 1; it must be finite"):
        GRPO()(rows)


def test_zero_variance_is_read_from_the_returns() -> None:
    win, lose = walk(move("A", "go"), success=True), walk(move("A", "stay"))
    rows = rows_of(siblings("mixed", win, lose), siblings("solved", win, win), siblings("failed", lose, lose))
    assert informative_groups(rows).tolist() == [True, False, False]
    diagnostics = GRPO()(rows).diagnostics
    assert diagnostics["informative_groups"] == 1 / 3
    assert diagnostics["zero_variance_groups"] == 2
    assert diagnostics["zero_fraction"] == 4 / 6
    assert diagnostics["singleton_rate"] == 0
    assert diagnostics["group_size"] == 2


def test_every_preset_is_named_for_every_convention() -> None:
    for field, choices in PRESETS.items():
        assert choices.keys() == {"default", "paper", "reference"}, field


def test_an_explicit_value_wins_over_the_convention() -> None:
    explicit = GRPO(convention="reference", moments="trajectory", singleton="zero")(e1()).advantages
    np.testing.assert_array_equal(explicit, GRPO()(e1()).advantages)
