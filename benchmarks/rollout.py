"""How long rollouts and training batches take: `python benchmarks/rollout.py [--repeats 5]`.

One table: what a part does per second (best of the repeats), beside a plain reference timed in the same run, and the ratio
of the two. A ratio above 1 means that ours is the faster one.

* environment: ALFWorld episodes of random commands, state views and rubric included; the reference plays the same commands
  in the bare engine, so that its ratio is the price of the views.
* generation: responses of the tiny model with recorded log-probabilities; the reference is `generate` with its own
  multinomial sampling on the same padded prompts, without log-probabilities.
* batches: training sequences of an update into padded micro-batches; the reference builds every row with torch on its own.
* plan: optimizer steps and micro-batches of an update with pairs; the reference links rows pair by pair in a loop.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # a tiny model on shared cores is fastest so

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from timing import best
from transformers import GenerationConfig

from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.learner.batching import plan_steps
from creditlab.learner.sequences import MicroBatch, TrainBatch
from creditlab.policy.engine import TransformersGenerator, left_pad
from creditlab.policy.policy import encode_prompts
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings, TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer

GAMES, TURNS = 16, 15
PROMPTS, RESPONSE = 64, 12
ROWS, MICRO = 960, 64
CPU = torch.device("cpu")


@dataclass(frozen=True)
class Part:
    """Something to time: how many units a call does, ours and the reference."""

    name: str
    unit: str
    count: int
    ours: Callable[[], Any]
    plain: Callable[[], Any]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    torch.set_num_threads(1)
    table = Table("part", "unit", "per second", "reference per second", "ratio", title="rollouts and training batches")
    for part in (environment(), generation(), batches(), plans()):
        ours, plain = best(part.ours, repeats), best(part.plain, repeats)
        rates = (f"{part.count / seconds:,.0f}" for seconds in (ours, plain))
        table.add_row(part.name, part.unit, *rates, f"{plain / ours:.2f}×")
    Console().print(table)


def environment() -> Part:
    """Episodes of random admissible commands, chosen beforehand."""
    env = ALFWorld(train_games=GAMES)
    tasks, rng = env.train_tasks(), np.random.default_rng(0)
    chosen: dict[str, list[str]] = {}
    for task in tasks:
        episode = env.episode(task)
        now, commands = episode.start(), []
        for _ in range(TURNS):
            commands.append(str(rng.choice(now.view.actions)))
            now = episode.step(commands[-1])
        chosen[task.id] = commands
    games = {task.id: env.episode(task).game for task in tasks}

    def ours() -> None:
        for task in tasks:
            episode = env.episode(task)
            episode.start()
            for command in chosen[task.id]:
                episode.step(command)

    def plain() -> None:
        for name, game in games.items():
            engine = Engine(game)
            engine.reset()
            for command in chosen[name]:
                engine.step(command)
                _ = engine.admissible

    return Part("environment", "episodes", GAMES, ours, plain)


def generation() -> Part:
    """Responses to the first prompts of games, of the tiny model as it is before its warm start."""
    env = ALFWorld(train_games=PROMPTS)
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    model: Any = build_model(TinyModel(), tokenizer, 0).eval()
    views = [(task.goal, env.episode(task).start().view) for task in env.train_tasks()]
    contexts = [Context(env.role, goal, view, [], env.horizon) for goal, view in views]
    prompts = [ids for ids, _ in encode_prompts(PromptSettings(), tokenizer, contexts)]
    uniforms = np.random.default_rng(0).random((PROMPTS, RESPONSE))
    generate = TransformersGenerator(model, tokenizer)
    ids, mask = left_pad(prompts, tokenizer.pad_token_id, CPU)
    sampling = GenerationConfig(
        do_sample=True,
        top_k=0,
        max_new_tokens=RESPONSE,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Part(
        "generation",
        "responses",
        PROMPTS,
        lambda: generate(prompts, uniforms, 1.0, PROMPTS),
        lambda: model.generate(ids, attention_mask=mask, generation_config=sampling),
    )


def sequences() -> TrainBatch:
    """Decisions of an update, with the lengths that the tiny model's prompts and responses have."""
    rng = np.random.default_rng(0)
    prompts = tuple(rng.integers(3, 240, rng.integers(70, 140)).astype(np.int32) for _ in range(ROWS))
    responses = tuple(rng.integers(3, 240, rng.integers(2, 9)).astype(np.int32) for _ in range(ROWS))
    old = tuple(np.zeros(len(response), np.float32) for response in responses)
    keys = rng.integers(0, 2**40, ROWS)
    return TrainBatch(prompts, responses, old, rng.normal(size=ROWS), (), keys.astype(np.int64), describe=str)


def batches() -> Part:
    """All micro-batches of an update."""
    batch = sequences()
    parts = np.split(np.arange(ROWS), ROWS // MICRO)

    def row(index: int) -> tuple[torch.Tensor, torch.Tensor]:
        prompt, response = torch.from_numpy(batch.prompts[index]), torch.from_numpy(batch.responses[index])
        ids = torch.cat([prompt, response]).long()
        mask = torch.cat([torch.zeros(len(prompt)), torch.ones(len(response))]).bool()
        return ids, mask

    def plain() -> None:
        for rows in parts:
            found = [row(index) for index in rows]
            for column in range(2):
                torch.nn.utils.rnn.pad_sequence([r[column] for r in found], batch_first=True)
            torch.nn.utils.rnn.pad_sequence([torch.from_numpy(batch.old_logp[index]) for index in rows], batch_first=True)
            torch.tensor([batch.advantages[index] for index in rows])

    return Part("batches", "rows", ROWS, lambda: [MicroBatch.build(batch, rows, 0, CPU) for rows in parts], plain)


def plans() -> Part:
    """The optimizer steps of an update in which every eighth row is half of a pair."""
    batch = sequences()
    lengths = np.array([len(p) + len(r) for p, r in zip(batch.prompts, batch.responses, strict=True)], np.int64)
    pairs = np.random.default_rng(1).permutation(ROWS)[: ROWS // 8].reshape(-1, 2)

    def ours() -> None:
        plan_steps(batch.keys, lengths, [pairs], steps=None, mini_batch=128, micro_batch=MICRO, seed=0)

    def plain() -> list[list[list[int]]]:
        unit = list(range(ROWS))
        for first, second in pairs.tolist():
            old, new = unit[second], unit[first]
            unit = [new if u == old else u for u in unit]
        names = sorted(set(unit), key=lambda u: hash((int(batch.keys[u]), 0)))
        steps: list[list[list[int]]] = []
        for name in names:
            members = [row for row in range(ROWS) if unit[row] == name]
            if not steps or sum(map(len, steps[-1])) >= 128:
                steps.append([])
            if not steps[-1] or len(steps[-1][-1]) + len(members) > MICRO:
                steps[-1].append([])
            steps[-1][-1] += members
        return steps

    return Part("plan", "rows", ROWS, ours, plain)


if __name__ == "__main__":
    main()
