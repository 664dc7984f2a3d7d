"""Integer keys: the combination of columns of ids into one, and what holds within the rows of one id."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

_LIMIT = 2**62


def dense(ids: Ints) -> Ints:
    """The ids [N] renumbered 0, 1, … in ascending order, without gaps."""
    return np.unique(ids, return_inverse=True)[1].astype(np.int64)


def joint(*columns: Ints) -> Ints:
    """One dense id [N] per distinct combination of the columns' non-negative ids."""
    key, size = columns[0], _size(columns[0])
    for column in columns[1:]:
        if size * _size(column) > _LIMIT:
            key = dense(key)
            size = _size(key)
        key, size = key * _size(column) + column, size * _size(column)
    return dense(key)


def count(ids: Ints, size: int, where: Bools | None = None) -> Ints:
    """Number of entries per id [size], of those marked by `where` when it is given."""
    return np.bincount(ids if where is None else ids[where], minlength=size).astype(np.int64)


def distinct(ids: Ints, members: Ints, size: int) -> Ints:
    """Number of distinct members met under each id [size]."""
    if not len(ids):
        return np.zeros(size, np.int64)
    width = _size(members)
    return count(np.unique(ids * width + members) // width, size)


def first_index(ids: Ints) -> Ints:
    """Position of the first entry of every id that occurs, in ascending order of the ids."""
    return np.unique(ids, return_index=True)[1].astype(np.int64)


def _size(ids: Ints) -> int:
    return int(ids.max(initial=0)) + 1
