"""W&B: a real offline run read back from its file, and every way in which W&B can be absent."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb_records import files, history, records, records_of, values, without_account

from creditlab.tracking import JsonlListener, Run, Summary, Tracker, TrackingConfig, WandbListener


@pytest.fixture(autouse=True)
def no_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody's credentials or settings take part."""
    without_account(monkeypatch, tmp_path)
    yield
    wandb.teardown()


def start(folder: Path, resumed: int | None = None, **section: Any) -> tuple[Tracker, WandbListener]:
    listener = WandbListener(TrackingConfig(tags=("smoke",), **section))
    tracker = Tracker([JsonlListener(), listener])
    tracker.start(
        Run(
            name="mcgpo-demo-s0",
            folder=folder,
            config={"method": {"name": "mcgpo", "pair_weight": 1.0}},
            manifest={"panel": "abc"},
            seed=0,
            updates=2,
            group="mcgpo-demo",
            tags=("cpu",),
            resumed=resumed,
        )
    )
    return tracker, listener


def events(folder: Path) -> list[str]:
    path = folder / "events.jsonl"
    return [json.loads(line)["message"] for line in path.read_text().splitlines()] if path.exists() else []


def test_an_offline_run_holds_config_metrics_and_summary(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    tracker, listener = start(folder)
    tracker.evaluation(0, {"val/success_rate": 0.36})
    for step in (1, 2):
        tracker.update(step, {"actor/pg_loss": step / 3})
    tracker.evaluation(2, {"val/success_rate": 0.5})
    (path,) = listener.paths().values()
    tracker.finish(Summary("finished", {"timing_s/total": 12.5}))
    assert path.parent == folder / "wandb"
    assert list(path.glob("run-*.wandb"))
    assert events(folder) == []
    found = records(folder)

    run = next(r.run for r in found if r.HasField("run"))
    assert (run.project, run.display_name, run.run_group, run.job_type) == (
        "creditlab",
        "mcgpo-demo-s0",
        "mcgpo-demo",
        "train",
    )
    assert sorted(run.tags) == ["cpu", "smoke"]
    config = values(run.config.update)
    assert config["method"] == {"name": "mcgpo", "pair_weight": 1.0}
    assert config["manifest"] == {"panel": "abc"}

    [file] = files(folder)
    assert history(file) == [
        {"_step": 0, "val/success_rate": 0.36},
        {"_step": 1, "actor/pg_loss": 1 / 3},
        {"_step": 2, "actor/pg_loss": 2 / 3, "val/success_rate": 0.5},
    ]

    summary: dict[str, Any] = {}
    for record in found:
        if record.HasField("summary"):
            summary |= values(record.summary.update)
    assert summary["status"] == "finished"
    assert summary["final/timing_s/total"] == 12.5
    assert summary["curve/warm_start"] == 0.36
    assert summary["curve/gain"] == pytest.approx(0.14)


def test_resume_continues_the_same_run_and_a_fresh_start_does_not(tmp_path: Path) -> None:
    ids = []
    for resumed in (None, 1, None):
        tracker, _ = start(tmp_path, resumed, wandb="offline")
        tracker.update(2 if resumed else 1, {"actor/lr": 0.5})
        tracker.finish(Summary("interrupted"))
        [record] = [r.run for r in records_of(files(tmp_path)[-1]) if r.HasField("run")]
        ids.append(record.run_id)
    first, second, third = ids
    assert first == second
    assert third != first
    assert [history(file) for file in files(tmp_path)] == [
        [{"_step": 1, "actor/lr": 0.5}],
        [{"_step": 2, "actor/lr": 0.5}],
        [{"_step": 1, "actor/lr": 0.5}],
    ]


def test_an_unreachable_server_falls_back_to_offline_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Port 9 of this machine refuses the connection; the run goes on offline and the key is shown nowhere."""
    key = "0123456789abcdef0123456789abcdef01234567"
    monkeypatch.setenv("WANDB_API_KEY", key)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    begin = time.monotonic()
    tracker, listener = start(tmp_path, wandb_timeout=2.0)
    assert time.monotonic() - begin < 20
    tracker.update(1, {"actor/lr": 0.5})
    assert list(listener.paths()) == ["W&B (offline)"]
    tracker.finish(Summary("finished"))
    (warning,) = events(tmp_path)
    assert warning.startswith("W&B cannot start online: ")
    assert key not in warning
    assert [values(r.history.item)["actor/lr"] for r in records(tmp_path) if r.HasField("history")] == [0.5]


def test_a_malformed_key_falls_back_to_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_API_KEY", "short-secret")
    tracker, listener = start(tmp_path)
    assert list(listener.paths()) == ["W&B (offline)"]
    tracker.finish(Summary("finished"))
    (warning,) = events(tmp_path)
    assert warning.startswith("W&B refuses the configured key: ")
    assert "short-secret" not in warning


def test_a_key_in_netrc_asks_for_online_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1:9\n  login user\n  password 0123456789abcdef0123456789abcdef01234567\n")
    netrc.chmod(0o600)
    tried = refuse_everything(monkeypatch)
    start(tmp_path / "run")
    assert tried == ["online", "offline"]


def refuse_everything(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Makes wandb.init fail in every mode; returns the list of modes it was asked for."""
    tried: list[str] = []

    def init(*, mode: str, **_: Any) -> None:
        tried.append(mode)
        raise wandb.errors.UsageError(f"no {mode}\nsecond line")

    monkeypatch.setattr(wandb, "init", init)
    return tried


def test_a_run_goes_on_without_w_and_b_when_nothing_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = refuse_everything(monkeypatch)
    tracker, listener = start(tmp_path, wandb="online")
    tracker.update(1, {"actor/lr": 0.5})
    tracker.finish(Summary("finished"))
    assert tried == ["online", "offline"]
    assert events(tmp_path) == [
        "W&B cannot start online: no online second line",
        "W&B cannot start offline: no offline second line",
    ]
    assert listener.paths() == {}


@pytest.mark.parametrize(
    ("variable", "modes"), [("offline", ["offline"]), ("disabled", []), ("online", ["online", "offline"])]
)
def test_the_environment_decides_in_auto(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, modes: list[str]
) -> None:
    monkeypatch.setenv("WANDB_MODE", variable)
    tried = refuse_everything(monkeypatch)
    start(tmp_path)
    assert tried == modes


def test_the_configuration_decides_before_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    tried = refuse_everything(monkeypatch)
    start(tmp_path, wandb="offline")
    assert tried == ["offline"]
