"""The vocabulary between credit parts: levels, folds, preferences, auxiliary losses and the `Credit` they end in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts import Rows

if TYPE_CHECKING:
    import torch

Scope = Literal["group", "update"]
"""`group`: an unrelated group changes nothing; `update`: a statistic of the whole update is used."""


@dataclass(frozen=True)
class Level:
    """One level of a match ladder: an id per state [S], equal where two states may be compared."""

    name: str
    ids: NDArray[np.int64]
    """Dense, and never shared between task groups."""
    resolution: float = 1.0
    """Resolution weight q of MCGPO."""
    reached: NDArray[np.bool_] | None = None
    """Which states have a key at this level at all [S], where some have too short a past for one; None is all of them."""


@dataclass(frozen=True)
class Split:
    """One assignment of trajectories [M] to roles: whose decisions are judged, whose outcomes are evidence."""

    candidate: NDArray[np.bool_]
    evidence: NDArray[np.bool_]


Without = Literal["nothing", "itself", "trajectory"]
"""What a decision's baseline leaves out: nothing, its own sample, or its whole own trajectory."""


@dataclass(frozen=True)
class Peers:
    """Whose outcomes enter the baseline of whom: every trajectory [M] has a class and sees the members of one class."""

    member: NDArray[np.int64]
    """Class of each trajectory as evidence, from 0; −1 for none."""
    sees: NDArray[np.int64]
    """Class whose members are evidence for the decisions of each trajectory; −1 for none."""
    without: Without = "nothing"


@dataclass(frozen=True)
class Feature:
    """A feature that the loop computes for every decision and stores in `Rows.features` under its name."""

    name: str
    model: Literal["actor", "reference"]
    """Whose hidden state: the policy that sampled the response, or the frozen start of the run."""
    layer: int = -1
    """Index of the layer whose output is taken, at the last token of the prompt; −1 is the final one, after its norm."""


@dataclass(frozen=True)
class Preferences:
    """Ordered pairs of decisions, winner before loser, with the comparison that ordered them [K]."""

    winner: NDArray[np.int64]
    """Row indices."""
    loser: NDArray[np.int64]
    weight: NDArray[np.float64]
    """Confidence c of each pair."""
    level: NDArray[np.int64]
    contrast: NDArray[np.float64]
    """|Δu| in [0, 1]."""
    support: NDArray[np.int64]
    """n*, the smaller number of evidence records of the two actions."""

    def __len__(self) -> int:
        return len(self.winner)

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Winner and loser rows side by side [K, 2]."""
        return np.stack([self.winner, self.loser], axis=1) if len(self) else np.zeros((0, 2), np.int64)


class LossView(Protocol):
    """What an auxiliary loss sees of one micro-batch: B sequences of at most L response tokens."""

    @property
    def rows(self) -> NDArray[np.int64]:
        """Row index of every sequence [B]."""

    @property
    def logp(self) -> torch.Tensor:
        """Log-probabilities under the policy being trained [B, L], 0 where masked."""

    @property
    def old_logp(self) -> torch.Tensor:
        """Log-probabilities recorded at sampling time [B, L], 0 where masked."""

    @property
    def mask(self) -> torch.Tensor:
        """Marks the response tokens [B, L]."""

    @property
    def step_rows(self) -> int:
        """Decision rows |B| of the whole optimizer step, over all micro-batches and ranks."""


@runtime_checkable
class AuxiliaryLoss(Protocol):
    """A loss beside the policy loss; its values over the micro-batches of one optimizer step add up to the step's loss."""

    @property
    def name(self) -> str:
        """Prefix of its metrics."""

    @property
    def weight(self) -> float:
        """Coefficient λ; with 0 the loss is neither computed nor are its rows placed together."""

    @property
    def pairs(self) -> NDArray[np.int64]:
        """Rows to be placed in one micro-batch [K, 2]; empty when the loss has no pairs."""

    def __call__(self, view: LossView) -> torch.Tensor:
        """The share of this micro-batch, over denominators of the whole optimizer step."""


@dataclass(frozen=True)
class Credit:
    """What a method says about one update."""

    advantages: NDArray[np.float64]
    """One per decision [N], in the order of the rows."""
    auxiliary: tuple[AuxiliaryLoss, ...] = ()
    diagnostics: Mapping[str, float] = field(default_factory=dict)
    """Scalars to track, without the `credit/` prefix: an `int` is a count, added up over ranks, a `float` a mean."""


class Method(Protocol):
    """A credit method: rows in, credit out."""

    def __call__(self, rows: Rows) -> Credit: ...


class MatchRule(Protocol):
    """Which decisions may be compared: a ladder of levels, most specific first."""

    def levels(self, rows: Rows) -> tuple[Level, ...]: ...


class Fold(Protocol):
    """Whose outcomes may be evidence for whose decisions."""

    def splits(self, rows: Rows) -> tuple[Split, ...]: ...


class PeerFold(Protocol):
    """Who enters the baseline of a decision."""

    def peers(self, rows: Rows) -> Peers: ...


class LevelWeighting(Protocol):
    """How much each level of a ladder counts."""

    def level(self, depth: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weights of levels [L] of the given depths, 1 for the least specific level."""


class PeerWeighting(Protocol):
    """How much each peer counts in a baseline."""

    def peer(self, features: NDArray[np.float64]) -> NDArray[np.float64]:
        """Weights [B, n, n] of every member of a bucket for every other, from unit features [B, n, D] of B buckets."""


class FuseWeighting(Protocol):
    """How much each of several estimates of one value counts."""

    def fuse(self, variance: NDArray[np.float64], support: NDArray[np.int64]) -> NDArray[np.float64]:
        """Weights [L, S] of estimates with sample variance and number of samples [L, S]; 0 without a sample."""


class PairWeighting(Protocol):
    """How much a preference counts."""

    def pair(
        self, contrast: NDArray[np.float64], support: NDArray[np.int64], resolution: NDArray[np.float64]
    ) -> NDArray[np.float64]: ...


class Auxiliary(Protocol):
    """Builds an auxiliary loss from the rows of an update."""

    def __call__(self, rows: Rows) -> tuple[AuxiliaryLoss, Mapping[str, float]]: ...


class Shaping(Protocol):
    """Reward shaping before credit: a new reward per decision [N]."""

    def __call__(self, rows: Rows) -> NDArray[np.float64]: ...
