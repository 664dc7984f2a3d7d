"""What makes two runs a pair, and the reason where they are none."""

from __future__ import annotations

from typing import Any

import pytest

from creditlab.analysis.curves import Curve
from creditlab.analysis.pairing import by_seed, check_pair, pair


def curve(seed: int = 0, **changes: Any) -> Curve:
    facts: dict[str, Any] = {"updates": (0, 5, 10), "values": (1.0, 2.0, 3.0)}
    facts |= {"panel": "a" * 64, "warm_start": "b" * 16, "task_order": f"{seed}c"}
    return Curve("mcgpo", "alfworld", seed, **(facts | changes))


def test_the_same_start_tasks_panel_and_schedule_are_a_pair() -> None:
    assert check_pair(curve(), curve(values=(9.0, 9.0, 9.0))) == ()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"panel": "d" * 64}, "other evaluation panels: aaaaaaaaaaaa and dddddddddddd"),
        ({"warm_start": "d" * 16}, "other warm starts: bbbbbbbbbbbb and dddddddddddd"),
        ({"task_order": "x"}, "other orders of training tasks: 0c and x"),
        (
            {"updates": (0, 5), "values": (1.0, 2.0)},
            "other schedules: 3 evaluations up to update 10 and 2 up to 5, update 10 on one side only",
        ),
        (
            {"updates": (0, 6, 10)},
            "other schedules: 3 evaluations up to update 10 and 3 up to 10, update 5 on one side only",
        ),
    ],
)
def test_each_reason_is_named(changes: dict[str, Any], reason: str) -> None:
    assert check_pair(curve(), curve(**changes)) == (reason,)


def test_other_seeds_and_settings_are_no_pair() -> None:
    assert check_pair(curve(0), curve(1, task_order="0c")) == ("other seeds: 0 and 1",)
    other = Curve("mcgpo", "webshop", 0, (0, 5, 10), (1.0, 2.0, 3.0))
    assert check_pair(curve(), other) == ("other settings: alfworld and webshop",)


def test_a_schedule_can_be_left_out_of_account() -> None:
    assert check_pair(curve(), curve(updates=(0, 6, 10)), schedule=False) == ()


def test_every_seed_is_paired_missing_or_broken() -> None:
    entry = {0: curve(0), 1: curve(1, panel="d" * 64, warm_start="e"), 2: curve(2), 4: curve(4, panel="d" * 64)}
    baseline = {0: curve(0), 1: curve(1), 3: curve(3), 4: curve(4)}
    found = pair(entry, baseline, ("mcgpo", "grpo"))
    assert found.seeds == (0,)
    assert found.missing == {2: "grpo", 3: "mcgpo"}
    assert sorted(found.broken) == [1, 4]
    assert not found.complete
    assert found.unknown == ()
    assert found.reasons() == [
        "seed 1: other evaluation panels: dddddddddddd and aaaaaaaaaaaa; other warm starts: e and bbbbbbbbbbbb",
        "seed 2: grpo has no run",
        "seed 3: mcgpo has no run",
        "seed 4: other evaluation panels: dddddddddddd and aaaaaaaaaaaa",
    ]


def test_what_nobody_recorded_is_not_held_against_runs_but_said() -> None:
    found = pair({0: curve(panel=None)}, {0: curve(task_order=None)}, ("mcgpo", "grpo"))
    assert found.complete
    assert found.unknown == ("evaluation panels", "orders of training tasks")


def test_no_common_seed_is_no_pair() -> None:
    found = pair({0: curve(0)}, {}, ("mcgpo", "grpo"))
    assert found.seeds == ()
    assert found.reasons() == ["seed 0: grpo has no run"]


def test_seeds_with_one_reason_stand_together() -> None:
    assert by_seed({3: "late", 1: "gone", 2: "late"}) == ["seed 1: gone", "seeds 2, 3: late"]
