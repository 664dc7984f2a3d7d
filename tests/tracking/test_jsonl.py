"""metrics.jsonl: one line per step, never a gap, never a repeat, whatever interrupts the run."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from creditlab.tracking import JsonlListener, Run, Summary, Tracker
from creditlab.tracking.jsonl import read, truncate


def start(folder: Path, resumed: int | None = None) -> Tracker:
    tracker = Tracker([JsonlListener()])
    tracker.start(Run(name="demo", folder=folder, config={}, manifest={}, seed=0, updates=9, resumed=resumed))
    return tracker


def lines(folder: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


def test_evaluation_and_update_share_the_line_of_their_step(tmp_path: Path) -> None:
    """Every call leaves a complete file behind: nothing waits in memory for the next step."""
    tracker = start(tmp_path)
    tracker.evaluation(0, {"val/success_rate": 0.36})
    assert lines(tmp_path) == [{"step": 0, "val/success_rate": 0.36}]
    tracker.update(1, {"actor/lr": 1e-3})
    assert lines(tmp_path)[1:] == [{"step": 1, "actor/lr": 1e-3}]
    tracker.evaluation(1, {"val/success_rate": 0.5})
    tracker.update(2, {"actor/lr": 5e-4})
    assert lines(tmp_path) == [
        {"step": 0, "val/success_rate": 0.36},
        {"step": 1, "actor/lr": 1e-3, "val/success_rate": 0.5},
        {"step": 2, "actor/lr": 5e-4},
    ]


def test_values_survive_exactly_and_json_stays_valid(tmp_path: Path) -> None:
    tracker = start(tmp_path)
    tracker.update(1, {"third": 1 / 3, "single": np.float32(0.1), "count": 3, "lost": math.nan, "far": -math.inf})
    assert lines(tmp_path) == [
        {"step": 1, "third": 1 / 3, "single": float(np.float32(0.1)), "count": 3.0, "lost": None, "far": None}
    ]
    (record,) = read(tmp_path / "metrics.jsonl")
    assert math.isnan(record["lost"])
    assert math.isnan(record["far"])


def test_resume_leaves_neither_gap_nor_repeat(tmp_path: Path) -> None:
    """Stopped at update 4 with a checkpoint of update 2: updates 3 and 4 are made again."""
    tracker = start(tmp_path)
    for step in (1, 2, 3, 4):
        tracker.update(step, {"value": float(step)})
    tracker = start(tmp_path, resumed=2)
    assert [record["step"] for record in read(tmp_path / "metrics.jsonl")] == [1, 2]
    for step in (3, 4, 5):
        tracker.update(step, {"value": 10.0 * step})
    assert lines(tmp_path) == [{"step": s, "value": v} for s, v in ((1, 1.0), (2, 2.0), (3, 30.0), (4, 40.0), (5, 50.0))]


def test_an_evaluation_after_resume_joins_the_line_of_the_resumed_step(tmp_path: Path) -> None:
    start(tmp_path).update(1, {"value": 1.0})
    start(tmp_path, resumed=1).evaluation(1, {"val/success_rate": 0.5})
    assert lines(tmp_path) == [{"step": 1, "value": 1.0, "val/success_rate": 0.5}]


def test_a_fresh_run_starts_a_fresh_file(tmp_path: Path) -> None:
    tracker = start(tmp_path)
    tracker.update(7, {})
    tracker.event("warning", "old")
    start(tmp_path)
    assert lines(tmp_path) == []
    assert not (tmp_path / "events.jsonl").exists()


def test_a_torn_last_line_is_left_out_and_cut_on_resume(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    whole = '{"step": 1, "value": 1.0}\n{"step": 2, "value": 2.0}\n'
    for torn in ('{"step": 3, "val', "[1]", '{"value": 3}', '{"step": 3, "v{"step": 3}\n', "\x00\x00"):
        path.write_text(whole + torn)
        assert [record["step"] for record in read(path)] == [1, 2]
        truncate(path, 9)
        assert path.read_text() == whole


def test_a_broken_line_in_the_middle_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st\n{"step": 3}\n')
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: not a record"):
        read(path)


@pytest.mark.parametrize(
    "line",
    ['{"step": 2, "v": "1"}', '{"step": 2, "v": 1e999}', '{"step": 2, "v": NaN}', '{"step": 2, "v": 1, "v": 2}',
     '{"step": true}', '{"step": -1}', '{"step": 2.0}', '{"step": 2, "v": %s}' % ("9" * 400), "[" * 100_000,
     '{"step": 2, "v": []}', "\xff"],
)  # fmt: skip
def test_a_line_that_no_run_writes_is_an_error(line: str, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(f'{{"step": 1}}\n{line}\n{{"step": 3}}\n'.encode("latin-1"))
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 2: not a record"):
        read(path)


@pytest.mark.parametrize("second", [1, 0])
def test_steps_that_do_not_rise_are_an_error(second: int, tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1}}\n{{"step": {second}}}\n')
    with pytest.raises(ValueError, match=rf"metrics\.jsonl, line 2: step {second} comes after step 1; repair the file"):
        read(path)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(ValueError, match=r"metrics\.jsonl cannot be read: Is a directory"):
        read(tmp_path / "metrics.jsonl")


def test_lost_steps_are_told_of_on_resume(tmp_path: Path) -> None:
    tracker = start(tmp_path)
    for step in (0, 1, 4):
        tracker.update(step, {})
    told: list[str] = []
    tracker = Tracker([JsonlListener()])
    tracker.event = lambda kind, message: told.append(f"{kind}: {message}")  # type: ignore[method-assign]
    run = Run(name="demo", folder=tmp_path, config={}, manifest={}, seed=0, updates=9, resumed=4)
    tracker.start(run)
    path = tmp_path / "metrics.jsonl"
    assert told == [f"warning: {path} lacks 2 of the steps up to 4, the first is 2; they are lost"]


def test_what_was_left_of_a_torn_event_goes_on_resume(tmp_path: Path) -> None:
    start(tmp_path).event("warning", "whole")
    with (tmp_path / "events.jsonl").open("a") as file:
        file.write('{"kind": "warn')
    start(tmp_path, resumed=0).event("warning", "next")
    messages = [json.loads(line)["message"] for line in (tmp_path / "events.jsonl").read_text().splitlines()]
    assert messages[0] == "whole"
    assert messages[-1] == "next"


def test_truncate_keeps_the_bytes_of_earlier_lines(tmp_path: Path) -> None:
    tracker = start(tmp_path)
    for step in range(5):
        tracker.update(step, {"value": step / 3, "lost": math.nan})
    path = tmp_path / "metrics.jsonl"
    before = path.read_bytes().splitlines(keepends=True)
    truncate(path, 2)
    assert path.read_bytes() == b"".join(before[:3])
    truncate(path, -1)
    assert path.read_bytes() == b""


def test_the_key_of_the_step_is_reserved(tmp_path: Path) -> None:
    listener = JsonlListener()
    with pytest.raises(ValueError, match=r"call Tracker\.start"):
        listener.on_update(1, {})
    listener.on_start(Run(name="demo", folder=tmp_path, config={}, manifest={}, seed=0, updates=9))
    with pytest.raises(ValueError, match="a metric is named 'step'"):
        listener.on_update(1, {"step": 1.0})


def test_events_are_kept_once_the_folder_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    JsonlListener().on_event("warning", "too early")
    assert list(elsewhere.iterdir()) == []
    tracker = start(tmp_path)
    tracker.event("skipped_update", 'update 3: "nan"')
    tracker.finish(Summary("finished"))
    (line,) = (tmp_path / "events.jsonl").read_text().splitlines()
    assert json.loads(line) == {"kind": "skipped_update", "message": 'update 3: "nan"'}
