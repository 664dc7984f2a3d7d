"""Fading credit: a decision counts less the more turns followed it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from creditlab.credit.diagnostics import credit_diagnostics, task_group_sizes
from creditlab.credit.episode import EpisodeOptions
from creditlab.hookspecs import Credit, Rows, Scope, hookimpl


@dataclass(frozen=True)
class Fading(EpisodeOptions):
    """A = γ^(turns that follow) · episode term: the return against those of the siblings, fading towards the start."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "fading"
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Fading γ per turn that follows; 1 is GRPO."""

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        following = rows.length[rows.trajectory] - 1 - rows.turn  # [N]
        advantages = self.gamma**following * self.episode_term(rows)
        return Credit(advantages, diagnostics=credit_diagnostics(rows, advantages, task_group_sizes(rows)))


@hookimpl
def creditlab_components() -> list[type]:
    """The method `fading`."""
    return [Fading]


@hookimpl
def creditlab_config() -> list[str]:
    """The folder `conf` of this package joins Hydra's search path."""
    return ["pkg://creditlab_example.conf"]
