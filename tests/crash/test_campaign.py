"""A short crash campaign; `make crash` runs the long one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from campaign import ANY, FIRST, UNFINISHED, WITHIN, Kill, Report, campaign, check_kills, choose, differences, plan


@pytest.mark.slow
def test_three_kills_leave_no_trace(tmp_path: Path) -> None:
    report = campaign(tmp_path, kills=3, updates=2, seed=1)
    assert report.faults == []
    assert [kill.planned for kill in report.kills] == list(FIRST)
    assert report.resumed == [kill.whole for kill in report.kills]
    # the comparison notices what it is there for
    [run] = (tmp_path / "killed" / "runs").iterdir()
    weights = run / "checkpoints" / "update-000002" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x00\x01")
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join([lines[0], lines[1], lines[1], lines[2]]))
    (run / "rollouts" / ".update-000002.parquet.7.tmp").touch()
    found = differences(tmp_path / "undisturbed", tmp_path / "killed", 2)
    assert "checkpoints/update-000002/model/model.safetensors differs" in found
    assert "metrics.jsonl has the steps [0, 1, 1, 2]" in found
    assert any(fault.startswith("left lying about: ") for fault in found)


def test_the_plan_covers_every_part_and_stays_within_the_run() -> None:
    rng = np.random.default_rng(0)
    planned = plan(22, rng)
    assert len(planned) == 22
    assert set(planned) == {*FIRST, *WITHIN, ANY}
    for part in planned:
        for whole in range(-1, 12):
            struck, skip = choose(part, whole, 12, rng)
            assert whole < 10 or (struck in UNFINISHED and skip == 0)


def test_a_restart_from_elsewhere_and_a_missing_part_are_faults() -> None:
    kills = [Kill("checkpoint", "checkpoint", 3, whole=2)] * 20
    report = Report(kills, resumed=[2] * 19 + [1])
    check_kills(report)
    assert report.faults[0] == "after kill 20 the run went on from 1, the last whole checkpoint is 2"
    assert [fault.partition(";")[0] for fault in report.faults[1:]] == [
        f"no kill hit {part}" for part in ("warm start", "evaluation", "learner", "rollout store")
    ]
