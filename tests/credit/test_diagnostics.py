"""The counts that a method reports beside the shares: trained decisions, in all and by the size of their group."""

from __future__ import annotations

import numpy as np
import pytest
from every_method import method, names

from creditlab.credit.diagnostics import credit_diagnostics
from creditlab.rollouts import Rows
from creditlab.testing import move, random_groups, rows_of, siblings, walk
from creditlab.testing.conformance import featured
from creditlab.tracking import metrics as m

PREFIX = "group_sizes/"


def decisions(count: int, *, untrained: int = 0) -> Rows:
    """One trajectory with so many decisions, the last `untrained` of them without tokens to be trained on."""
    return rows_of(siblings("one", walk(*(move("A", "go", trainable=at < count - untrained) for at in range(count)))))


def by_size(rows: Rows, sizes: list[int]) -> dict[str, float]:
    found = credit_diagnostics(rows, np.zeros(len(rows)), np.array(sizes))
    return {name.removeprefix(PREFIX): value for name, value in found.items() if name.startswith(PREFIX)}


def test_decisions_are_counted_by_the_size_of_their_group() -> None:
    sizes = [0, 1, 1, 2, 3, 4, 4, 5, 8, 9, 16, 16, 17, 400]  # both ends of every class
    assert by_size(decisions(14), sizes) == {"1": 3, "2": 1, "3_4": 3, "5_8": 2, "9_16": 3, "17_up": 2}


def test_decisions_without_trained_tokens_are_not_counted() -> None:
    rows = decisions(3, untrained=1)
    assert by_size(rows, [2, 2, 1]) == {"1": 0, "2": 2, "3_4": 0, "5_8": 0, "9_16": 0, "17_up": 0}
    assert credit_diagnostics(rows, np.zeros(3), np.array([2, 2, 1]))["trained_decisions"] == 2


@pytest.mark.parametrize("name", names())
def test_the_counts_of_every_method_add_up_to_its_decisions(name: str) -> None:
    rows = rows_of(*featured(lambda: method(name), random_groups(np.random.default_rng(0))))
    found = method(name)(rows).diagnostics
    counts = {key: value for key, value in found.items() if key.startswith(PREFIX)}
    assert sum(counts.values()) == found["trained_decisions"] == rows.trainable.sum()
    assert counts[f"{PREFIX}1"] / found["trained_decisions"] == found["singleton_rate"]
    assert all(type(value) is int for value in (*counts.values(), found["trained_decisions"]))  # added up over ranks


def test_every_diagnostic_has_a_documented_name() -> None:
    found = credit_diagnostics(decisions(1), np.zeros(1), np.array([1]))
    assert {m.CREDIT_PREFIX + name for name in found} == {name for name in m.METRICS if name.startswith(m.CREDIT_PREFIX)}
