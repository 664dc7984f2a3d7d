"""GRPO: a trajectory's return against those of its siblings (arXiv 2402.03300; Dr. GRPO with `normalise=mean`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from creditlab.credit.diagnostics import task_group_sizes
from creditlab.credit.episode import EpisodeOptions
from creditlab.hookspecs import Credit, Rows, Scope, hookimpl


@dataclass(frozen=True)
class GRPO(EpisodeOptions):
    """A = N(R − ρ·inv | task group): every decision gets its trajectory's return against those of its siblings."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "grpo"
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        return self.credit(rows, self.episode_term(rows), task_group_sizes(rows))


@hookimpl
def creditlab_components() -> list[type]:
    """The method `grpo`."""
    return [GRPO]
