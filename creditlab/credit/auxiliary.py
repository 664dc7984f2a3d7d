"""Auxiliary losses as parts of a method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from creditlab.credit.segments import Ints
from creditlab.credit.types import AuxiliaryLoss, LossView

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Weighted:
    """An auxiliary loss under another coefficient λ, that of the method it is a part of."""

    loss: AuxiliaryLoss
    weight: float

    @property
    def name(self) -> str:
        """Prefix of its metrics."""
        return self.loss.name

    @property
    def pairs(self) -> Ints:
        """Rows to be placed in one micro-batch [K, 2]."""
        return self.loss.pairs

    def __call__(self, view: LossView) -> torch.Tensor:
        """The loss of this micro-batch, without its coefficient."""
        return self.loss(view)
