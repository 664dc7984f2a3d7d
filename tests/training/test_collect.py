"""The rollout core: what is recorded, what an environment's failure costs, and where the random numbers come from."""

from __future__ import annotations

import functools
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corridor import COMMANDS, Corridor, Fault

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.policy import Policy, encode_prompts, encode_target
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings, TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer
from creditlab.policy.warm_start import imitate
from creditlab.registry import registry
from creditlab.rollouts import Group, RolloutBatch, Rows, StopReason, View
from creditlab.rollouts.store import RolloutStore, load
from creditlab.training.collect import Assignment, Timing, collect, play
from creditlab.training.evaluation import episode_metrics
from creditlab.training.seeds import derive, number
from creditlab.training.settings import WarmStartSettings

SMALL = TinyModel(hidden_size=16, layers=1, heads=2, ffn_size=16, init_std=0.3)


def policy_of(env: Any, batch_size: int = 64, **prompt: Any) -> Policy:
    """A policy with random weights."""
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    generator = TransformersGenerator(build_model(SMALL, tokenizer, 0), tokenizer)
    return Policy(PromptSettings(**prompt), tokenizer, generator, batch_size)


@functools.cache
def walker(batch_size: int = 64) -> Policy:
    """A policy that has learned to give any of the commands, or now and then nonsense."""
    policy = policy_of(Corridor(), batch_size, max_response_tokens=2)
    contexts = [
        Context("", f"go right {task}", View(f"place {position}", COMMANDS), [], 4)
        for task in range(3)
        for position in range(2)
    ]
    prompts = [ids for ids, _ in encode_prompts(policy.settings, policy.tokenizer, contexts)]
    targets = [encode_target(policy.settings, policy.tokenizer, command) for command in COMMANDS]
    examples = [(prompt, target) for prompt in prompts for target in targets]
    imitate(policy.generator.model, examples, WarmStartSettings(steps=150, lr=1e-2), derive("walker"))
    return policy


def collected(env: Any = None, batch_size: int = 64, update: int = 3, seed: int = 0, tasks: Any = None) -> tuple[Group, ...]:
    env = env or Corridor()
    chosen = list(enumerate(env.train_tasks()))[:3] if tasks is None else tasks
    return collect(env, walker(batch_size), chosen, 4, update, seed, 1.0, Timing())


def sampled(groups: tuple[Group, ...]) -> dict[str, list[list[int]]]:
    return {t.id: [s.response_ids.tolist() for s in t.steps] for g in groups for t in g.trajectories}


def test_records_hold_what_happened() -> None:
    groups = collected(Corridor(horizon=8))
    assert [g.id for g in groups] == ["u3-g0", "u3-g1", "u3-g2"]
    assert [g.task_id for g in groups] == ["t0", "t1", "t2"]
    assert [g.family for g in groups] == ["even", "odd", "even"]
    tokenizer = walker().tokenizer
    for group in groups:
        assert [t.slot for t in group.trajectories] == [0, 1, 2, 3]
        for trajectory in group.trajectories:
            position = 0
            assert len(trajectory.states) == len(trajectory.steps) + 1 <= 9
            for turn, step in enumerate(trajectory.steps):
                assert step.turn == turn
                assert trajectory.states[turn].views["observation"] == f"place {position}"
                assert f"now place {position}" in tokenizer.decode(step.prompt_ids)
                assert len(step.logprobs) == len(step.response_ids)
                assert step.response == tokenizer.decode(step.response_ids, skip_special_tokens=True)
                assert step.action == step.response.strip()
                assert step.effective is (step.action in COMMANDS)
                position = max(0, position + {"left": -1, "right": 1}.get(step.action, 0))
                assert step.reward == (10.0 if position == 2 else 0.0)
            assert trajectory.states[-1].views["observation"] == f"place {position}"
            assert trajectory.stop is (StopReason.SUCCESS if position == 2 else StopReason.TRUNCATED)
            assert trajectory.score == float(position == 2)
            assert trajectory.episode_return == 10.0 * (position == 2)
            assert len(trajectory.steps) == 8 or trajectory.success
    assert {t.stop for g in groups for t in g.trajectories} == {StopReason.SUCCESS, StopReason.TRUNCATED}


def test_the_last_pairs_stand_in_the_prompt() -> None:
    policy = policy_of(Corridor(), max_response_tokens=2, history=2)
    [group] = collect(Corridor(), policy, [(0, Corridor().train_tasks()[0])], 4, 1, 0, 1.0, Timing())
    trajectory = max(group.trajectories, key=lambda t: len(t.steps))
    read = [policy.tokenizer.decode(step.prompt_ids) for step in trajectory.steps]
    for turn, text in enumerate(read):
        for earlier in range(max(0, turn - 2), turn):
            before = trajectory.states[earlier].views["observation"]
            assert f"| {before} > {trajectory.steps[earlier].action}".rstrip() in text
        assert text.count("| place") == min(turn, 2)


def test_neither_engine_batches_nor_other_groups_change_what_is_sampled() -> None:
    together = sampled(collected())
    assert sampled(collected(batch_size=1)) == together
    assert sampled(collected(batch_size=5)) == together
    task = Corridor().train_tasks()[1]
    assert sampled(collected(tasks=[(1, task)])) == {k: v for k, v in together.items() if k.startswith("u3-g1-")}


def test_seed_and_update_change_what_is_sampled_and_nothing_else_does() -> None:
    first = list(sampled(collected()).values())
    assert list(sampled(collected()).values()) == first
    assert list(sampled(collected(seed=1)).values()) != first
    assert list(sampled(collected(update=4)).values()) != first
    slots = [[s.response_ids.tolist() for s in t.steps] for t in collected()[0].trajectories]
    assert len({str(s) for s in slots}) > 1  # siblings differ


def test_collecting_uses_no_global_random_state() -> None:
    states = random.getstate(), np.random.get_state()[1].copy(), torch.get_rng_state()
    collected()
    assert random.getstate() == states[0]
    assert np.array_equal(np.random.get_state()[1], states[1])
    assert torch.equal(torch.get_rng_state(), states[2])


def test_derived_numbers_depend_on_every_name_and_its_type() -> None:
    names = [(0, "a"), (1, "a"), (0, "b"), ("0", "a"), (0, "a", 0), (0,)]
    assert len({number(*n) for n in names}) == len(names)
    assert derive(0, "a").random(3).tolist() == derive(0, "a").random(3).tolist()


# failures of the environment


def failing(numbers: set[int], moment: str) -> Fault:
    return lambda episode, now: episode in numbers and now == moment


@pytest.mark.parametrize("moment", ["start", "step"])
def test_a_failure_costs_one_trajectory_and_names_task_and_command(moment: str, tmp_path: Path) -> None:
    whole = collected()
    groups = collected(Corridor(fault=failing({5}, moment)))
    lost = groups[1].trajectories[1]
    assert lost.stop is StopReason.ERROR
    assert (lost.slot, lost.id) == (1, "u3-g1-s1")
    message = "no such world" if moment == "start" else "the world ended"
    command = "(start)" if moment == "start" else whole[1].trajectories[1].steps[0].action
    assert lost.error == f"task 't1', last command {command!r}: CrashError: {message}"
    # all others are what they would have been
    kept = {k: v for k, v in sampled(whole).items() if k != lost.id}
    assert {k: v for k, v in sampled(groups).items() if k != lost.id} == kept
    # and it counts in nothing but the number of errors
    rows = Rows.from_groups(groups)
    assert int(rows.error.sum()) == 1
    others = [t for g in groups for t in g.trajectories if t is not lost]
    metrics = episode_metrics([t for g in groups for t in g.trajectories])
    assert metrics.pop("episode/errors") == 1.0
    expected = episode_metrics(others)
    assert expected.pop("episode/errors") == 0.0
    assert metrics == expected
    # credit is that of a group that never had it, since it gives no rows
    advantages = registry().create("method", "grpo")(rows).advantages
    remaining = tuple(t for t in groups[1].trajectories if t is not lost)
    without = Rows.from_groups((groups[0], Group(groups[1].id, "t1", "odd", remaining), groups[2]))
    np.testing.assert_array_equal(advantages, registry().create("method", "grpo")(without).advantages)
    # the store keeps it
    path = RolloutStore(tmp_path).save(RolloutBatch(groups, 3, 0))
    assert load(path).groups[1].trajectories[1].error == lost.error


def test_a_failure_in_mid_episode_keeps_the_steps_before_it() -> None:
    calls = {"n": 0}

    def third_command(episode: int, moment: str) -> bool:
        if episode != 0 or moment != "step":
            return False
        calls["n"] += 1
        return calls["n"] == 3

    env = Corridor(horizon=6, fault=third_command)
    groups = collect(env, walker(), [(0, env.train_tasks()[0])], 2, 1, 11, 1.0, Timing())
    lost, sibling = groups[0].trajectories
    assert lost.stop is StopReason.ERROR
    assert len(lost.steps) == 2
    assert len(lost.states) == 3
    assert sibling.stop is not StopReason.ERROR


def test_an_interruption_is_no_failure_of_the_environment() -> None:
    def interrupted(episode: int, moment: str) -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        collected(Corridor(fault=interrupted))


def test_an_episode_that_starts_solved_has_one_state_and_no_decision() -> None:
    env = Corridor(starts=(2, 0))
    groups = collected(env, tasks=list(enumerate(env.train_tasks())))
    for trajectory in groups[0].trajectories:
        assert trajectory.success
        assert (len(trajectory.steps), len(trajectory.states)) == (0, 1)
    assert episode_metrics(groups[0].trajectories)["episode/success_rate"] == 1.0
    rows = Rows.from_groups(groups)
    assert set(rows.group.tolist()) == {1}
    assert np.isfinite(registry().create("method", "graphgpo")(rows).advantages).all()


def test_progress_and_times_are_reported() -> None:
    timing, seen = Timing(), []
    env = Corridor()
    play(
        env,
        walker(),
        [Assignment("a", env.train_tasks()[0], 0, ("x",))],
        1.0,
        timing,
        lambda done, total: seen.append((done, total)),
    )
    assert seen[0] == (0, 1)
    assert timing.environment > 0
    assert timing.prompts_cut == 0


def test_shortened_prompts_are_counted() -> None:
    policy, timing = policy_of(Corridor(), max_response_tokens=2, max_prompt_tokens=5), Timing()
    [group] = collect(Corridor(), policy, [(0, Corridor().train_tasks()[0])], 2, 1, 0, 1.0, timing)
    assert timing.prompts_cut == sum(len(t.steps) for t in group.trajectories)
    assert all(len(s.prompt_ids) == 5 for t in group.trajectories for s in t.steps)


def test_statistics_of_episodes_are_those_of_the_records() -> None:
    groups = collected(Corridor(horizon=8))
    trajectories = [t for g in groups for t in g.trajectories]
    metrics = episode_metrics(trajectories)
    steps = [s for t in trajectories for s in t.steps]
    assert metrics["episode/success_rate"] == pytest.approx(sum(t.success for t in trajectories) / 12)
    assert metrics["episode/reward/mean"] == pytest.approx(10 * sum(t.success for t in trajectories) / 12)
    assert metrics["episode/length/mean"] == pytest.approx(len(steps) / 12)
    assert metrics["episode/decisions"] == len(steps)
    assert metrics["episode/valid_action_ratio"] == pytest.approx(sum(s.valid for s in steps) / len(steps))
    assert metrics["episode/ineffective_rate"] == pytest.approx(sum(not s.effective for s in steps) / len(steps))
    assert metrics["response_length/clip_ratio"] == pytest.approx(sum(s.cut for s in steps) / len(steps))
    assert metrics["response_length/mean"] == pytest.approx(sum(len(s.response_ids) for s in steps) / len(steps))
    assert metrics["prompt_length/mean"] == pytest.approx(sum(len(s.prompt_ids) for s in steps) / len(steps))


def test_statistics_of_no_episode_are_finite() -> None:
    assert all(np.isfinite(value) for value in episode_metrics([]).values())


def test_the_real_environment_plays() -> None:
    env = ALFWorld(horizon=3, train_games=2)
    groups = collect(env, policy_of(env), list(enumerate(env.train_tasks())), 2, 1, 0, 1.0, Timing())
    assert [len(g.trajectories) for g in groups] == [2, 2]
    for trajectory in (t for g in groups for t in g.trajectories):
        assert trajectory.error is None
        assert len(trajectory.steps) == 3
        assert {"observation", "graph", "exact", "coarse"} <= set(trajectory.states[0].views)
        assert trajectory.states[0].rubric
    assert len(Rows.from_groups(groups)) == 12
