"""An evaluation outside of a run: a model from disk plays the panel as a run would let it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError

from creditlab.config import Job
from creditlab.environments.protocol import Panel
from creditlab.options import ConfigError
from creditlab.plaintext import reason
from creditlab.policy.policy import Policy
from creditlab.rollouts import Trajectory
from creditlab.training.evaluation import panel_metrics, play_panel
from creditlab.training.failure import agreed
from creditlab.training.start import load_policy, make_policy


@dataclass(frozen=True)
class Evaluation:
    """What came of it."""

    panel: Panel
    together: dict[str, float]
    """Metrics over the episodes of all seeds."""
    by_seed: dict[int, dict[str, float]]
    seconds: float
    """Spent playing, without the time to load model and games."""


def evaluate_model(
    job: Job,
    folder: Path,
    seeds: Sequence[int],
    progress: Callable[[int, int], None],
    report: Callable[[str], None],
) -> Evaluation:
    """Plays the job's panel once per sampling seed with the model in a folder; seed 0 is what a run itself plays.

    Every rank has to call it and gets the same numbers. Raises ConfigError where the folder holds no model that loads.
    """
    torch.set_num_threads(job.settings.training.threads or torch.get_num_threads())
    settings = job.settings.evaluation
    with agreed():
        panel = job.env.panel(settings.episodes, settings.panel_seed)
        policy = _load(job, folder)
    passes: dict[int, list[Trajectory]] = {}
    total = len(seeds) * len(panel.tasks)
    started = time.perf_counter()

    def count(done: int, _: int) -> None:
        progress(len(passes) * len(panel.tasks) + done, total)

    for seed in seeds:
        passes[seed] = play_panel(job.env, policy, panel, settings.temperature, seed, count, report)
    seconds = time.perf_counter() - started
    by_seed = {seed: panel_metrics(panel, [played]) for seed, played in passes.items()}
    return Evaluation(panel, panel_metrics(panel, list(passes.values())), by_seed, seconds)


def _load(job: Job, folder: Path) -> Policy:
    """The policy over the weights in a folder, in the learner's arithmetic, as it would be trained."""
    try:
        model, tokenizer = load_policy(job, folder, training=False)
    except (OSError, KeyError, SafetensorError) as error:  # of a folder that was damaged since creditlab wrote it
        raise ConfigError(f"the model in {folder} cannot be loaded: {reason(error)}") from None
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float32 if job.learner.precision == "fp32" else torch.bfloat16
    return make_policy(job, model.to(device=device, dtype=dtype).eval(), tokenizer)
