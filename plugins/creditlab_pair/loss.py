"""The logistic loss over preferences between decisions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from creditlab.hookspecs import LossView, Preferences

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class PairLoss:
    """Σ c · softplus(−(d⁺ − d⁻)) / ⌊|B|/2⌋, with d the mean log-ratio of a response's tokens to the sampling policy.

    |B| counts the decision rows of the whole optimizer step, so the split into micro-batches changes nothing as long as
    both rows of a pair share one; pairs that do not are left out.
    """

    preferences: Preferences
    weight: float = 1.0
    name: ClassVar[str] = "pair"

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Winner and loser rows side by side [K, 2]."""
        return self.preferences.pairs

    def __call__(self, view: LossView) -> torch.Tensor:
        """Share of the loss of the pairs whose two rows lie in this micro-batch."""
        import torch  # loading a plug-in must not cost seconds: only a run that trains needs it

        mask = view.mask.to(view.logp.dtype)
        ratio = ((view.logp - view.old_logp) * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1)  # [B]
        inside, winner, loser = self._inside(view.rows)
        weight = torch.as_tensor(self.preferences.weight[inside], dtype=ratio.dtype, device=ratio.device)  # [k]
        margin = ratio[torch.as_tensor(winner, device=ratio.device)] - ratio[torch.as_tensor(loser, device=ratio.device)]
        return (weight * torch.nn.functional.softplus(-margin)).sum() / max(view.step_rows // 2, 1)

    def _inside(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The pairs whose two rows lie in a micro-batch of the given rows [B], and the places of these rows in it [k]."""
        place = {row: position for position, row in enumerate(rows.tolist())}
        found = [
            (index, place[winner], place[loser])
            for index, (winner, loser) in enumerate(self.pairs.tolist())
            if winner in place and loser in place
        ]
        index, winner, loser = np.array(found, np.int64).reshape(-1, 3).T
        return index, winner, loser
