"""RLOO: a trajectory's return against the mean of the others (arXiv 2402.14740)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from creditlab.credit.diagnostics import task_group_sizes
from creditlab.credit.episode import EpisodeOptions
from creditlab.hookspecs import Credit, PeerFold, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class RLOO(EpisodeOptions):
    """A = e − mean of the samples that the fold admits, without a deviation; PPO's clipping stays, as in published code."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "rloo"
    axes: ClassVar[dict[str, str]] = {"fold": "leave_one_out"}
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"fold": ("peers",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    normalise: Literal["mean"] = "mean"
    """Only centred: the estimator has no deviation to divide by."""
    fold: PeerFold = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        return self.credit(rows, self.baseline_term(rows, self.fold.peers(rows)), task_group_sizes(rows))


@hookimpl
def creditlab_components() -> list[type]:
    """The method `rloo`."""
    return [RLOO]
