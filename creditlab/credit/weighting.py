"""Weightings: how much a preference counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from creditlab.credit.segments import Floats, Ints


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
class Uniform:
    """Every preference counts 1 (MCGPO's uniform control)."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "uniform"

    def pair(self, contrast: Floats, support: Ints, resolution: Floats) -> Floats:
        """Ones [K]."""
        return np.ones(len(contrast))
