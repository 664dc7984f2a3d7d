"""Runs the command line up to the point where training would start."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from creditlab.cli import run_hydra
from creditlab.config import Job
from creditlab.registry import registry


def jobs_of(line: str) -> tuple[int, list[Job]]:
    """Exit code and composed jobs of a command line whose training does nothing."""
    jobs: list[Job] = []

    def remember(job: Job) -> int:
        jobs.append(job)
        return 0

    return run_hydra(remember, shlex.split(line)), jobs


def mistake(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The one line with which a command line is refused, without the program's name."""
    code, jobs = jobs_of(line)
    shown = capsys.readouterr()
    assert code == 2, f"{line!r} ended with {code}"
    assert not jobs, f"{line!r} reached training"
    assert not shown.out
    assert shown.err.count("\n") == 1, shown.err
    assert shown.err.startswith("creditlab: "), shown.err
    return shown.err.removeprefix("creditlab: ").rstrip("\n")


def write_conf(monkeypatch: pytest.MonkeyPatch, folder: Path, **files: str) -> None:
    """Adds configuration files to the search path, as a plug-in does: `experiment__mine="…"` is experiment/mine.yaml."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".yaml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(registry(), "config_paths", [f"file://{folder}"])
