"""Weightings: how much each level, peer, estimate or preference counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.conventions import Convention, preset
from creditlab.credit.segments import Floats, Ints

NO_SPREAD = 1e-9
"""Median distance up to which a bucket counts as having none."""
ROUNDING = 1e-14
"""What the cosine of two unit vectors may be off by, several times over; squared distances up to here count as none."""


@dataclass(frozen=True)
class Evidence:
    """Contrast × shrunk support × resolution: c = |Δu| · n*/(n* + κ) · q (MCGPO)."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "evidence"
    kappa: Annotated[float, Field(ge=0)] = 2.0
    """Support κ at which a contrast counts half, in evidence records (MCGPO, Table 6)."""

    def pair(self, contrast: Floats, support: Ints, resolution: Floats) -> Floats:
        """Confidence c of preferences [K] from |Δu|, n* and q [K]."""
        return np.asarray(contrast * (support / (support + self.kappa)) * resolution, dtype=np.float64)


@dataclass(frozen=True)
class Depth:
    """Deeper levels count more: (k+1)^α, with k the number of past states matched beside the present one (HGPO)."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "depth"
    convention: Convention = "default"
    """Presets `counting`."""
    alpha: Annotated[float, Field(ge=0)] = 1.0
    """Power α; 0 weighs all levels alike (HGPO, Eq. 6)."""
    counting: Literal["past", "matched"] | None = None
    """Whether k counts the past states alone, 1:2:3 at α = 1, or the present one too as in the code, 2:3:4; unset: as the
    convention says."""

    def level(self, depth: Ints) -> Floats:
        """Weights [L] of the levels of the given depths [L], 1 for the level of the present state alone."""
        past = preset("counting", self.convention, self.counting) == "past"
        return np.asarray(np.power(depth + (0.0 if past else 1.0), self.alpha), dtype=np.float64)


@dataclass(frozen=True)
class ContextKernel:
    """Peers in a similar context count more: exp(−‖z_a − z_b‖/τ), τ a share of the bucket's median distance (CCPO)."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "context_kernel"
    bandwidth: Annotated[float, Field(gt=0)] = 0.15
    """τ as a share of the median distance between two decisions of the bucket (CCPO)."""
    kernel: Literal["exponential", "cosine"] = "exponential"
    """`cosine` takes (1 + cos)/2 instead, an ablation whose exact form the paper leaves open."""

    def peer(self, features: Floats) -> Floats:
        """Weights [B, n, n] from unit features [B, n, D] of B buckets of n decisions."""
        cosine = np.clip(features @ features.swapaxes(-1, -2), -1.0, 1.0)
        if self.kernel == "cosine":
            return np.asarray((1.0 + cosine) / 2.0)
        squared = 2.0 - 2.0 * cosine
        distance = np.sqrt(np.where(squared > ROUNDING, squared, 0.0))  # a root would magnify the rounding of equal contexts
        above = np.triu_indices(features.shape[-2], 1)
        median = np.median(distance[..., above[0], above[1]], axis=-1) if above[0].size else np.zeros(len(features))
        # A bucket of equal contexts has no scale of its own.
        scale = self.bandwidth * np.where(median <= NO_SPREAD, 1.0, median)
        return np.asarray(np.exp(-distance / scale[..., None, None]))


@dataclass(frozen=True)
class InverseVariance:
    """Estimates count by their precision: n/(s² + σ₀²), from n samples of variance s² (ProGPO; the form is our choice)."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "inverse_variance"
    prior_deviation: Annotated[float, Field(gt=0)] = 1.0
    """σ₀, in units of reward: keeps two samples that happen to agree from counting without bound."""

    def fuse(self, variance: Floats, support: Ints) -> Floats:
        """Weights of estimates [L, S]; 0 where there is no sample."""
        return np.asarray(support / (variance + self.prior_deviation**2), dtype=np.float64)


@dataclass(frozen=True)
class Uniform:
    """Everything counts alike: every preference (MCGPO's uniform control), level, peer and estimate."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "uniform"

    def level(self, depth: Ints) -> Floats:
        """Ones [L]."""
        return np.ones(len(depth))

    def peer(self, features: Floats) -> Floats:
        """Ones [B, n, n]."""
        return np.ones((*features.shape[:-1], features.shape[-2]))

    def fuse(self, variance: Floats, support: Ints) -> Floats:
        """Ones [L, S], 0 where there is no sample."""
        return (support > 0).astype(np.float64)

    def pair(self, contrast: Floats, support: Ints, resolution: Floats) -> Floats:
        """Ones [K]."""
        return np.ones(len(contrast))
