"""The plan of an update: which decisions form an optimizer step, and how a rank cuts its share into micro-batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from creditlab.learner.distributed import gather, largest, rank

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class StepPlan:
    """One optimizer step: this rank's micro-batches, and how many every rank runs (the rest are empty)."""

    micro_batches: tuple[Rows, ...]
    calls: int


def link(rows: int, pairs: Sequence[Rows]) -> list[Rows]:
    """Units of rows that must stay together: connected components of the pairs, single rows else, by first row."""
    parent = list(range(rows))

    def find(row: int) -> int:
        while parent[row] != row:
            parent[row] = parent[parent[row]]
            row = parent[row]
        return row

    for group in pairs:
        for first, second in group:
            a, b = find(int(first)), find(int(second))
            parent[max(a, b)] = min(a, b)
    members: dict[int, list[int]] = {}
    for row in range(rows):
        members.setdefault(find(row), []).append(row)
    return [np.array(m, np.int64) for m in members.values()]


def plan_steps(
    keys: NDArray[np.int64],
    lengths: NDArray[np.int64],
    pairs: Sequence[Rows],
    *,
    steps: int | None,
    mini_batch: int,
    micro_batch: int,
    seed: int,
) -> list[StepPlan]:
    """Optimizer steps of one pass over this rank's rows [N].

    Rows are shuffled by their keys and the seed over all ranks together, so that the steps hold the same decisions on any
    number of ranks. `steps` fixes their number; without it a step takes about `mini_batch` rows over all ranks. Within a
    step, neighbours of like length share a micro-batch, and linked rows always do.
    """
    units = link(len(keys), pairs)
    order = _shuffled(np.array([keys[unit].min() for unit in units], np.int64), seed)
    sizes = np.array([len(unit) for unit in units], np.int64)
    assigned = _assign(order, sizes, steps, mini_batch)
    plans = []
    for step in range(assigned.count):
        chosen = [units[i] for i in np.flatnonzero(assigned.step == step)]
        micro = _cut(chosen, lengths, micro_batch)
        plans.append(StepPlan(micro, calls=int(largest(len(micro)))))
    return plans


@dataclass(frozen=True)
class _Assignment:
    step: NDArray[np.int64]
    count: int


def _shuffled(keys: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A pseudo-random order number per key, a function of key and seed alone (splitmix64)."""
    with np.errstate(over="ignore"):
        x = keys.astype(np.uint64) + np.uint64(seed % 2**63) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return ((x ^ (x >> np.uint64(31))) >> np.uint64(1)).astype(np.int64)


def _assign(order: NDArray[np.int64], sizes: NDArray[np.int64], steps: int | None, mini_batch: int) -> _Assignment:
    """Cuts the units of all ranks, in shuffled order, into steps of like numbers of rows."""
    orders = gather(order)
    all_order, all_sizes = np.concatenate(orders), np.concatenate(gather(sizes))
    rows = int(all_sizes.sum())
    count = max(1, min(steps or round(rows / mini_batch), max(1, len(all_sizes))))
    position = np.argsort(all_order, kind="stable")
    middle = np.cumsum(all_sizes[position]) - all_sizes[position] / 2
    step_of = np.empty(len(position), np.int64)
    step_of[position] = np.minimum((middle * count / max(rows, 1)).astype(np.int64), count - 1)
    start = sum(len(part) for part in orders[: rank()])
    return _Assignment(step_of[start : start + len(order)], count)


def _cut(units: list[Rows], lengths: NDArray[np.int64], micro_batch: int) -> tuple[Rows, ...]:
    """Micro-batches of at most `micro_batch` rows (a longer unit stands alone), units sorted by length."""
    ordered = sorted(units, key=lambda unit: (int(lengths[unit].max()), int(unit[0])))
    batches: list[list[Rows]] = []
    size = 0
    for unit in ordered:
        if not batches or size + len(unit) > micro_batch:
            batches.append([])
            size = 0
        batches[-1].append(unit)
        size += len(unit)
    return tuple(np.concatenate(batch) for batch in batches)
