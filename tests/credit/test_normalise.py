from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.credit.normalise import moments, normalise, standardise

HALF = 1 / np.sqrt(2)  # (1 − 0.5) / std([1, 0], ddof=1)


def one_group(*x: float, **options: object) -> np.ndarray:
    values = np.array(x)
    everyone = np.ones(len(x), bool)
    return normalise(values, np.zeros(len(x), np.int64), 1, where=everyone, **options)  # type: ignore[arg-type]


def test_the_deviation_is_the_sample_deviation_by_default() -> None:
    np.testing.assert_allclose(one_group(1, 0), [HALF, -HALF], atol=2e-6)
    np.testing.assert_allclose(one_group(1, 0, ddof=0), [1, -1], atol=3e-6)


def test_epsilon_is_added_to_the_deviation() -> None:
    np.testing.assert_allclose(one_group(1e-6, 0, eps=1e-6), 0.5e-6 / (1e-6 * HALF + 1e-6) * np.array([1, -1]), rtol=1e-12)


def test_mean_mode_only_centres() -> None:
    np.testing.assert_array_equal(one_group(3, 1, 2, mode="mean"), [1, -1, 0])


@pytest.mark.parametrize("number", [2, 3, 6, 7, 8])
@pytest.mark.parametrize("value", [9.9, 0.7, 0.35, 0.1, 1e-9, 0.0])
@pytest.mark.parametrize("singleton", ["zero", "raw"])
def test_equal_values_give_exactly_zero(value: float, number: int, singleton: str) -> None:
    assert not one_group(*[value] * number, singleton=singleton).any()


def test_a_singleton_gets_zero_or_keeps_its_raw_value() -> None:
    assert one_group(10.0) == [0.0]
    np.testing.assert_allclose(one_group(10.0, singleton="raw"), [10 / (1 + 1e-6)], rtol=1e-15)
    assert one_group(10.0, singleton="raw", mode="mean") == [10.0]


def test_values_against_tied_samples_of_another_kind() -> None:
    """The samples tie and one value differs: 0 by default, −0.1/ε in the published code."""
    of = moments(np.array([10.0, 10.0]), np.array([0, 0]), 1)
    values, groups = np.array([10.0, 9.9]), np.array([0, 0])
    assert not standardise(values, groups, of).any()
    np.testing.assert_allclose(standardise(values, groups, of, singleton="raw"), [0, -0.1 / 1e-6])


def test_unmarked_rows_neither_count_nor_get_a_value() -> None:
    where = np.array([True, True, False])
    value = normalise(np.array([3.0, 1.0, 100.0]), np.zeros(3, np.int64), 1, where=where, mode="mean")
    np.testing.assert_array_equal(value, [1, -1, 0])


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.floats(-100, 100)), min_size=1, max_size=40))
def test_groups_are_normalised_one_by_one(entries: list[tuple[int, float]]) -> None:
    """Against numpy's own mean and deviation of each group."""
    groups, x = np.array([g for g, _ in entries]), np.array([v for _, v in entries])
    value = normalise(x, groups, 5, where=np.ones(len(x), bool))
    for group in np.unique(groups):
        members = x[groups == group]
        expected = np.zeros(len(members))
        if members.max() > members.min():
            expected = (members - members.mean()) / (members.std(ddof=1) + 1e-6)
        np.testing.assert_allclose(value[groups == group], expected, rtol=1e-9, atol=1e-9)
