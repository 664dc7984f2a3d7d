"""The plan of an update: every decision once, linked ones together, the same whatever the order of the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from creditlab.learner.batching import StepPlan, link, plan_steps

OPTIONS: dict[str, Any] = {"steps": None, "mini_batch": 8, "micro_batch": 4, "seed": 0}


def keys_of(count: int, seed: int = 0) -> NDArray[np.int64]:
    return np.random.default_rng(seed).choice(10**12, count, replace=False).astype(np.int64)


def plan(count: int, pairs: Any = (), lengths: Any = None, keys: Any = None, **options: Any) -> list[StepPlan]:
    lengths = np.ones(count, np.int64) if lengths is None else lengths
    keys = keys_of(count) if keys is None else keys
    linked = [np.array(pairs, np.int64).reshape(-1, 2)]
    return plan_steps(keys, lengths, linked, **{**OPTIONS, **options})


def members(steps: list[StepPlan]) -> list[list[int]]:
    return [sorted(int(r) for micro in step.micro_batches for r in micro) for step in steps]


@pytest.mark.parametrize(("count", "mini_batch", "expected"), [(64, 8, 8), (64, 64, 1), (60, 8, 8), (3, 8, 1), (100, 33, 3)])
def test_mini_batches_give_the_number_of_steps(count: int, mini_batch: int, expected: int) -> None:
    steps = plan(count, mini_batch=mini_batch)
    assert len(steps) == expected
    sizes = [len(step) for step in members(steps)]
    assert max(sizes) - min(sizes) <= 1
    assert sum(sizes) == count


@pytest.mark.parametrize("count", [7, 40, 333])
def test_a_fixed_number_of_steps_holds_whatever_the_number_of_turns(count: int) -> None:
    assert len(plan(count, steps=4)) == 4


def test_there_are_never_more_steps_than_decisions() -> None:
    assert members(plan(2, steps=5)) in ([[0], [1]], [[1], [0]])


def test_without_decisions_there_is_nothing_to_run() -> None:
    assert [step.calls for step in plan(0)] == [0]


@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), st.integers(0, 2**40), st.data())
@settings(max_examples=60, deadline=None)
def test_every_decision_occurs_once_and_pairs_stay_together(
    count: int, mini_batch: int, micro_batch: int, seed: int, data: st.DataObject
) -> None:
    row = st.integers(0, count - 1)
    pairs = data.draw(st.lists(st.tuples(row, row).filter(lambda p: p[0] != p[1]), max_size=count // 2) if count > 1
                      else st.just([]))  # fmt: skip
    lengths = np.array(data.draw(st.lists(st.integers(1, 50), min_size=count, max_size=count)))
    steps = plan(count, pairs, lengths, mini_batch=mini_batch, micro_batch=micro_batch, seed=seed)
    assert sorted(r for step in members(steps) for r in step) == list(range(count))
    home = {int(r): (s, b) for s, step in enumerate(steps) for b, micro in enumerate(step.micro_batches) for r in micro}
    for first, second in pairs:
        assert home[first] == home[second]
    largest_unit = max(len(unit) for unit in link(count, [np.array(pairs, np.int64).reshape(-1, 2)]))
    for step in steps:
        assert step.calls == len(step.micro_batches)
        assert all(len(micro) <= max(micro_batch, largest_unit) for micro in step.micro_batches)


@given(st.integers(0, 2**40), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_the_order_of_the_rows_changes_neither_steps_nor_pairs(order_seed: int, seed: int) -> None:
    count, pairs = 30, [(0, 5), (7, 8), (2, 29)]
    keys = keys_of(count)
    order = np.random.default_rng(order_seed).permutation(count)
    place = np.argsort(order)  # where each row went
    before = plan(count, pairs, keys=keys, seed=seed)
    after = plan(count, [(place[a], place[b]) for a, b in pairs], keys=keys[order], seed=seed)
    assert [sorted(keys[rows].tolist()) for rows in members(before)] == [
        sorted(keys[order][rows].tolist()) for rows in members(after)
    ]


def test_another_seed_makes_other_steps() -> None:
    assert members(plan(40, seed=1)) != members(plan(40, seed=2))
    assert members(plan(40, seed=1)) == members(plan(40, seed=1))


def test_steps_are_mixed_and_not_stretches_of_the_batch() -> None:
    first = members(plan(400, steps=2, seed=3))[0]
    assert 60 < sum(row < 200 for row in first) < 140  # hypergeometric, mean 100, deviation 5


def test_rows_of_like_length_share_a_micro_batch() -> None:
    lengths = np.array([9, 1, 8, 2, 7, 3, 6, 4])
    [step] = plan(8, lengths=lengths, mini_batch=8, micro_batch=2)
    assert [sorted(lengths[micro].tolist()) for micro in step.micro_batches] == [[1, 2], [3, 4], [6, 7], [8, 9]]


def test_links_are_connected_components() -> None:
    units = link(7, [np.array([[0, 3], [3, 5]]), np.array([[1, 6]])])
    assert [unit.tolist() for unit in units] == [[0, 3, 5], [1, 6], [2], [4]]
