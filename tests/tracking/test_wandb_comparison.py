"""The W&B run of a comparison: a real offline run read back from its file, and W&B that fails."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb_records import files, records, records_of, values, without_account

from creditlab.tracking import TrackingConfig
from creditlab.tracking.comparison import log_comparison

ROWS: list[dict[str, Any]] = [
    {"setting": "alfworld", "entry": "grpo", "mean": 25.5, "difference": None},
    {"setting": "alfworld", "entry": "<b>mcgpo</b>", "mean": 35.3, "difference": 9.8},
]


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody's credentials or settings take part, and artifacts are kept within the test."""
    without_account(monkeypatch, tmp_path)
    monkeypatch.setenv("WANDB_DATA_DIR", str(tmp_path / "data"))
    yield
    wandb.teardown()


def log(out: Path, **section: Any) -> list[str]:
    (out / "figures").mkdir(parents=True, exist_ok=True)
    written = [out / "report.html", out / "figures" / "curves.svg"]
    for path in written:
        path.write_text(f"content of {path.name}")
    facts = {"suite": "two rooms", "seeds": [0, 1]}
    tracking = TrackingConfig(tags=("mine",), project="credit", **section)
    return log_comparison(tracking, "two rooms", out, facts, ROWS, written, ["setting=alfworld", "fold=same"])


def test_the_offline_run_holds_group_job_type_tags_table_and_artifact(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert log(out, wandb="offline") == []
    found = records(out)
    [run] = [record.run for record in found if record.HasField("run")]
    assert (run.project, run.run_group, run.job_type) == ("credit", "two rooms", "comparison")
    assert sorted(run.tags) == ["fold=same", "mine", "setting=alfworld"]
    assert values(run.config.update)["seeds"] == [0, 1]

    [row] = [values(record.history.item) for record in found if record.HasField("history")]
    table = {key.removeprefix("results/"): value for key, value in row.items() if key.startswith("results")}
    table = table.get("results", table)
    assert (table["_type"], table["nrows"], table["ncols"]) == ("table-file", 2, 4)
    [folder] = (out / "wandb").glob("offline-run-*")
    content = json.loads((folder / "files" / table["path"]).read_text())
    assert content["columns"] == ["setting", "entry", "mean", "difference"]
    assert content["data"] == [["alfworld", "grpo", 25.5, None], ["alfworld", "<b>mcgpo</b>", 35.3, 9.8]]

    [report] = [record.artifact for record in found if record.artifact.type == "comparison"]
    assert report.name == "two-rooms-comparison"
    assert {entry.path for entry in report.manifest.contents} == {"report.html", "figures/curves.svg"}


def test_a_comparison_made_again_continues_its_run(tmp_path: Path) -> None:
    for _ in range(2):
        assert log(tmp_path, wandb="offline") == []
    ids = {record.run.run_id for file in files(tmp_path) for record in records_of(file) if record.HasField("run")}
    assert len(ids) == 1


def test_disabled_w_and_b_writes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    assert log(tmp_path, wandb="auto") == []
    assert files(tmp_path) == []


def test_w_and_b_that_fails_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("the disk is full")

    monkeypatch.setattr(wandb.Artifact, "add_file", refuse)
    assert log(tmp_path, wandb="offline") == ["W&B has no record of the comparison: the disk is full"]
    monkeypatch.setattr(wandb, "init", refuse)
    assert log(tmp_path, wandb="offline") == ["W&B cannot start offline: the disk is full"]
