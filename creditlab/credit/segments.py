"""Integer keys: the combination of columns of ids into one, and what holds within the rows of one id.

Ids that lie close together are counted off in tables, in linear time; only scattered ones are sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

ROOM = 16
"""Table cells per entry up to which a table is quicker than sorting."""


def dense(ids: Ints) -> Ints:
    """The non-negative ids [N] renumbered 0, 1, … in ascending order, without gaps."""
    if not _fits(_size(ids), len(ids)):
        return np.unique(ids, return_inverse=True)[1].astype(np.int64)
    occurs = np.zeros(_size(ids), np.bool_)
    occurs[ids] = True
    return np.asarray((np.cumsum(occurs) - 1)[ids], dtype=np.int64)


def joint(*columns: Ints) -> Ints:
    """One dense id [N] per distinct combination of the columns' non-negative ids, in the order of the columns."""
    key = columns[0]
    for column in columns[1:]:
        key = _paired(key, column)
    return dense(key)


def count(ids: Ints, size: int, where: Bools | None = None) -> Ints:
    """Number of entries per id [size], of those marked by `where` when it is given."""
    return np.bincount(ids if where is None else ids[where], minlength=size).astype(np.int64)


def several(ids: Ints, members: Ints, size: int) -> Bools:
    """Whether two or more distinct members [N] meet under each id [size]."""
    first = np.zeros(size, np.int64)
    first[ids] = members
    return count(ids, size, members != first[ids]) > 0


def first_index(ids: Ints) -> Ints:
    """Position of the first entry of every non-negative id that occurs, in ascending order of the ids."""
    if not _fits(_size(ids), len(ids)):
        return np.unique(ids, return_index=True)[1].astype(np.int64)
    first = np.full(_size(ids), -1, np.int64)
    first[ids[::-1]] = np.arange(len(ids) - 1, -1, -1)  # the last assignment wins: the first entry of each id
    return first[first >= 0]


def _paired(key: Ints, column: Ints) -> Ints:
    """One id [N] per combination of two ids, not dense, in the order of key and then column.

    Every key gets only as much room as the values that it meets lie apart: a text rarely occurs in two task groups.
    """
    if _fits(_size(key) * _size(column), len(key)):
        return key * _size(column) + column
    key = dense(key)
    low, high = np.full(_size(key), _size(column)), np.zeros(_size(key), np.int64)
    np.minimum.at(low, key, column)
    np.maximum.at(high, key, column)
    room = high - low + 1
    return np.asarray((np.cumsum(room) - room - low)[key] + column, dtype=np.int64)


def _fits(cells: int, entries: int) -> bool:
    return cells <= ROOM * entries


def _size(ids: Ints) -> int:
    return int(ids.max(initial=-1)) + 1
