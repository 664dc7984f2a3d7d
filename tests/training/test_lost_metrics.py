"""Metrics that were lost after their checkpoint was written are made again, or what is lost is said; never passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from past_runs import events, model_bytes, records, run_of_four_updates, store_of, without_figures
from test_command_line import TINY

from creditlab import compare
from creditlab.config import Job
from creditlab.registry import ConfigError
from creditlab.training.session import train


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run_of_four_updates(tmp_path_factory.mktemp("undisturbed"))


def resumed(job: Job, resume: Any) -> Job:
    return replace(job, settings=replace(job.settings, resume=resume))


def spoil(folder: Path, change: Callable[[list[bytes]], object]) -> None:
    """Changes the lines of a run's metrics."""
    path = folder / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    change(lines)
    path.write_bytes(b"".join(lines))


def tear(lines: list[bytes]) -> None:
    lines[-1] = lines[-1][:-200]


def drop_third(lines: list[bytes]) -> None:
    del lines[3]


def forget_evaluation(lines: list[bytes]) -> None:
    record = json.loads(lines[-1])
    lines[-1] = json.dumps({k: v for k, v in record.items() if not k.startswith("val/")}).encode() + b"\n"


def tear_and_drop(lines: list[bytes]) -> None:
    tear(lines)
    drop_third(lines)


LOST: dict[str, tuple[Callable[[list[bytes]], None], str]] = {
    "torn": (tear, "update 4"),
    "dropped": (drop_third, "update 3"),
    "evaluation": (forget_evaluation, "the evaluation after update 4"),
    "both": (tear_and_drop, "update 3 and 1 more"),
}


@pytest.mark.parametrize("case", LOST)
def test_what_is_lost_of_a_finished_run_is_made_again(case: str, undisturbed: Job, tmp_path: Path) -> None:
    change, lost = LOST[case]
    job = run_of_four_updates(tmp_path)
    spoil(job.folder, change)
    assert train(resumed(job, "auto")) == 0
    assert records(job) == records(undisturbed)
    assert model_bytes(job, 4) == model_bytes(undisturbed, 4)
    path = job.folder / "metrics.jsonl"
    assert events(job) == [f"{path} lacks {lost}; what came after update 2 is made again from its checkpoint"]


@pytest.mark.parametrize("resume", ["auto", True])
def test_without_a_checkpoint_before_the_gap_the_loss_is_told_and_nothing_done(resume: Any, tmp_path: Path) -> None:
    job = run_of_four_updates(tmp_path)
    spoil(job.folder, lambda lines: lines.pop(1))
    before = records(job)
    path = job.folder / "metrics.jsonl"
    with pytest.raises(ConfigError) as error:
        train(resumed(job, resume))
    assert str(error.value) == (
        f"{path} lacks update 1, and no checkpoint before that is left: put back a copy of the file, "
        "or remove the run folder and start the run again"
    )
    assert records(job) == before
    assert store_of(job).updates() == [2, 4]


@pytest.mark.slow
def test_a_comparison_makes_again_what_is_lost_or_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    every = [word for word in TINY if not word.startswith(("evaluation.every", "checkpoint.every"))]
    words = [
        *every,
        "evaluation.every=1",
        "checkpoint.every=1",
        "training.updates=2",
        "methods=[grpo]",
        "seeds=[0]",
        "last=1",
    ]
    words += [f"run_root={tmp_path / 'runs'}", f"records={tmp_path / 'records'}", f"warm_start.cache={tmp_path / 'cache'}"]

    def again() -> tuple[int, str]:
        for record in (tmp_path / "records").glob("*.json"):  # which would stand for the run
            record.unlink()
        code = compare.main(words)
        return code, capsys.readouterr().out

    assert again()[0] == 0
    [folder] = (tmp_path / "runs").glob("grpo-*")
    whole = (folder / "metrics.jsonl").read_bytes()
    spoil(folder, tear)
    code, told = again()
    assert code == 0
    assert "0 finished, 1 begun, 0 to do" in told
    assert (folder / "metrics.jsonl").read_bytes().count(b"\n") == 3
    (folder / "metrics.jsonl").write_bytes(whole)
    spoil(folder, lambda lines: lines.pop(0))
    code, told = again()
    assert code == 1
    [failed] = [line for line in told.splitlines() if line.startswith("failed: ")]
    assert f"{folder}/metrics.jsonl lacks update 0, and no checkpoint before that is left: put back a copy of the" in failed
    assert "or remove the run folder and start the run again; " in failed
