"""A whole run in W&B: what a refused connection leaves of it, and what a resumed session adds."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb
from corridor import quick_job
from past_runs import events, records, without_figures
from wandb_records import files, history, records_of, values, without_account

from creditlab.config import Job
from creditlab.training.session import train

KEY = "0123456789abcdef0123456789abcdef01234567"
CLOSED = "http://127.0.0.1:9"
"""Nobody listens there; the connection is refused at once."""


@pytest.fixture
def refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A key for a server that refuses every connection."""
    without_account(monkeypatch, tmp_path)
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("WANDB_BASE_URL", CLOSED)
    without_figures(monkeypatch)
    yield
    wandb.teardown()


def job_of(root: Path, *overrides: str) -> Job:
    return quick_job(root, "tracking.wandb=auto", "tracking.wandb_timeout=2.0", "evaluation.every=2", *overrides)


def test_a_refused_run_and_its_resumption_lose_no_step(
    tmp_path: Path, refused: None, capfd: pytest.CaptureFixture[str]
) -> None:
    started = time.monotonic()
    job = job_of(tmp_path, "training.updates=3")
    assert train(job) == 0
    seconds = time.monotonic() - started
    assert train(job_of(tmp_path, "training.updates=5", "resume=true")) == 0
    told = [message for message in events(job) if "W&B" in message]
    assert len(told) == 2, "one event a sitting"
    assert all(message.startswith("W&B cannot start online: ") for message in told)
    assert seconds < 120

    first, second = files(job.folder)
    logged = {line["step"]: {k: v for k, v in line.items() if k != "step"} for line in lines(job)}
    assert list(logged) == [0, 1, 2, 3, 4, 5]
    rows = [*history(first), *history(second)]
    assert [row["_step"] for row in rows] == [0, 1, 2, 3, 4, 5], "one row a step, in order"
    assert {row.pop("_step"): row for row in rows} == logged
    assert "val/success_rate" in logged[2], "an evaluation joins the row of its step"

    ids = {r.run.run_id for file in (first, second) for r in records_of(file) if r.HasField("run")}
    assert ids == {(job.folder / "wandb" / "run-id").read_text()}
    config = next(values(r.run.config.update) for r in records_of(first) if r.HasField("run"))
    kept = json.loads((job.folder / "config.json").read_text())
    assert {key: config[key] for key in ("method", "env", "evaluation")} == {
        key: kept[key] for key in ("method", "env", "evaluation")
    }
    assert config["manifest"]["panel"] == json.loads((job.folder / "manifest.json").read_text())["panel"]
    summary: dict[str, object] = {}
    for record in records_of(second):
        if record.HasField("summary"):
            summary |= values(record.summary.update)
    assert summary["status"] == "finished"
    assert summary["curve/final"] == records(job)[-1]["val/success_rate"]

    shown = capfd.readouterr()
    assert KEY not in shown.out + shown.err
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert len(contents) > 10
    assert not [content for content in contents if KEY.encode() in content]
    assert os.environ["WANDB_API_KEY"] == KEY


def lines(job: Job) -> list[dict[str, float]]:
    """metrics.jsonl, with every clock."""
    return [json.loads(line) for line in (job.folder / "metrics.jsonl").read_text().splitlines()]
