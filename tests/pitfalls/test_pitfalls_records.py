"""A run can be traced and its credit repeated: what the manifest records, and what a stored batch gives."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

from creditlab.cli import compose_job
from creditlab.environments.protocol import Panel
from creditlab.registry import registry
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.rollouts.store import load, load_advantages, save
from creditlab.testing import random_groups
from creditlab.training.manifest import manifest
from creditlab.training.seeds import derive

PANEL = Panel("held-out", (), (), "abc123")
"""A panel of which only name and hash matter here."""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("method=grpo", {"moments": "trajectory", "penalty": "row_local", "singleton": "zero"}),
        ("method=grpo convention=reference", {"moments": "row", "penalty": "row_local", "singleton": "raw"}),
        ("method=grpo convention=paper method.moments=row",
         {"moments": "row", "penalty": "trajectory_sum", "singleton": "zero"}),
        ("method=mcgpo convention=paper",
         {"task.moments": "trajectory", "task.penalty": "trajectory_sum", "task.singleton": "zero",
          "task.exponent": "paper"}),
    ],
)  # fmt: skip
def test_the_manifest_says_which_conventions_were_used(line: str, expected: dict[str, str]) -> None:
    assert manifest(compose_job(line.split()), PANEL, {}, {})["conventions"] == expected


def test_the_manifest_names_versions_panel_and_environment() -> None:
    facts = manifest(compose_job([]), PANEL, {"engine": "fast"}, {"hash": "w"})
    assert facts["packages"]["numpy"] == version("numpy")
    assert {"torch", "transformers", "deepspeed", "alfworld", "textworld"} <= facts["packages"].keys()
    assert facts["panel"] == {"name": "held-out", "episodes": 0, "hash": "abc123"}
    assert facts["environment"] == {"engine": "fast"}


@pytest.mark.parametrize("name", ["grpo", "graphgpo", "mcgpo"])
def test_a_stored_batch_gives_the_credit_of_the_run(name: str, tmp_path: Path) -> None:
    method = registry().create("method", name)
    batch = RolloutBatch(random_groups(derive("stored"), errors=0.2), update=4, seed=0)
    live = method(Rows.from_batch(batch))
    path = save(batch, tmp_path / "update-000004.parquet", advantages=live.advantages)
    again = method(Rows.from_batch(load(path)))
    np.testing.assert_array_equal(again.advantages, live.advantages)
    np.testing.assert_array_equal(load_advantages(path), live.advantages)
    assert again.diagnostics == live.diagnostics
    assert [loss.pairs.tolist() for loss in again.auxiliary] == [loss.pairs.tolist() for loss in live.auxiliary]
    assert np.any(live.advantages)
