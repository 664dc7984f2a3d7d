"""CovGPO: where every sibling failed, credit goes to those that saw more of the world (arXiv 2607.22724)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.normalise import EPS, moments, standardise
from creditlab.credit.segments import Bools, Floats, count
from creditlab.credit.values import coverage, novel, shared_groups
from creditlab.hookspecs import Credit, Method, Rows, Scope, hookimpl, part


@dataclass(frozen=True)
class CovGPO:
    """The base method's credit; in an all-failed group λ·q_fail times the standardised first-visit coverage instead."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "covgpo"
    parts: ClassVar[dict[str, tuple[str, str]]] = {"base": ("method", "grpo")}
    needs: ClassVar[tuple[str, ...]] = ("group",)
    scope: ClassVar[Scope] = "update"

    coverage_weight: Annotated[float, Field(ge=0)] = 0.3
    """Scale λ; what counts is λ·q_fail, q_fail the share of all-failed groups in the update."""
    failed_below: Annotated[float, Field(gt=0)] = 1e-3
    """Return τ_R below which a trajectory has failed; the environment's own, without any penalty."""
    min_spread: Annotated[float, Field(ge=0)] = 1e-4
    """Population deviation τ_P of coverage from which a group says anything; below it the advantage is 0."""
    granularity: Literal["trajectory", "step"] = "trajectory"
    """Whether a trajectory's share of new observations is ranked, or each decision by whether it led to a new one."""
    base: Method = part()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update."""
        base = self.base(rows)
        present, failed = self._groups(rows)
        share = failed.sum() / max(int(present.sum()), 1)
        score = self._coverage(rows) if self.granularity == "trajectory" else self._novelty(rows)
        # a lone trajectory explored neither more nor less than its siblings
        compared = rows.trainable & shared_groups(rows)[rows.group]
        fallback = np.where(compared, self.coverage_weight * share * score, 0.0)
        advantages = np.where(failed[rows.group], fallback, base.advantages)
        diagnostics = {**base.diagnostics, "all_failed_groups": int(failed.sum()), "all_failed_share": float(share)}
        return Credit(advantages, auxiliary=base.auxiliary, diagnostics=diagnostics)

    def _groups(self, rows: Rows) -> tuple[Bools, Bools]:
        """Task groups [P] with any trained decision, and those of them in which every trajectory failed."""
        present = count(rows.group, rows.groups, rows.trainable) > 0
        solved = rows.outcome[rows.trajectory] >= self.failed_below
        return present, present & (count(rows.group, rows.groups, solved) == 0)

    def _coverage(self, rows: Rows) -> Floats:
        """Standardised coverage P of each decision's trajectory [N]; trajectories count once."""
        ran = np.flatnonzero(count(rows.trajectory, len(rows.length), rows.trainable))
        share = coverage(rows)
        of = moments(share[ran], rows.trajectory_group[ran], rows.groups, ddof=0)
        value = standardise(share[rows.trajectory], rows.group, of, eps=EPS)
        return np.where(of.std[rows.group] >= self.min_spread, value, 0.0)

    def _novelty(self, rows: Rows) -> Floats:
        """Standardised first-visit flag of each decision [N] within its task group."""
        flag, trained = novel(rows).astype(np.float64), rows.trainable
        of = moments(flag[trained], rows.group[trained], rows.groups, ddof=0)
        value = standardise(flag, rows.group, of, eps=EPS)
        return np.where(of.std[rows.group] >= self.min_spread, value, 0.0)


@hookimpl
def creditlab_components() -> list[type]:
    """The method `covgpo`."""
    return [CovGPO]
