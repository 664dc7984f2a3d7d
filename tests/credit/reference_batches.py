"""Golden batches as rollouts: numbers made by running the published implementations."""

from __future__ import annotations

import json
import lzma
from typing import Any

import numpy as np
from conftest import data_path

from creditlab.rollouts import Group, Rows, Trajectory
from creditlab.testing import move, rows_of, siblings, walk

TOLERANCE = 1e-8


def load() -> list[dict[str, Any]]:
    """All 57 batches, small then medium."""
    batches = []
    for size in ("small", "medium"):
        with lzma.open(data_path("reference_credit", f"{size}.jsonl.xz"), "rt", encoding="utf-8") as file:
            batches += [json.loads(line) for line in file]
    return batches


def rows_from(batch: dict[str, Any]) -> Rows:
    """Columns of a golden batch, in its own order: group, trajectory, turn."""
    return rows_of(*(_group(g, index) for index, g in enumerate(batch["groups"])))


def assert_equal(actual: np.ndarray, expected: list[float], what: str) -> None:
    """|a − e| ≤ 1e-8 · max(1, |e|), with the worst row in the message."""
    wanted = np.array(expected, dtype=np.float64)
    error = np.abs(actual - wanted) / np.maximum(1, np.abs(wanted))
    worst = int(error.argmax())
    assert error[worst] <= TOLERANCE, f"{what}, row {worst}: got {actual[worst]}, expected {wanted[worst]}"


def _group(group: dict[str, Any], index: int) -> Group:
    return siblings(f"{index}:{group['task']}", *(_trajectory(t) for t in group["trajectories"]))


def _trajectory(record: dict[str, Any]) -> Trajectory:
    steps = record["steps"]
    moves = [move(s["state"], s["action"], reward=s["reward"], valid=s["valid"]) for s in steps]
    end = steps[-1]["next_state"]
    return walk(*moves, end=end, success=record["success"], score=record["terminal_score"], slot=record["slot"])
