"""Statistics over seeds against scipy's own tests, the definitions, and what must not change them."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from creditlab.analysis import statistics
from creditlab.analysis.statistics import (
    BOOTSTRAP_MIN_SEEDS,
    NO_SPREAD,
    ONE_SEED,
    interquartile_mean,
    mean_sd,
    paired_difference,
    probability_of_improvement,
)

VALUES = st.integers(0, 6400).map(lambda count: count / 64)  # rates in percent, which share values often
PAIRS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=8)


def by_seed(values: list[float]) -> dict[int, float]:
    return dict(enumerate(values))


def test_mean_and_sample_deviation_by_hand() -> None:
    """2, 4, 9: mean 5, squares 9 + 1 + 16 = 26 over two degrees of freedom."""
    found = mean_sd([2.0, 4.0, 9.0])
    assert (found.mean, found.count) == (5.0, 3)
    assert found.sd == pytest.approx(math.sqrt(13))


def test_one_seed_has_neither_deviation_nor_interval() -> None:
    assert mean_sd([3.0]).sd is None
    found = paired_difference({7: 3.0}, {7: 1.0})
    assert (found.per_seed, found.mean, found.sd, found.interval) == ({7: 2.0}, 2.0, None, None)
    assert found.no_interval == ONE_SEED == "one seed: no interval"


@pytest.mark.parametrize("first", [{0: 4.0, 1: 4.0}, {0: 0.1 + 0.2, 1: 0.3, 2: 0.3}, {0: 2.0, 1: 2.0, 2: 2.0}])
def test_equal_differences_have_no_interval(first: dict[int, float]) -> None:
    """SD 0 would give [2, 2]: certainty from two seeds. 0.1 + 0.2 is 0.3 but for the noise of binary floats."""
    found = paired_difference(first, dict.fromkeys(first, 2.0))
    assert found.mean == pytest.approx(first[1] - 2)
    assert (found.interval, found.no_interval) == (None, NO_SPREAD)
    assert NO_SPREAD == "equal at all seeds: no interval"


def test_the_smallest_spread_of_rates_is_one() -> None:
    """One episode of ten million apart."""
    assert paired_difference({0: 50.0, 1: 50.00001}, {0: 40.0, 1: 40.0}).interval is not None


def test_no_values_and_other_seeds_are_errors() -> None:
    with pytest.raises(ValueError, match="at least one seed"):
        mean_sd([])
    with pytest.raises(ValueError, match="on one side only: 1, 3"):
        paired_difference({0: 1.0, 1: 1.0}, {0: 1.0, 3: 1.0})
    with pytest.raises(ValueError, match="at least one seed"):
        paired_difference({}, {})


@settings(max_examples=100, deadline=None)
@given(PAIRS)
def test_the_interval_is_that_of_the_paired_t_test(pairs: list[tuple[float, float]]) -> None:
    first, second = ([pair[side] for pair in pairs] for side in (0, 1))
    found = paired_difference(by_seed(first), by_seed(second))
    differences = np.subtract(first, second)
    if np.ptp(differences) == 0:  # scipy has no answer without any spread either
        assert (found.interval, found.no_interval) == (None, NO_SPREAD)
        return
    assert found.interval is not None
    assert found.no_interval == ""
    expected = stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (found.interval.low, found.interval.high) == pytest.approx(tuple(expected), rel=1e-9, abs=1e-9)
    assert found.sd == pytest.approx(np.std(differences, ddof=1))


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.randoms(use_true_random=False), st.integers(-50, 50))
def test_order_of_seeds_and_a_common_shift_change_nothing_and_swapping_flips(
    pairs: list[tuple[float, float]], dice: object, shift: int
) -> None:
    first, second = (by_seed([pair[side] for pair in pairs]) for side in (0, 1))
    found = paired_difference(first, second)
    order = list(first)
    dice.shuffle(order)  # type: ignore[attr-defined]
    assert paired_difference({seed: first[seed] for seed in order}, {seed: second[seed] for seed in reversed(order)}) == found
    # multiples of 1/64 shift without rounding
    moved = [{seed: value + shift for seed, value in side.items()} for side in (first, second)]
    assert paired_difference(*moved) == found
    swapped = paired_difference(second, first)
    assert swapped.mean == -found.mean
    assert swapped.sd == found.sd
    assert swapped.no_interval == found.no_interval
    if found.interval:
        assert swapped.interval == statistics.Interval(-found.interval.high, -found.interval.low)
    assert swapped.per_seed == {seed: -value for seed, value in found.per_seed.items()}


def test_an_interval_covers_zero_at_its_edges_too() -> None:
    assert statistics.Interval(0.0, 2.0).covers_zero
    assert statistics.Interval(-2.0, 0.0).covers_zero
    assert not statistics.Interval(0.1, 2.0).covers_zero
    assert not statistics.Interval(-2.0, -0.1).covers_zero


def test_the_t_interval_covers_as_often_as_it_says() -> None:
    """2000 experiments of five pairs whose true difference is 1: 95 % cover it, ± 3 standard errors of that share."""
    generator = np.random.default_rng(3)
    covered = 0
    for _ in range(2000):
        interval = paired_difference(by_seed(list(generator.normal(1, 2, 5))), by_seed([0.0] * 5)).interval
        assert interval is not None
        covered += interval.low <= 1 <= interval.high
    assert abs(covered / 2000 - 0.95) < 3 * math.sqrt(0.95 * 0.05 / 2000)


def test_the_interquartile_mean_by_hand() -> None:
    """Of five values the middle three, of eight the middle four; settings are pooled."""
    assert interquartile_mean([[100.0, 1.0, 2.0, 3.0, -50.0]]).value == 2.0
    assert interquartile_mean([[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]]).value == (4 + 8 + 16 + 32) / 4
    pooled = [[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, 20.0, 30.0, 40.0, 50.0]]
    assert interquartile_mean(pooled).value == pytest.approx((3 + 4 + 5 + 10 + 20 + 30) / 6)


def test_the_interval_of_the_iqm_follows_the_definition() -> None:
    """All 5^5 resamples of five seeds are as likely: the exact percentiles, which ten thousand draws come near."""
    values = [3.0, 8.0, 9.0, 15.0, 30.0]
    resamples = np.stack(np.meshgrid(*[values] * 5), axis=-1).reshape(-1, 5)
    means = np.sort(resamples, axis=1)[:, 1:4].mean(axis=1)
    found = interquartile_mean([values])
    low, high = np.percentile(means, [2.5, 97.5])
    assert found.interval.low == pytest.approx(low, abs=0.5)
    assert found.interval.high == pytest.approx(high, abs=0.7)
    assert "seeds within each setting" in found.resampled


def test_a_stratum_without_spread_adds_none() -> None:
    """Resampling stays within settings: mixing them would spread a setting of equal values."""
    found = interquartile_mean([[1.0] * 5, [100.0] * 5])
    assert (found.interval.low, found.interval.high) == (found.value, found.value)


@settings(max_examples=100, deadline=None)
@given(st.lists(VALUES, min_size=5, max_size=7), st.lists(VALUES, min_size=5, max_size=7))
def test_the_probability_of_improvement_is_mann_whitneys(first: list[float], second: list[float]) -> None:
    expected = stats.mannwhitneyu(first, second).statistic / (len(first) * len(second))
    ours = statistics._improvement(np.array(first), np.array(second))
    theirs = statistics._improvement(np.array(second), np.array(first))
    assert float(ours) == pytest.approx(expected)
    assert float(ours + theirs) == pytest.approx(1)


def test_ties_count_half_and_settings_weigh_the_same() -> None:
    """Always better in one setting, always the same in the other: (1 + 1/2) / 2, whatever is resampled."""
    found = probability_of_improvement([[2.0] * 5, [3.0] * 9], [[1.0] * 5, [3.0] * 5])
    assert (found.value, found.interval.low, found.interval.high) == (0.75, 0.75, 0.75)
    assert "each entry" in found.resampled


def test_its_interval_holds_the_value_and_mirrors_when_the_entries_are_swapped() -> None:
    first, second = [5.0, 6.0, 7.0, 8.0, 9.0], [4.0, 5.5, 6.5, 7.5, 7.0]
    found, swapped = probability_of_improvement([first], [second]), probability_of_improvement([second], [first])
    assert found.interval.low < found.value < found.interval.high
    assert swapped.value == pytest.approx(1 - found.value)
    assert swapped.interval.low == pytest.approx(1 - found.interval.high, abs=0.05)


def test_bootstraps_are_the_same_every_time_and_in_every_order() -> None:
    values = [3.0, 8.0, 9.0, 15.5, 30.25, 71.0, 5.125]
    found = interquartile_mean([values])
    statistics._bootstrapped.cache_clear()
    assert interquartile_mean([values]) == found
    for order in np.random.default_rng(0).permuted(np.tile(values, (5, 1)), axis=1):
        assert interquartile_mean([list(order)]) == found


def test_bootstraps_need_five_seeds_in_every_setting() -> None:
    few, enough = [1.0] * (BOOTSTRAP_MIN_SEEDS - 1), [1.0] * BOOTSTRAP_MIN_SEEDS
    with pytest.raises(ValueError, match="needs 5 seeds in every setting, one has 4"):
        interquartile_mean([enough, few])
    with pytest.raises(ValueError, match="one has 4"):
        probability_of_improvement([enough], [few])
    with pytest.raises(ValueError, match="1 settings against 2"):
        probability_of_improvement([enough], [enough, enough])
    with pytest.raises(ValueError, match="one has 0"):
        interquartile_mean([])
