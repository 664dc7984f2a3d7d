"""The rollouts of one update from several ranks, put together as one rank would have had them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from creditlab.rollouts.records import RolloutBatch
from creditlab.rollouts.rows import Rows
from creditlab.rollouts.store import RolloutStore, load, load_advantages, load_metadata

RANKS = "ranks"
"""Key of a file's metadata: how many ranks stored a file of the same update."""
Item = TypeVar("Item")


def dealt(parts: Sequence[Sequence[Item]]) -> list[Item]:
    """The items of all ranks in their common order: they were dealt out to the ranks in turn, from the first one on."""
    absent = object()
    return [item for turn in zip_longest(*parts, fillvalue=absent) for item in turn if item is not absent]  # type: ignore[misc]


def load_update(store: RolloutStore, update: int) -> tuple[RolloutBatch, NDArray[np.float64] | None]:
    """The batch of an update from the files of all ranks, and its advantages [N] in the order of its `Rows`, if stored.

    Raises ValueError naming a file that cannot be read, and when that of a rank is missing.
    """
    paths = [path for number, path in store.files() if number == update]
    if not paths:
        raise ValueError(f"{store.folder} holds no rollouts of update {update}")
    expected = int(load_metadata(paths[0]).get(RANKS, "1"))
    if len(paths) != expected:
        raise ValueError(f"{store.folder} holds {len(paths)} files of update {update}, but {expected} ranks stored one each")
    batches, advantages = [load(path) for path in paths], [load_advantages(path) for path in paths]
    batch = RolloutBatch(
        tuple(dealt([b.groups for b in batches])), batches[0].update, batches[0].seed, batches[0].temperature
    )
    given = [values for values in advantages if values is not None]
    if len(given) < len(paths):
        return batch, None
    of_groups = dealt([_by_group(b, values) for b, values in zip(batches, given, strict=True)])
    return batch, np.concatenate([np.zeros(0), *of_groups])


def _by_group(batch: RolloutBatch, advantages: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The advantages of each group's decisions, which are neighbours in `Rows`."""
    groups = Rows.from_batch(batch).group
    return [advantages[groups == i] for i in range(len(batch.groups))]
