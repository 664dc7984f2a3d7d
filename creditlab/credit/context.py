"""Contexts of decisions and means over peers in a similar context (CCPO)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditlab.credit.compare import chosen_levels
from creditlab.credit.ladders import first_visit, state_turn
from creditlab.credit.normalise import unit
from creditlab.credit.peers import is_peer
from creditlab.credit.segments import Bools, Floats, Ints, count
from creditlab.credit.types import Level, Peers, PeerWeighting
from creditlab.rollouts import Rows

BITS = 12
"""Bits of one thermometer code."""
FULL_TURN, FULL_DISTINCT = 30, 25
"""Turn and number of distinct observations at which their thermometers are full."""
PRINCIPAL = 3
"""Principal directions taken out of the hidden states: what they share says little about a single context."""
NO_REST = 1e-6
"""Share of the largest hidden state up to which what is left of one counts as nothing; they are recorded in float32."""
CELLS = 1 << 18
"""Largest number of pairwise weights held at once."""


@dataclass(frozen=True)
class PeerMeans:
    """Weighted mean of every target over the peers of each decision [N, Q]; the decision's own value without peers."""

    mean: Floats
    supported: Bools
    """Whether a decision has peers [N]."""
    size: Ints
    """Decisions in the bucket of each decision, itself included [N]."""


def context_statistics(rows: Rows) -> Floats:
    """Turn, distinct observations so far, whether this one came before, and their share of the turns, as bits [N, 37]."""
    first = first_visit(rows).astype(np.int64)
    turn = state_turn(rows)
    total = np.cumsum(first)
    start = np.arange(len(turn)) - turn
    met = total - (total[start] - first[start])
    here, t, u = rows.state, turn[rows.state], met[rows.state]
    # in whole numbers, so that a bit at its very threshold does not hang on rounding
    codes = [
        np.minimum(BITS * t // FULL_TURN, BITS),
        np.minimum(BITS * u // FULL_DISTINCT, BITS),
        np.minimum(BITS * u // (t + 1), BITS),
    ]
    bits = [code[:, None] > np.arange(BITS) for code in codes]
    return np.hstack([*bits, (1 - first[here])[:, None]]).astype(np.float64)


def context_features(rows: Rows, hidden: NDArray[np.float32] | None, summary_weight: float = 1.0) -> Floats:
    """Unit context vector of every decision [N, D]: hidden state [N, H] without what the update shares, and statistics.

    Statistics of the update (the mean and the principal directions) run over its trained decisions.
    """
    blocks = [] if hidden is None else [unit(_distinctive(np.asarray(hidden, np.float64), rows))]
    return unit(np.hstack([*blocks, summary_weight * unit(context_statistics(rows))]))


def peer_means(
    rows: Rows, levels: Sequence[Level], features: Floats, targets: Floats, peers: Peers, weighting: PeerWeighting
) -> PeerMeans:
    """Means of targets [N, Q] over the peers that match, each weighted by its context.

    A decision takes the most specific level at which two or more trajectories meet, else the last one.
    """
    mean, supported = targets.copy(), np.zeros(len(rows), np.bool_)
    size = np.zeros(len(rows), np.int64)
    trained = np.flatnonzero(rows.trainable)
    for ids, number, here in chosen_levels(rows, levels):
        wanted = count(ids, number, here) > 0
        size[here] = count(ids, number, rows.trainable)[ids[here]]
        for bucket in _buckets(ids, trained[wanted[ids[trained]]], features.shape[1]):
            peer = is_peer(rows.trajectory[bucket], peers)
            found, any_peer = _means(weighting.peer(features[bucket]) * peer, peer, targets[bucket])
            take = here[bucket]
            mean[bucket[take]], supported[bucket[take]] = found[take], any_peer[take]
    return PeerMeans(mean, supported, size)


def _means(weight: Floats, peer: Bools, target: Floats) -> tuple[Floats, Bools]:
    """Weighted means [B, n, Q] of targets [B, n, Q] under weights [B, n, n], and who has any peer [B, n]."""
    any_peer: Bools = np.asarray(peer.any(axis=-1))
    total = weight.sum(axis=-1)
    # Peers so far away that all their weights vanish count alike.
    weight = np.where((total == 0)[..., None], peer, weight)
    total = weight.sum(axis=-1)
    # Over distances from one member, so that the mean of equal values is exactly that value.
    origin = target[:, :1]
    shift = weight @ (target - origin) / np.where(any_peer, total, 1.0)[..., None]
    return np.where(any_peer[..., None], origin + shift, target), any_peer


def _buckets(ids: Ints, members: Ints, width: int) -> Iterator[Ints]:
    """The members [n] of every id, as blocks [B, n] of buckets of one size."""
    order = members[np.argsort(ids[members], kind="stable")]
    _, start, number = np.unique(ids[order], return_index=True, return_counts=True)
    for n in np.unique(number).tolist():
        block = order[start[number == n][:, None] + np.arange(n)]
        step = max(1, CELLS // (n * max(n, width)))
        for first in range(0, len(block), step):
            yield block[first : first + step]


def _distinctive(hidden: Floats, rows: Rows) -> Floats:
    """Hidden states [N, H] less their mean and without their first principal directions."""
    trained = np.flatnonzero(rows.trainable)
    # in an order of names, not of ranks, so that the sums are the same wherever a group was collected
    place = np.argsort(np.argsort(np.array(rows.group_names)))
    sample = hidden[trained[np.argsort(place[rows.group[trained]], kind="stable")]]
    if len(sample) < 2:
        return hidden
    hidden, sample = hidden - sample.mean(axis=0), sample - sample.mean(axis=0)
    if len(sample) <= PRINCIPAL:
        return hidden
    _, directions = np.linalg.eigh(sample.T @ sample)
    top = directions[:, -PRINCIPAL:]
    rest = np.asarray(hidden - hidden @ top @ top.T)
    # what rounding leaves of a vector within those directions is no direction of its own
    small = np.linalg.norm(rest, axis=1) <= NO_REST * np.linalg.norm(sample, axis=1).max()
    return np.where(small[:, None], 0.0, rest)
