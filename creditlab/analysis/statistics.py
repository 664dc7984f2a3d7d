"""Statistics over the seeds of entries that are compared, on scipy."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE: Final = 0.95
BOOTSTRAP_MIN_SEEDS: Final = 5
"""Seeds below which no bootstrap interval is given: too few values to resample."""
BOOTSTRAP_RESAMPLES: Final = 10_000
BOOTSTRAP_SEED: Final = 20_261_130
"""Every interval starts its own generator here, so that the same values always give the same interval."""
ONE_SEED: Final = "one seed: no interval"
NO_SPREAD: Final = "equal at all seeds: no interval"
_NOISE: Final = 1e-9
"""Share of the largest value within which differences are equal: what binary floats add to them is no spread."""
IQM_RESAMPLED: Final = "the seeds within each setting, with replacement"
IMPROVEMENT_RESAMPLED: Final = "the seeds of each entry within each setting, apart from each other, with replacement"

Strata = Sequence[Sequence[float]]
"""One sequence of values over seeds for each setting."""


@dataclass(frozen=True)
class MeanSD:
    """Mean and sample standard deviation (ddof 1) over seeds; one seed has no deviation."""

    mean: float
    sd: float | None
    count: int


@dataclass(frozen=True)
class Interval:
    """A confidence interval; `low` is at most `high`."""

    low: float
    high: float
    confidence: float = CONFIDENCE

    @property
    def covers_zero(self) -> bool:
        """Whether no difference is among the values it allows."""
        return self.low <= 0 <= self.high


@dataclass(frozen=True)
class Estimate:
    """A number with its bootstrap interval and what was resampled for it."""

    value: float
    interval: Interval
    resampled: str


@dataclass(frozen=True)
class PairedDifference:
    """Differences of two entries at the same seeds: every one, their mean and sample SD, and the t interval of the mean."""

    per_seed: Mapping[int, float]
    mean: float
    sd: float | None
    interval: Interval | None
    no_interval: str
    """Why there is no interval; empty where there is one."""


def mean_sd(values: Sequence[float]) -> MeanSD:
    """Mean and sample SD of values over seeds; raises ValueError when there are none."""
    if not values:
        raise ValueError("no values to take the mean of; at least one seed is needed")
    mean = math.fsum(values) / len(values)
    if len(values) == 1:
        return MeanSD(mean, None, 1)
    return MeanSD(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)), len(values))


def paired_difference(first: Mapping[int, float], second: Mapping[int, float]) -> PairedDifference:
    """Differences first − second by seed, with the 95 % Student-t interval mean ± t(n−1) · SD / √n of their mean.

    Differences that are all equal have no interval: one without any width would claim certainty from a few seeds. Raises
    ValueError when the seeds differ or there are none.
    """
    if first.keys() != second.keys():
        alone = ", ".join(str(seed) for seed in sorted(first.keys() ^ second.keys()))
        raise ValueError(f"paired differences need the same seeds on both sides; on one side only: {alone}")
    per_seed = {seed: first[seed] - second[seed] for seed in sorted(first)}
    moments = mean_sd(list(per_seed.values()))
    if moments.sd is None:
        return PairedDifference(per_seed, moments.mean, None, None, ONE_SEED)
    noise = _NOISE * max(map(abs, (*first.values(), *second.values())))
    if max(per_seed.values()) - min(per_seed.values()) <= noise:
        return PairedDifference(per_seed, moments.mean, moments.sd, None, NO_SPREAD)
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, moments.count - 1))
    half = quantile * moments.sd / math.sqrt(moments.count)
    return PairedDifference(per_seed, moments.mean, moments.sd, Interval(moments.mean - half, moments.mean + half), "")


def interquartile_mean(strata: Strata) -> Estimate:
    """Mean of the middle half of all values, with its stratified percentile bootstrap interval (Agarwal et al., 2021).

    A resample draws, for each setting apart, as many of its seeds as there are, with replacement. Raises ValueError below
    five seeds in any setting.
    """
    _check_seeds(strata)
    return _bootstrapped(_sorted(strata), _iqm, IQM_RESAMPLED)


def probability_of_improvement(first: Strata, second: Strata) -> Estimate:
    """P(X > Y) of a run of the first entry and one of the second, ties counted half (Agarwal et al., 2021).

    Within a setting over all pairs of runs, then the mean over settings; `first` and `second` list the same settings. The
    percentile bootstrap draws the seeds of each entry and setting apart. Raises ValueError for other numbers of settings
    or below five seeds in any.
    """
    if len(first) != len(second):
        raise ValueError(f"{len(first)} settings against {len(second)}; the probability of improvement needs the same")
    _check_seeds([*first, *second])
    return _bootstrapped(_sorted([*first, *second]), _improvement, IMPROVEMENT_RESAMPLED)


def _iqm(*samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    return np.asarray(stats.trim_mean(np.concatenate(samples, axis=axis), 0.25, axis=axis))


def _improvement(*samples: NDArray[np.float64], axis: int = -1) -> NDArray[np.float64]:
    """The first half of the samples against the second half."""
    settings = len(samples) // 2
    shares = []
    for x, y in zip(samples[:settings], samples[settings:], strict=True):
        signs = np.sign(np.moveaxis(x, axis, -1)[..., :, None] - np.moveaxis(y, axis, -1)[..., None, :])
        shares.append(np.mean((1 + signs) / 2, axis=(-2, -1)))
    return np.asarray(np.mean(shares, axis=0))


def _sorted(strata: Strata) -> tuple[tuple[float, ...], ...]:
    """Each stratum by size: the order in which seeds are listed must not change an interval."""
    return tuple(tuple(sorted(stratum)) for stratum in strata)


@lru_cache(maxsize=1024)  # the tables of one report ask for the same interval several times
def _bootstrapped(
    strata: tuple[tuple[float, ...], ...], statistic: Callable[..., NDArray[np.float64]], resampled: str
) -> Estimate:
    samples = tuple(np.asarray(stratum, dtype=np.float64) for stratum in strata)
    result: Any = stats.bootstrap(
        samples,
        statistic,
        n_resamples=BOOTSTRAP_RESAMPLES,
        batch=1000,
        vectorized=True,
        axis=-1,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    )
    low, high = result.confidence_interval
    return Estimate(float(statistic(*samples)), Interval(float(low), float(high)), resampled)


def _check_seeds(strata: Strata) -> None:
    fewest = min((len(stratum) for stratum in strata), default=0)
    if fewest < BOOTSTRAP_MIN_SEEDS:
        raise ValueError(f"a bootstrap interval needs {BOOTSTRAP_MIN_SEEDS} seeds in every setting, one has {fewest}")
