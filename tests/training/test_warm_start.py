"""The warm start: what is demonstrated and imitated, and when a cached one is the right one."""

from __future__ import annotations

import fcntl
import json
import os
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corridor import COMMANDS, Corridor, CrashError, quick_job

from creditlab.cli import compose_job
from creditlab.config import Job
from creditlab.policy.loading import load_model
from creditlab.policy.prompts import render
from creditlab.policy.settings import PromptSettings, TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer
from creditlab.policy.warm_start import imitate, rate
from creditlab.sealed import seal
from creditlab.training.demonstrations import demonstrate, encode
from creditlab.training.seeds import derive
from creditlab.training.settings import WarmStartSettings
from creditlab.training.start import warm_start

SMALL = TinyModel(hidden_size=16, layers=1, heads=2, ffn_size=16)


def silent(*event: Any) -> None:
    """Hears of progress."""


def settings(**options: Any) -> WarmStartSettings:
    return WarmStartSettings(**{"games": 5, "demonstrations": 8, "random_share": 0.0, "slip_share": 0.0, **options})


# demonstrations


def test_without_noise_the_expert_is_shown_as_it_is() -> None:
    shown = demonstrate(Corridor(), settings(games=3, demonstrations=2))
    assert shown.success_rate == 1.0
    assert shown.actions == ["right"] * (3 * 2 * 2)
    assert [c.view.observation for c in shown.contexts] == ["place 0", "place 1"] * 6
    assert [list(c.history) for c in shown.contexts[:2]] == [[], [("place 0", "right")]]


def test_the_target_stays_the_experts_action_whatever_was_executed() -> None:
    shown = demonstrate(Corridor(), settings(slip_share=1.0))
    assert set(shown.actions) == {"right"}
    assert shown.success_rate == 0.0
    assert {action for context in shown.contexts for _, action in context.history} == {"sing"}
    assert {context.view.observation for context in shown.contexts} == {"place 0"}  # nothing ever happened


def test_commands_are_replaced_at_the_asked_rates() -> None:
    env = Corridor(horizon=50, starts=(-90,) * 5)  # never ends, so that every decision is one draw
    shown = demonstrate(env, settings(demonstrations=20, random_share=0.15, slip_share=0.07))
    executed = Counter(context.history[-1][1] for context in shown.contexts if context.history)
    total = sum(executed.values())
    assert total == 5 * 20 * 49
    assert executed["sing"] / total == pytest.approx(0.07, abs=0.015)  # deviation .004
    for command in ("left", "stay"):
        assert executed[command] / total == pytest.approx(0.15 / 3, abs=0.012)  # deviation .003
    assert executed["right"] / total == pytest.approx(1 - 0.07 - 0.10, abs=0.02)


def test_demonstrations_depend_on_their_seed_alone() -> None:
    noisy = settings(random_share=0.3, slip_share=0.1)
    histories = [[c.history for c in demonstrate(Corridor(), s).contexts] for s in (noisy, noisy, replace(noisy, seed=1))]
    assert histories[0] == histories[1] != histories[2]


def test_examples_are_the_prompts_and_the_targets_with_an_end_token() -> None:
    shown = demonstrate(Corridor(), settings(games=1, demonstrations=1))
    tokenizer = build_tokenizer(Corridor().vocabulary())
    prompt = PromptSettings()
    for (ids, answer), context in zip(encode(shown, prompt, tokenizer), shown.contexts, strict=True):
        assert ids.tolist() == tokenizer(render(prompt, context))["input_ids"]
        assert answer.tolist() == [tokenizer.convert_tokens_to_ids("right"), tokenizer.eos_token_id]


# imitation


def examples(tokenizer: Any, count: int = 5) -> list[tuple[Any, Any]]:
    rng = derive("examples")

    def some(low: int, high: int) -> Any:
        return rng.integers(3, len(tokenizer), rng.integers(low, high)).astype(np.int32)

    return [(some(2, 9), some(1, 4)) for _ in range(count)]


@pytest.mark.parametrize("prompt_loss", [0.0, 0.3])
def test_a_step_descends_on_the_cross_entropy_of_its_definition(prompt_loss: float) -> None:
    tokenizer = build_tokenizer(["a b c d e f g h i j"])
    given = examples(tokenizer)
    model, expected = build_model(SMALL, tokenizer, 0), build_model(SMALL, tokenizer, 0)
    [loss] = imitate(model, given, settings(steps=1, lr=1e-2, prompt_loss=prompt_loss), derive("x"))
    answers, prompts = [], []
    for prompt, answer in given:  # one by one, without padding
        ids = torch.tensor([[*prompt.tolist(), *answer.tolist()]])
        entropy = torch.nn.functional.cross_entropy(expected(ids).logits[0, :-1], ids[0, 1:], reduction="none")
        prompts.append(entropy[: len(prompt) - 1])
        answers.append(entropy[len(prompt) - 1 :])
    total = torch.cat(answers).mean() + prompt_loss * torch.cat(prompts).mean()
    assert loss == pytest.approx(torch.cat(answers).mean().item(), rel=1e-5)
    total.backward()
    optimizer = torch.optim.AdamW(expected.parameters(), lr=1e-2 / 50, betas=(0.9, 0.98), weight_decay=0.01)
    torch.nn.utils.clip_grad_norm_(expected.parameters(), 1.0)
    optimizer.step()
    for one, other in zip(model.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=0)


def test_every_example_is_used() -> None:
    """Twenty examples in batches of eight: the longest ones too."""
    tokenizer = build_tokenizer(["a b c d e f g h i j"])
    model = build_model(SMALL, tokenizer, 0)
    seen: list[int] = []
    forward = model.forward

    def spy(input_ids: torch.Tensor, **options: Any) -> Any:
        seen.extend(len(row) - int((row == 0).sum()) for row in input_ids)
        return forward(input_ids=input_ids, **options)

    model.forward = spy
    given = [(np.full(length, 5, np.int32), np.array([1], np.int32)) for length in range(1, 21)]
    imitate(model, given, settings(steps=3, batch_size=8), derive("x"))
    assert sorted(seen) == list(range(2, 22))


def test_the_learning_rate_rises_stays_and_falls_to_a_floor() -> None:
    shares = {0: 1 / 50, 24: 0.5, 49: 1.0, 499: 1.0, 500: 1.0, 750: 0.5, 990: 0.05, 999: 0.05}
    assert {step: rate(step, 1000) for step in shares} == pytest.approx(shares)


def test_imitation_of_nothing_is_refused() -> None:
    model = build_model(SMALL, build_tokenizer(["a"]), 0)
    with pytest.raises(ValueError, match=r"no demonstrations to learn from; raise warm_start\.games"):
        imitate(model, [], settings(steps=1), derive("x"))


def test_imitation_uses_no_global_random_state() -> None:
    tokenizer = build_tokenizer(["a b c d e f g h i j"])
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    imitate(build_model(SMALL, tokenizer, 0), examples(tokenizer), settings(steps=3), derive("x"))
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])


# the cache


class Recorded(Corridor):
    """Counts the demonstrations that were asked for."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.asked = 0

    def expert(self, task: Any, rng: Any) -> Any:
        self.asked += 1
        return super().expert(task, rng)


def test_a_warm_start_is_made_once_and_then_reused(tmp_path: Path) -> None:
    first, second = Recorded(), Recorded()
    made, facts = warm_start(quick_job(tmp_path, env=first), silent)
    again, more = warm_start(quick_job(tmp_path, "seed=5", "learner.lr=0.1", "training.updates=3", env=second), silent)
    assert (first.asked, second.asked) == (4, 0)
    assert made == again
    assert (facts["cached"], more["cached"]) == (False, True)
    assert more["hash"] == facts["hash"] == made.name
    assert facts["demonstrations_solved"] == json.loads((made / "warm_start.json").read_text())["demonstrations_solved"]
    model, tokenizer = load_model(made)
    assert tokenizer.decode(tokenizer("go right 3")["input_ids"]) == "go right 3"
    assert sum(p.numel() for p in model.parameters()) == facts["parameters"]


def test_a_warm_start_made_twice_is_the_same(tmp_path: Path) -> None:
    one, other = (warm_start(quick_job(tmp_path / name), silent)[0] for name in ("a", "b"))
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


CHANGES = [
    "prompt.history=2", "prompt.max_prompt_tokens=300", "model.hidden_size=32", "model.init_std=0.1", "model.heads=1",
    "warm_start.steps=61", "warm_start.games=3", "warm_start.demonstrations=2", "warm_start.lr=0.001",
    "warm_start.batch_size=8", "warm_start.random_share=0.2", "warm_start.slip_share=0.2", "warm_start.prompt_loss=0.2",
    "warm_start.seed=1",
]  # fmt: skip


def digest(job: Job) -> str:
    return warm_start(job, silent)[0].name


def test_everything_that_matters_changes_the_hash_and_nothing_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hollow(job: Job, cache: Any, *others: Any) -> None:
        cache.path.mkdir(parents=True, exist_ok=True)
        seal(cache.path, "warm_start.json", {"hollow": True})

    monkeypatch.setattr("creditlab.training.start._make", hollow)
    base = digest(quick_job(tmp_path))
    found = [digest(quick_job(tmp_path, change)) for change in CHANGES]
    found += [digest(quick_job(tmp_path, env=Corridor(starts=(0, 1))))]
    for options in ((), ("env.horizon=9",), ("env.hide_commands=[help]",), ("env.seed=3",), ("env.families=[look]",)):
        job = quick_job(tmp_path, *options)
        found.append(digest(replace(job, env=compose_job(list(options)).env)))
    assert len({base, *found}) == 1 + len(found)
    for same in ("seed=3", "method=grpo", "rollout.groups=3", "learner.lr=0.1", "training.updates=9", "run_root=elsewhere"):
        assert digest(quick_job(tmp_path, same)) == base


def test_a_warm_start_that_breaks_off_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = quick_job(tmp_path)
    for error in (KeyboardInterrupt, CrashError):

        def broken(*arguments: Any, error: type[BaseException] = error, **options: Any) -> None:
            raise error

        monkeypatch.setattr("transformers.PreTrainedTokenizerFast.save_pretrained", broken)  # in the middle of storing
        with pytest.raises(error):
            warm_start(job, silent)
        assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    path, facts = warm_start(job, silent)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [path.name]
    assert facts["cached"] is False


DAMAGES = {
    "model.safetensors": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "tokenizer.json": lambda path: path.write_bytes(path.read_bytes()[:500]),
    "config.json": Path.unlink,
    "warm_start.json": Path.unlink,
}


@pytest.mark.parametrize("file", DAMAGES)
def test_a_damaged_warm_start_is_named_and_made_again(file: str, tmp_path: Path) -> None:
    job = quick_job(tmp_path)
    path, _ = warm_start(job, silent)
    whole = (path / "model.safetensors").read_bytes()
    DAMAGES[file](path / file)
    told: list[str] = []
    again, facts = warm_start(job, silent, told.append)
    assert (again, facts["cached"]) == (path, False)
    assert len(told) == 1
    assert told[0].startswith(f"warm start {path / file} is missing or ")
    assert (path / "model.safetensors").read_bytes() == whole
    assert warm_start(job, silent, told.append)[1]["cached"] is True
    assert len(told) == 1


def test_what_a_killed_process_left_in_the_cache_is_cleared_away(tmp_path: Path) -> None:
    left = tmp_path / "cache" / ".building-x1"
    left.mkdir(parents=True)
    (left / "model.safetensors").write_bytes(b"half")
    path, _ = warm_start(quick_job(tmp_path), silent)
    assert [p.name for p in (tmp_path / "cache").iterdir()] == [path.name]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (cache / ".building-x1").mkdir(parents=True)
    handle = os.open(cache, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)  # as every process holds it while it writes
        path, _ = warm_start(quick_job(tmp_path), silent)
    finally:
        os.close(handle)
    assert sorted(p.name for p in cache.iterdir()) == [".building-x1", path.name]


def test_a_demonstration_that_fails_is_left_out_and_told_of(tmp_path: Path) -> None:
    told: list[str] = []
    broken = Corridor(fault=lambda episode, moment: episode == 1 and moment == "step")
    _, facts = warm_start(quick_job(tmp_path, env=broken), silent, told.append)
    assert facts["demonstrations_failed"] == 1
    assert facts["examples"] == 3 * 2  # four tasks of two steps, one of them without
    assert [message.partition(": ")[0] for message in told] == ["1 demonstrations failed and are left out, first"]
    assert "CrashError: the world ended" in told[0]


def test_a_warm_start_of_nothing_but_failures_is_one_error(tmp_path: Path) -> None:
    broken = Corridor(fault=lambda episode, moment: moment == "start")
    with pytest.raises(
        ValueError, match=r"every demonstration of the warm start failed, first: task 't\d': CrashError: no such"
    ):
        warm_start(quick_job(tmp_path, env=broken), silent)
    assert list((tmp_path / "cache").iterdir()) == []


def test_the_run_starts_from_the_imitated_policy(tmp_path: Path) -> None:
    path, facts = warm_start(quick_job(tmp_path, "warm_start.steps=150"), silent)
    assert facts["loss_last"] < 0.5 * facts["loss_first"]
    assert set(COMMANDS) <= set(load_model(path)[1].get_vocab())
