"""Every method, and every control of MCGPO, trains on both environments and computes features only where it must."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mcgpo_controls import CONTROLS
from numpy.typing import NDArray
from past_runs import without_figures

from creditlab.cli import compose_job
from creditlab.config import Job, required_features
from creditlab.policy.engine import Ids
from creditlab.policy.features import hidden_states
from creditlab.registry import registry
from creditlab.rollouts import Rows
from creditlab.rollouts.store import RolloutStore, load
from creditlab.tracking.jsonl import read
from creditlab.training import features as recording
from creditlab.training.session import train

UPDATES = 3
SMALL = (
    "experiment=quick", f"training.updates={UPDATES}", "rollout.groups=2", "rollout.group_size=4", "env.horizon=5",
    "evaluation.every=0", "evaluation.episodes=2", "warm_start.steps=20", "warm_start.games=10", "checkpoint.every=0",
    "tracking.wandb=disabled", "tracking.console=quiet", "learner.micro_batch=16",
)  # fmt: skip
ENVIRONMENTS = {
    "alfworld": (),
    "webshop": ("env=webshop", "env.products=20", "env.kinds=2", "env.breadth=3", "env.held_out=10", "env.nouns=rules"),
}
METHODS = [f"method={name}" for name in registry().names("method")]
OTHERS = ["method=covgpo method@base=mcgpo", "method=gigpo match=hidden_state aux=pair", "method=ccpo method.hidden=false"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs and the one warm start that they share."""
    return tmp_path_factory.mktemp("every")


def job(folder: Path, line: str, env: str) -> Job:
    places = (f"run_root={folder / 'runs'}", f"warm_start.cache={folder / 'warm'}")
    return compose_job([*SMALL, *places, *ENVIRONMENTS[env], *shlex.split(line)])


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("line", [*METHODS, *(command for command, _, _ in CONTROLS.values()), *OTHERS])
def test_three_updates(folder: Path, line: str, env: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)
    run, calls = job(folder, line, env), list[int]()

    def counted(model: Any, prompts: Sequence[Ids], layer: int, batch_size: int) -> NDArray[np.float32]:
        calls.append(batch_size)
        return hidden_states(model, prompts, layer, batch_size)

    monkeypatch.setattr(recording, "hidden_states", counted)
    assert train(run) == 0
    assert calls == [run.learner.micro_batch] * UPDATES * len(required_features(run)), "one pass per feature"
    told = [record for record in read(run.folder / "metrics.jsonl") if "actor/pg_loss" in record]
    assert len(told) == UPDATES
    store = RolloutStore(run.folder / "rollouts", None)
    rows = Rows.from_batch(load(store.path(UPDATES)))
    assert set(rows.features) == {feature.name for feature in required_features(run)}
    for name, values in rows.features.items():
        assert values.shape == (len(rows), 32), "the width of the quick model"
        assert len(np.unique(values, axis=0)) > 1, f"{name} says the same of every prompt"


def test_only_these_methods_ask_for_features() -> None:
    asking = {name for name in registry().names("method") if required_features(compose_job([f"method={name}"]))}
    assert asking == {"bipace", "ccpo"}
