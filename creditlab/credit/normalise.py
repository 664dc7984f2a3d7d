"""The normaliser N(x | groups; mode, ddof, ε, singleton) shared by every group-relative term."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from creditlab.credit.segments import Bools, Floats, Ints

Mode = Literal["mean_std", "mean"]
"""`mean_std`: (x − μ)/(σ + ε); `mean`: x − μ."""
Singleton = Literal["zero", "raw"]
"""`zero`: 0 to a single sample and to a constant group; `raw`: as in the published code (μ := 0, σ := 1; x − μ kept)."""

EPS = 1e-6
"""Added to the deviation σ, as in every published implementation of these methods."""


@dataclass(frozen=True)
class Moments:
    """Mean and deviation of the samples of every group [G]."""

    count: Ints
    mean: Floats
    std: Floats
    constant: Bools
    """Whether all samples are equal (max = min); then the mean is exactly that value and the deviation exactly 0."""


def moments(samples: Floats, groups: Ints, size: int, *, ddof: int = 1) -> Moments:
    """Moments per group [size] of samples [K] with group ids [K]; groups without a sample get mean and deviation 0."""
    number = np.bincount(groups, minlength=size).astype(np.int64)
    first = np.zeros(size)
    first[groups[::-1]] = samples[::-1]  # the last assignment wins: the first sample of each group
    constant = np.bincount(groups, weights=samples != first[groups], minlength=size) == 0
    mean = np.bincount(groups, weights=samples, minlength=size) / np.maximum(number, 1)
    # A sum of equal values divided by their number can be off by one unit in the last place, which ε then magnifies.
    mean = np.where(constant, first, mean)
    squares = np.bincount(groups, weights=(samples - mean[groups]) ** 2, minlength=size)
    std = np.sqrt(squares / np.maximum(number - ddof, 1))
    return Moments(number, mean, std, constant)


def standardise(
    x: Floats, groups: Ints, of: Moments, *, mode: Mode = "mean_std", eps: float = EPS, singleton: Singleton = "zero"
) -> Floats:
    """Values x [N] against the moments of their groups [N], which may stem from other samples than x."""
    mean, std = of.mean, of.std
    if singleton == "raw":
        alone = of.count == 1
        mean, std = np.where(alone, 0.0, mean), np.where(alone, 1.0, std)
    centred = x - mean[groups]
    value = centred / (std + eps)[groups] if mode == "mean_std" else centred
    return np.where(of.constant[groups], 0.0, value) if singleton == "zero" else value


def normalise(
    x: Floats,
    groups: Ints,
    size: int,
    *,
    where: Bools,
    mode: Mode = "mean_std",
    ddof: int = 1,
    eps: float = EPS,
    singleton: Singleton = "zero",
) -> Floats:
    """N(x | groups) for x [N] over the rows marked by `where` [N]; the others neither count nor get a value but 0."""
    of = moments(x[where], groups[where], size, ddof=ddof)
    return np.where(where, standardise(x, groups, of, mode=mode, eps=eps, singleton=singleton), 0.0)


def unit(x: Floats) -> Floats:
    """Vectors [n, D] divided by their length; a vector of zeros stays one."""
    length = np.linalg.norm(x, axis=1, keepdims=True)
    return np.asarray(x / np.where(length > 0, length, 1.0))
