"""Clusters of hidden states, found in one greedy pass over the decisions of a task group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from creditlab.credit.normalise import unit
from creditlab.credit.segments import Floats, Ints, count, dense
from creditlab.hookspecs import Feature, Level, Rows


@dataclass(frozen=True)
class HiddenState:
    """Hidden states of the policy that point the same way: a decision joins the nearest cluster within ε, or founds one.

    Decisions are taken in the order of slot and turn. States without a trained decision stand alone.
    """

    axis: ClassVar[str] = "match"
    name: ClassVar[str] = "hidden_state"

    epsilon: Annotated[float, Field(ge=0, le=2)] = 0.05
    """Largest cosine distance 1 − cos to a cluster's centre; the paper uses 0.10 at 7B and 0.05 at 1.5B."""
    layer: int = -1
    """Layer whose output is taken at the last prompt token; the paper uses −8 at 7B and −12 at 1.5B."""
    centre: Literal["mean", "founder"] = "mean"
    """What stands for a cluster: the mean of its members so far, or its first one; the paper does not say."""

    @property
    def requires(self) -> tuple[Feature, ...]:
        """The policy's hidden state; its name tells the layer, so that one recorded at another layer is not taken for it."""
        return (Feature(f"actor_hidden_{self.layer}", "actor", self.layer),)

    def levels(self, rows: Rows) -> tuple[Level, ...]:
        """One level; raises ValueError when the hidden states were not recorded."""
        [feature] = self.requires
        if len(rows) and feature.name not in rows.features:
            held = ", ".join(rows.features) or "none"
            raise ValueError(f"match=hidden_state needs the feature {feature.name!r}, these rollouts hold {held}; record it")
        ids = np.arange(len(rows.state_trajectory), dtype=np.int64)
        trained = np.flatnonzero(rows.trainable)
        if trained.size:
            vectors = unit(np.asarray(rows.features[feature.name], np.float64))
            ends = np.cumsum(count(rows.group[trained], rows.groups))  # rows are sorted by group
            for members in np.split(trained, ends[:-1]):
                ids[rows.state[members]] = rows.state[members][self._founders(vectors[members])]
        return (Level("hidden", dense(ids)),)

    def _founders(self, vectors: Floats) -> Ints:
        """Position of the founder of each vector's cluster, from unit vectors [n, D] in order [n]."""
        founder = np.zeros(len(vectors), np.int64)
        sums, centres = np.zeros_like(vectors), np.zeros_like(vectors)
        firsts: list[int] = []
        for position, vector in enumerate(vectors):
            near = centres[: len(firsts)] @ vector
            best = int(near.argmax()) if firsts else -1
            # a vector is at distance 0 of itself whatever the rounding
            if not firsts or 1.0 - near[best] > self.epsilon + 1e-12:
                best = len(firsts)
                firsts.append(position)
                centres[best] = vector
            sums[best] += vector
            if self.centre == "mean":
                centres[best] = unit(sums[best][None])[0]
            founder[position] = firsts[best]
        return founder
