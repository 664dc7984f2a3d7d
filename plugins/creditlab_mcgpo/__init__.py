"""MCGPO: GraphGPO's advantages beside a loss over pairs of decisions in matched contexts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from creditlab.credit.auxiliary import Weighted
from creditlab.hookspecs import Auxiliary, Credit, Method, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class MCGPO:
    """Advantages of the task method, untouched, and the pair loss with weight λ.

    The axes match, fold and weighting are the pair's: the builder hands them on to it. The task method has its own match.
    """

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "mcgpo"
    axes: ClassVar[dict[str, str]] = {"match": "state_rubric", "fold": "opposite", "weighting": "evidence"}
    parts: ClassVar[dict[str, tuple[str, str]]] = {
        "task": ("method", "graphgpo"),
        "task.match": ("match", "graph_state"),
        "pair": ("aux", "pair"),
    }
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"fold": ("splits",), "weighting": ("pair",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "group"

    pair_weight: Annotated[float, Field(ge=0)] = 1.0
    """Coefficient λ of the pair loss; with 0 pairs are built and logged but change nothing. The paper gives no value."""
    task: Method = part()
    pair: Auxiliary = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of the task method and the weighted pair loss of one update."""
        task = self.task(rows)
        loss, diagnostics = self.pair(rows)
        return Credit(
            task.advantages,
            auxiliary=(*task.auxiliary, Weighted(loss, self.pair_weight)),
            diagnostics={**task.diagnostics, **diagnostics},
        )


@hookimpl
def creditlab_components() -> list[type]:
    """The method `mcgpo`."""
    return [MCGPO]
