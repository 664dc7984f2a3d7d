"""Means over peers: the baseline of a sample from the others that a fold admits."""

from __future__ import annotations

import numpy as np

from creditlab.credit.segments import Bools, Floats, Ints, count, joint
from creditlab.credit.types import Peers, Without


def peer_mean(x: Floats, key: Ints, trajectory: Ints, peers: Peers) -> tuple[Floats, Ints]:
    """Mean over the admitted peers of every sample, and their number [K].

    Samples x [K] of the given trajectories [K] are peers under one key [K], a dense id. The mean is 0 without peers.
    """
    size = int(key.max(initial=-1)) + 1
    # Sums run over distances from a member of the key, so that the mean of equal values is exactly that value.
    origin = np.zeros(size)
    origin[key[::-1]] = x[::-1]
    y = x - origin[key]
    member, sees = peers.member[trajectory], peers.sees[trajectory]
    width = int(max(member.max(initial=0), sees.max(initial=0))) + 2
    cell, seen = key * width + member + 1, key * width + sees + 1
    cells = size * width
    total = np.bincount(cell, weights=y, minlength=cells)
    number = count(cell, cells)
    total[::width], number[::width] = 0.0, 0  # class −1 is evidence for nobody
    s, n = total[seen], number[seen]
    own, owned = _own(y, joint(key, trajectory), peers.without)
    inside = (member == sees) & (member >= 0)
    s, n = np.where(inside, s - own, s), np.where(inside, n - owned, n)
    return np.where(n > 0, origin[key] + s / np.maximum(n, 1), 0.0), n


def is_peer(trajectory: Ints, peers: Peers) -> Bools:
    """Whether column b is evidence for row a, for samples of the given trajectories [..., K] to [..., K, K]."""
    member, sees = peers.member[trajectory], peers.sees[trajectory]
    admitted = (member[..., None, :] == sees[..., :, None]) & (member >= 0)[..., None, :]
    if peers.without == "trajectory":
        admitted &= trajectory[..., None, :] != trajectory[..., :, None]
    elif peers.without == "itself":
        admitted &= ~np.eye(trajectory.shape[-1], dtype=np.bool_)
    return np.asarray(admitted)


def _own(y: Floats, own_key: Ints, without: Without) -> tuple[Floats, Ints]:
    """Sum and number of the samples [K] that each one's own baseline leaves out."""
    if without == "nothing":
        return np.zeros(len(y)), np.zeros(len(y), np.int64)
    if without == "itself":
        return y, np.ones(len(y), np.int64)
    size = int(own_key.max(initial=-1)) + 1
    sums: Floats = np.bincount(own_key, weights=y, minlength=size).astype(np.float64)
    return sums[own_key], count(own_key, size)[own_key]
