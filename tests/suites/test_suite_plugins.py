"""A suite with a method of one's own, whose formula is changed between two calls."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TINY = (
    "model.hidden_size=16", "model.layers=1", "model.heads=2", "model.ffn_size=16", "warm_start.steps=5",
    "warm_start.games=5", "warm_start.demonstrations=1", "evaluation.episodes=4", "evaluation.every=1", "checkpoint.every=1",
    "rollout.groups=2", "rollout.group_size=4", "env.horizon=4", "tracking.wandb=disabled", "warm_start.cache=cache",
)  # fmt: skip
METHOD = """
from dataclasses import dataclass
from typing import ClassVar
from creditlab.credit.diagnostics import credit_diagnostics, task_group_sizes
from creditlab.credit.episode import EpisodeOptions
from creditlab.hookspecs import Credit, hookimpl
from mine.formula import factor
@dataclass(frozen=True)
class Mine(EpisodeOptions):
    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "mine"
    def __call__(self, rows):
        advantages = factor() * self.episode_term(rows)
        return Credit(advantages, diagnostics=credit_diagnostics(rows, advantages, task_group_sizes(rows)))
@hookimpl
def creditlab_components():
    return [Mine]
"""
FORMULA = "def factor():\n    return {}\n"


@pytest.fixture
def formula(tmp_path: Path) -> Path:
    """The module of an installed package that its method's formula stands in."""
    package, info = tmp_path / "site" / "mine", tmp_path / "site" / "mine-1.0.dist-info"
    package.mkdir(parents=True)
    info.mkdir()
    (package / "__init__.py").write_text(METHOD)
    (package / "formula.py").write_text(FORMULA.format(1))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[creditlab]\nown = mine\n")
    return package / "formula.py"


def call(root: Path, *words: str) -> str:
    """What a comparison of it with GRPO says."""
    command = [sys.executable, "-m", "creditlab.compare", "methods=[grpo,mine]", "seeds=[0]", "last=1", *TINY, *words]
    environment = {**os.environ, "PYTHONPATH": str(root / "site"), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_a_method_that_was_changed_is_told_of_where_its_runs_are_compared_or_go_on(tmp_path: Path, formula: Path) -> None:
    assert "plug-in" not in call(tmp_path, "training.updates=1")
    [manifest] = (tmp_path / "runs").glob("mine-*-s0/manifest.json")
    code = json.loads(manifest.read_text())["plugin_code"]["mine:own"]
    assert code["version"] == "1.0"
    assert "plug-in" not in call(tmp_path, "training.updates=1")

    formula.write_text(FORMULA.format(2))
    changed = (
        "caution: The code of the plug-in mine:own that is installed now is not the one that made alfworld · mine · seed 0. "
        "To have a run made again, remove its folder and its record.\n"
    )
    again = call(tmp_path, "training.updates=1")
    assert "2 finished, 0 begun, 0 to do" in again
    assert changed in again

    longer = call(tmp_path, "training.updates=2")
    assert "2 begun" in longer
    now = json.loads(manifest.read_text())["plugin_code"]["mine:own"]
    mixed = f"alfworld · mine · seed 0 with {code['sha256'][:10]}, then {now['sha256'][:10]}."
    assert f"different code of the plug-in mine:own, which may make a difference too: {mixed}\n" in longer
    assert changed in longer
    events = (manifest.parent / "events.jsonl").read_text()
    assert "the code of the plug-in mine:own has changed since this run was last at work" in events
