"""CCPO: returns and potentials against those of siblings in a similar context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.context import context_features, peer_means
from creditlab.credit.conventions import Convention, preset
from creditlab.credit.episode import EpisodeOptions, Penalty, Samples, invalid_penalty
from creditlab.credit.match import Task
from creditlab.credit.normalise import Mode, normalise
from creditlab.credit.segments import Bools, Floats, count
from creditlab.credit.values import terminal_discounted
from creditlab.hookspecs import Credit, Feature, MatchRule, PeerFold, PeerWeighting, Rows, Scope, hookimpl, part

HIDDEN = "reference_hidden"


@dataclass(frozen=True)
class CCPO(EpisodeOptions):
    """A = N(H + F) + η·A_EP: residual H of the return and change F of the potential, both against peers in context."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "ccpo"
    axes: ClassVar[dict[str, str]] = {
        "match": "observation", "fold": "other_trajectories", "weighting": "context_kernel"
    }  # fmt: skip
    calls: ClassVar[dict[str, tuple[str, ...]]] = {"fold": ("peers",), "weighting": ("peer",)}
    needs: ClassVar[tuple[str, ...]] = ("group",)

    convention: Convention = "default"
    """Presets `singleton`."""
    normalise: Mode = "mean_std"
    """Divide the episode term by the deviation or only centre it; the other terms are standardised as `final` says."""
    moments: Samples | None = "row"
    """Samples of the mean and deviation of the episode term A_EP; the paper weighs trajectories by their rows."""
    penalty: Penalty | None = "row_local"
    """Where an invalid action is paid for in the episode term; in the paper by its own row, as in the target Y."""
    gamma: Annotated[float, Field(gt=0, le=1)] = 0.95
    """Discount γ of the targets Y and Z, per decision."""
    horizon: Annotated[int, Field(ge=1)] = 2
    """Decisions K_F over which the change of the potential is taken."""
    history_weight: float = 1.0
    """Weight of the historical channel H; 0 leaves the future alone."""
    future_weight: float = 1.0
    """Weight of the future channel F; 0 leaves the history alone."""
    episode_weight: float = 0.0
    """Weight η of the episode term A_EP; 0 on ALFWorld, 1 on WebShop."""
    final: Literal["task", "none"] = "task"
    """Whether H + F is standardised within the task (ALFWorld) or left as it is (WebShop)."""
    hidden: bool = True
    """Whether contexts hold the frozen reference model's hidden state; without it only the statistics of the prefix."""
    summary_weight: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the context statistics beside the hidden state."""
    match: MatchRule = part()
    fold: PeerFold = part()
    weighting: PeerWeighting = part()

    def __post_init__(self) -> None:
        """Raises ValueError where nothing would be left of the context."""
        if not self.hidden and not self.summary_weight:
            raise ValueError("method.hidden=false and method.summary_weight=0 leave no context to compare; keep one of them")

    @property
    def scope(self) -> Scope:
        """`update`; `group` where contexts hold no hidden state."""
        return "update" if self.hidden else "group"

    @property
    def requires(self) -> tuple[Feature, ...]:
        """The final hidden state of the reference model, where contexts hold it."""
        return (Feature(HIDDEN, "reference"),) if self.hidden else ()

    def __call__(self, rows: Rows) -> Credit:
        """Advantages [N] of one update; without a recorded hidden state, contexts are statistics of the prefix.

        Raises ValueError when these have no weight either.
        """
        hidden = rows.features.get(HIDDEN) if self.hidden else None
        if hidden is None and not self.summary_weight and len(rows):
            raise ValueError(
                f"method.summary_weight=0 leaves the hidden state as the only context, and these rollouts do not hold the "
                f"feature {HIDDEN!r}; record it, or give the statistics a weight"
            )
        after = terminal_discounted(rows, self.gamma)  # Z
        target = after / self.gamma - invalid_penalty(rows, coefficient=self.coefficient)  # Y
        z = context_features(rows, hidden, self.summary_weight)
        levels = (*self.match.levels(rows), *Task().levels(rows))
        peers = peer_means(rows, levels, z, np.stack([target, after], axis=1), self.fold.peers(rows), self.weighting)
        history = np.where(peers.supported, target - peers.mean[:, 0], 0.0)  # H
        future = self._future(rows, peers.mean[:, 1], peers.supported)  # F
        context = self._finish(rows, self.history_weight * history + self.future_weight * future, peers.supported)
        advantages = context + self.episode_weight * self.episode_term(rows)
        sizes = np.where(peers.supported, peers.size, 1)
        return self.credit(rows, advantages, sizes, context_hidden=float(hidden is not None))

    def _future(self, rows: Rows, potential: Floats, supported: Bools) -> Floats:
        """Standardised change of the potential V over the next decisions [N]; the return R stands at the end."""
        ends = rows.turn + self.horizon >= rows.length[rows.trajectory]
        later = np.where(ends, np.arange(len(rows)), np.arange(len(rows)) + self.horizon)
        endpoint = np.where(ends, rows.episode_return[rows.trajectory], potential[later])
        eligible = supported & (ends | supported[later])
        return normalise(endpoint - potential, rows.group, rows.groups, where=eligible)

    def _finish(self, rows: Rows, x: Floats, supported: Bools) -> Floats:
        if self.final == "none":
            return np.where(supported, x, 0.0)
        value = normalise(x, rows.group, rows.groups, where=supported)
        if preset("singleton", self.convention, self.singleton) == "raw":  # the published code leaves a lone value alone
            value = np.where(supported & (count(rows.group, rows.groups, supported)[rows.group] == 1), x, value)
        return value


@hookimpl
def creditlab_components() -> list[type]:
    """The method `ccpo`."""
    return [CCPO]
