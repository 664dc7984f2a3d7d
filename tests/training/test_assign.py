"""What a credit component answers is checked, and what it raises is told under its name."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from creditlab.cli import compose_job
from creditlab.hookspecs import Credit, LossView, Rows
from creditlab.learner.sequences import Scored
from creditlab.rollouts import RolloutBatch
from creditlab.testing import random_groups
from creditlab.training.assign import assign, own_part
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


def test_what_is_raised_within_a_plug_in_comes_with_its_file_and_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The innermost line that is the plug-in's own: below it is a library, which did as it was told."""
    path = tmp_path / "their_method.py"
    path.write_text(
        "import json\n\n\ndef helper(rows):\n    return json.loads('[')\n\n\ndef do(rows):\n    return helper(rows)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    theirs = importlib.import_module("their_method")
    their_class = dataclass(frozen=True)(type("Theirs", (Bad,), {"__module__": "their_method"}))
    batch = RolloutBatch(tuple(random_groups(np.random.default_rng(0))), update=3, seed=0)
    with pytest.raises(TrainingFailedError) as found:
        assign(replace(compose_job(["method=grpo"]), method=their_class(theirs.do)), batch)
    assert str(found.value).startswith("method=bad failed in update 3: ")
    assert str(found.value).endswith(f" ({path}, line 5)")


def test_an_answer_that_is_wrong_is_no_fault_of_a_line() -> None:
    batch = RolloutBatch(tuple(random_groups(np.random.default_rng(0))), update=3, seed=0)
    with pytest.raises(TrainingFailedError, match=r"instead of a Credit$"):
        assign(replace(compose_job(["method=grpo"]), method=Bad(lambda rows: None)), batch)


def test_a_list_of_numbers_becomes_a_column() -> None:
    batch = RolloutBatch(tuple(random_groups(np.random.default_rng(0))), update=3, seed=0)
    job = replace(compose_job(["method=grpo"]), method=Bad(lambda rows: Credit([1] * len(rows))))  # type: ignore[arg-type]
    rows, credit = assign(job, batch)
    assert credit.advantages.dtype == np.float64
    assert credit.advantages.tolist() == [1.0] * len(rows)


@dataclass(frozen=True)
class Paired:
    """An auxiliary loss over pairs of rows, whose value is the sum of the row numbers it is shown."""

    pairs: np.ndarray[Any, Any]
    name: str = "paired"
    weight: float = 0.5

    def __call__(self, view: LossView) -> torch.Tensor:
        return torch.tensor(float(view.rows.sum() + view.step_rows))


def test_a_rank_keeps_the_credit_of_its_own_groups_among_those_of_all() -> None:
    """Groups 1 and 3 of four: rows, pairs and what a loss is shown are renumbered; the rest of the credit stays behind."""
    groups = tuple(random_groups(np.random.default_rng(0), groups=4, slots=3))
    whole = Rows.from_groups(groups)
    of = [np.flatnonzero(whole.group == i) for i in range(4)]
    shaped = whole.with_rewards(np.arange(len(whole), dtype=np.float64))
    pairs = np.array([[of[1][0], of[3][1]], [of[0][0], of[3][0]], [of[3][0], of[1][1]]])
    credit = Credit(np.arange(len(whole)) * 2.0, (Paired(pairs),), {"count": 7})
    rows, own = own_part(shaped, credit, RolloutBatch((groups[1], groups[3]), update=3, seed=0))
    mine = np.concatenate([of[1], of[3]])
    assert rows.group_names == (groups[1].id, groups[3].id)
    assert rows.reward.tolist() == mine.tolist()
    assert own.advantages.tolist() == (mine * 2.0).tolist()
    [loss] = own.auxiliary
    second = len(of[1])
    assert loss.pairs.tolist() == [[0, second + 1], [second, 1]]
    assert (loss.name, loss.weight) == ("paired", 0.5)
    empty = torch.zeros(2, 1)
    shown = Scored(np.array([0, second]), empty, empty, empty.bool(), step_rows=100)
    assert float(loss(shown)) == of[1][0] + of[3][0] + 100
    assert own.diagnostics == {"count": 7}  # the first rank's, which this process is
