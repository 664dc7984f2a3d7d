"""The command as a user runs it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from creditlab.hookspecs import GROUPS
from creditlab.registry import registry


def creditlab(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "creditlab", *arguments]
    return subprocess.run(command, cwd=folder, env={**os.environ}, capture_output=True, text=True, timeout=120, check=False)


def test_help_shows_the_groups_with_their_choices_and_the_keys(tmp_path: Path) -> None:
    shown = creditlab(tmp_path, "--help")
    assert (shown.returncode, shown.stderr) == (0, "")
    for group in GROUPS:
        assert f"\n{group}: " in shown.stdout
    assert f"\nmethod: {', '.join(registry().names('method'))}\n" in shown.stdout
    assert "\n  group_size: 8\n" in shown.stdout
    assert "python -m creditlab.plugins" in shown.stdout


def test_cfg_job_prints_yaml(tmp_path: Path) -> None:
    shown = creditlab(tmp_path, "method=grpo", "aux=[pair]", "seed=3", "--cfg", "job")
    assert (shown.returncode, shown.stderr) == (0, "")
    config = yaml.safe_load(shown.stdout)
    assert (config["method"]["name"], config["seed"], config["aux"]["pair"]["quota"]) == ("grpo", 3, 2)
    assert not list(tmp_path.iterdir()), "printing the configuration writes nothing"


@pytest.mark.parametrize("line", ["method=grpoo", "method=grpo match=observation"])
def test_a_mistake_is_one_line_and_loads_no_torch(line: str, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", "-m", "creditlab", *line.split()]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    lines = [text for text in shown.stderr.splitlines() if not text.startswith("import time:")]
    assert shown.returncode == 2
    assert len(lines) == 1
    assert lines[0].startswith("creditlab: ")
    imported = {text.rpartition("|")[2].strip() for text in shown.stderr.splitlines()}
    assert "hydra" in imported
    assert "torch" not in imported


def test_an_unknown_flag_is_refused_by_name(tmp_path: Path) -> None:
    shown = creditlab(tmp_path, "method=grpo", "--resum")
    assert shown.returncode == 2
    assert shown.stderr.splitlines()[-1].endswith("error: unrecognized arguments: --resum")
