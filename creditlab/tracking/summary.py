"""What the evaluations of a run say in a few numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from creditlab.tracking.jsonl import STEP
from creditlab.tracking.metrics import VAL_SUCCESS, VAL_SUCCESS_SE


def evaluations(records: Sequence[Mapping[str, float]]) -> list[tuple[int, float, float]]:
    """Step, held-out success rate and its standard error (0 where absent) of every evaluation, in order."""
    return [(int(r[STEP]), r[VAL_SUCCESS], r.get(VAL_SUCCESS_SE, 0.0)) for r in records if VAL_SUCCESS in r]


def summarise(records: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Warm start, mean of the last three evaluations after it, gain (their difference) and best, as shares in [0, 1].

    Keys whose evaluations are missing are left out: `warm_start` needs one at step 0, `last_three`, `final` and `best` need
    one after it, `gain` needs both.
    """
    curve = evaluations(records)
    warm = [success for step, success, _ in curve if step == 0]
    trained = [(step, success) for step, success, _ in curve if step > 0]
    result: dict[str, float] = {"evaluations": float(len(curve))}
    if warm:
        result["warm_start"] = warm[0]
    if trained:
        tail = [success for _, success in trained[-3:]]
        best = max(trained, key=lambda point: point[1])
        result |= {"final": tail[-1], "last_three": sum(tail) / len(tail), "best": best[1], "best_step": float(best[0])}
    if warm and trained:
        result["gain"] = result["last_three"] - result["warm_start"]
    return result
