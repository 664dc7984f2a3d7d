"""What a credit component answers is checked, and what it raises is told under its name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pytest

from creditlab.cli import compose_job
from creditlab.hookspecs import Credit, Rows
from creditlab.rollouts import RolloutBatch
from creditlab.testing import random_groups
from creditlab.training.assign import assign
from creditlab.training.failure import TrainingFailedError


@dataclass(frozen=True)
class Bad:
    """A method that does what the test says."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "bad"
    do: Callable[[Rows], Any] = len

    def __call__(self, rows: Rows) -> Any:
        return self.do(rows)


def exits(rows: Rows) -> Any:
    raise SystemExit(0)


def writes(rows: Rows) -> Any:
    rows.reward[:] = 5.0


@pytest.mark.parametrize(
    ("do", "said"),
    [
        (lambda rows: None, "TypeError: it returned NoneType instead of a Credit"),
        (lambda rows: np.zeros(len(rows)), "TypeError: it returned ndarray instead of a Credit"),
        (lambda rows: {}["x"], "KeyError: 'x'"),
        (exits, "SystemExit: 0"),
        (writes, "assignment destination is read-only"),
        (lambda rows: Credit(np.zeros(len(rows) - 1)), "expected one advantage per decision: .* rows, got shape"),
        (lambda rows: Credit(np.full(len(rows), "a")), "advantages must be real numbers, got an array of <U1"),
        (lambda rows: Credit(np.zeros(len(rows), complex)), "advantages must be real numbers, got an array of complex128"),
        (lambda rows: Credit(np.full(len(rows), np.nan)), "advantage is nan at group 'g0', trajectory .*, turn 0; it must"),
        (lambda rows: Credit(np.full(len(rows), 1e300)), "advantage is 1e.300 at group 'g0', trajectory .*, turn 0; it must"),
    ],
)
def test_a_faulty_method_is_named(do: Callable[[Rows], Any], said: str) -> None:
    batch = RolloutBatch(tuple(random_groups(np.random.default_rng(0))), update=3, seed=0)
    with pytest.raises(TrainingFailedError, match=f"method=bad failed in update 3: {said}"):
        assign(replace(compose_job(["method=grpo"]), method=Bad(do)), batch)


def test_a_list_of_numbers_becomes_a_column() -> None:
    batch = RolloutBatch(tuple(random_groups(np.random.default_rng(0))), update=3, seed=0)
    job = replace(compose_job(["method=grpo"]), method=Bad(lambda rows: Credit([1] * len(rows))))  # type: ignore[arg-type]
    rows, credit = assign(job, batch)
    assert credit.advantages.dtype == np.float64
    assert credit.advantages.tolist() == [1.0] * len(rows)
