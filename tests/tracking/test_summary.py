"""The few numbers that a learning curve comes down to."""

from __future__ import annotations

import pytest

from creditlab.tracking import metrics as names
from creditlab.tracking.summary import summarise


def test_summary_by_hand() -> None:
    """Warm start .36; the last three of .50 .70 .62 .66 are .66 on average, 30 points above; update 20 was best."""
    records = [{"step": 0, "val/success_rate": 0.36}, {"step": 1, "actor/lr": 1.0}]
    records += [{"step": s, "val/success_rate": v} for s, v in ((10, 0.5), (20, 0.7), (30, 0.62), (40, 0.66))]
    assert summarise(records) == pytest.approx(
        {
            "evaluations": 5,
            "warm_start": 0.36,
            "final": 0.66,
            "last_three": 0.66,
            "best": 0.7,
            "best_step": 20,
            "gain": 0.3,
        }
    )


def test_what_was_not_evaluated_is_left_out() -> None:
    assert summarise([]) == {"evaluations": 0}
    assert summarise([{"step": 0, "val/success_rate": 0.5}]) == {"evaluations": 1, "warm_start": 0.5}
    late = summarise([{"step": 5, "val/success_rate": 0.5}])
    assert late == {"evaluations": 1, "final": 0.5, "last_three": 0.5, "best": 0.5, "best_step": 5}


def test_every_metric_has_a_name_and_one_meaning() -> None:
    constants = {value for name, value in vars(names).items() if name.isupper() and isinstance(value, str) and "/" in value}
    assert constants - {names.CREDIT_PREFIX} == set(names.METRICS)
    assert all(meaning and not meaning.endswith(".") for meaning in names.METRICS.values())
    assert names.family_success("pick_and_place") == "val/pick_and_place/success_rate"
