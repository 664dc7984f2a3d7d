"""`model=hf` from the command line: a small random Qwen2 is imitated into shape, acts, and is trained with MCGPO."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qwen_folder import START, STOP, bpe, save_qwen

from creditlab.cli import compose_job, run
from creditlab.config import Job
from creditlab.policy.loading import load_model
from creditlab.rollouts.store import RolloutStore, load
from creditlab.training.start import warm_start

QUICK = (
    "model=hf", "env.horizon=2", "rollout.groups=2", "rollout.group_size=4", "training.updates=3", "evaluation.episodes=2",
    "evaluation.every=0", "checkpoint.rollouts_every=1", "learner.steps=2", "learner.micro_batch=16", "learner.lr=1e-3",
    "warm_start.games=6", "warm_start.demonstrations=1", "warm_start.batch_size=8", "warm_start.lr=0.02",
    "prompt.max_prompt_tokens=1024", "tracking.wandb=disabled", "tracking.console=quiet",
)  # fmt: skip


LONGEST = 60
"""Tokens of a response: room for every command in the words of the small tokenizer."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


def command(root: Path, model: Path, *overrides: str) -> list[str]:
    return [*QUICK, f"model.path={model}", f"run_root={root / 'runs'}", f"warm_start.cache={root / 'cache'}", *overrides]


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def silent(*event: Any) -> None:
    """Hears of progress."""


@pytest.mark.parametrize(
    ("thinking", "style", "answer_from"),
    [
        ("true", "think_action", f"{START}assistant\n"),
        ("false", "action_only", f"{START}assistant\n<think>\n\n</think>\n\n"),
    ],
    ids=["thinking", "not thinking"],
)
def test_imitation_and_three_updates(tmp_path: Path, folder: Path, thinking: str, style: str, answer_from: str) -> None:
    words = command(tmp_path, folder, f"prompt.thinking={thinking}", f"prompt.style={style}", "warm_start.steps=10")
    assert run([*words, f"prompt.max_response_tokens={LONGEST}", "method=mcgpo"]) == 0
    [where] = (tmp_path / "runs").iterdir()
    start = json.loads((where / "manifest.json").read_text())["warm_start"]
    assert start["loss_last"] < 0.9 * start["loss_first"]  # the mean of the last five of ten steps, and of the first five
    metrics = lines(where / "metrics.jsonl")
    assert [line["step"] for line in metrics] == [0, 1, 2, 3]
    for line in metrics[1:]:
        assert line["actor/optimizer_steps"] == 2
        assert line["actor/ratio_p95_first"] < 1e-4  # engine and learner agree on every sampled token
        assert np.isfinite([line["actor/loss"], line["actor/kl_loss"], line["actor/grad_norm"]]).all()
    assert metrics[1]["actor/kl_loss"] > 0 or metrics[2]["actor/kl_loss"] > 0  # the reference stays behind
    tokenizer = bpe()
    store = RolloutStore(where / "rollouts")
    for update in (1, 2, 3):
        for trajectory in load(store.path(update)).trajectories:
            for step in trajectory.steps:
                assert tokenizer.decode(step.prompt_ids).endswith(f"{STOP}\n{answer_from}")
                assert len(step.response_ids) == len(step.logprobs) <= LONGEST
    trained, saved = load_model(where / "checkpoints" / "update-000003" / "model")
    began, _ = load_model(tmp_path / "cache" / start["hash"])
    assert saved.chat_template == tokenizer.chat_template
    assert any(not bool((a == b).all()) for a, b in zip(trained.parameters(), began.parameters(), strict=True))


def hf_job(root: Path, model: Path, *overrides: str) -> Job:
    return compose_job(command(root, model, *overrides))


def test_without_imitation_a_run_starts_from_the_folder_itself(tmp_path: Path, folder: Path) -> None:
    where, facts = warm_start(hf_job(tmp_path, folder), silent)
    assert where == folder
    assert facts["path"] == str(folder)
    assert not (tmp_path / "cache").exists()  # nothing is copied


def test_the_warm_start_of_a_pretrained_model_depends_on_its_files_alone(tmp_path: Path, folder: Path) -> None:
    """The same files elsewhere take the cached warm start; other weights under the same name do not."""
    steps = ("warm_start.steps=1", f"prompt.max_response_tokens={LONGEST}")
    first, made = warm_start(hf_job(tmp_path, folder, *steps), silent)
    other = save_qwen(tmp_path / "copy")
    again, reused = warm_start(hf_job(tmp_path, other, *steps), silent)
    assert (again, made["cached"], reused["cached"]) == (first, False, True)
    save_qwen(tmp_path / "copy", seed=1)
    changed, fresh = warm_start(hf_job(tmp_path, other, *steps), silent)
    assert (changed != first, fresh["cached"]) == (True, False)


def test_a_model_that_answers_with_garbage_is_run_on_and_reported(tmp_path: Path, folder: Path) -> None:
    words = command(tmp_path, folder, "training.updates=2", "prompt.max_response_tokens=8", "method=grpo")
    assert run(words) == 0
    [where] = (tmp_path / "runs").iterdir()
    assert [line["step"] for line in lines(where / "metrics.jsonl")] == [0, 1, 2]
    told = [event["message"] for event in lines(where / "events.jsonl") if event["kind"] == "warning"]
    [garbage] = [message for message in told if "could be read as an action" in message]  # once, not with every update
    assert "prompt.style=think_action" in garbage
    assert "the first one reads" in garbage
    [estimate] = [event["message"] for event in lines(where / "events.jsonl") if event["kind"] == "info"]
    assert estimate.startswith("estimated memory on one rank: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["model.path=nowhere/at/all"], "model.path=nowhere/at/all does not exist; give the folder"),
        (["prompt.max_prompt_tokens=4096"], "more than the 4096 positions of the model"),
    ],
)
def test_a_model_that_does_not_fit_ends_the_run_in_one_line(
    tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str], change: list[str], message: str
) -> None:
    words = [w for w in command(tmp_path, folder) if w.partition("=")[0] not in {c.partition("=")[0] for c in change}]
    assert run([*words, *change]) == 2
    [line] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("creditlab: ")]
    assert message in line
