"""Where a run begins: model and tokenizer, warm-started by imitation or taken from the cache, and the policy over it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from creditlab.config import Job, credit_parts, required_features
from creditlab.learner.distributed import rank
from creditlab.policy.policy import Policy
from creditlab.policy.prompts import stop_strings
from creditlab.policy.warm_start import imitate
from creditlab.registry import ConfigError
from creditlab.tracking.writing import WriteError, writing
from creditlab.training.demonstrations import WarmStartCache, cache_key, demonstrate, encode
from creditlab.training.failure import agreed
from creditlab.training.seeds import derive, number

_log = logging.getLogger(__name__)
Report = Callable[[str, int, int, str], None]


def needs_reference(job: Job) -> bool:
    """Whether the frozen start of the run has to stay beside the policy: for a KL term, or because a component asks."""
    if job.learner.kl or any(feature.model == "reference" for feature in required_features(job)):
        return True
    return any("reference" in getattr(part, "requires", ()) for part in credit_parts(job))


def warm_start(job: Job, report: Report, warn: Callable[[str], None] = _log.warning) -> tuple[Path, dict[str, Any]]:
    """Folder of the warm-started model and its facts, made once and cached; with several ranks the first one makes it.

    A cached one that is damaged is made again, and `warn` is told of it, as of demonstrations that failed.

    A pretrained model without warm start is taken from where it lies.
    """
    settings, env = job.settings.warm_start, job.env.rehearsal()
    started = time.perf_counter()
    ready = None if settings.steps else _mistake(job.model.ready)
    if ready is not None:
        facts = {"hash": _mistake(job.model.identity)["files"], "cached": True, "path": str(ready)}
        return ready, {**facts, "seconds": round(time.perf_counter() - started, 2)}
    facts = asdict(env) if is_dataclass(env) and not isinstance(env, type) else {}
    identity = _mistake(job.model.identity)
    cache = WarmStartCache(settings.cache, cache_key(identity, job.prompt, settings, {**facts, **env.describe()}))
    found = cache.read(warn)
    with agreed():
        if found is None and rank() == 0:
            _make(job, cache, report, warn)
    with agreed():
        made = found or cache.read(warn)
        if made is None:
            raise WriteError(f"the warm start that was just written to {cache.path} cannot be read back; check the disk")
    seconds = round(time.perf_counter() - started, 2)
    facts = {"hash": cache.hash, "weights": cache.weights(), "cached": found is not None, "seconds": seconds}
    return cache.path, {**facts, **made}


def load_policy(job: Job, folder: Path, *, training: bool = True) -> tuple[Any, Any]:
    """Model and tokenizer of a warm start or a checkpoint, as the learner trains them; `training=False` for a frozen copy.

    Raises ConfigError naming what is wrong with the folder, or what in it does not suit the prompt's settings.
    """
    precision = getattr(job.learner, "precision", "fp32")
    loaded: tuple[Any, Any] = _mistake(lambda: job.model.load(folder, job.prompt, precision, training))
    return loaded


def _mistake(call: Callable[[], Any]) -> Any:
    """The call's result; what it finds wrong with a model is the user's to put right, and shown in one line."""
    try:
        return call()
    except ValueError as error:
        raise ConfigError(str(error)) from None


def _make(job: Job, cache: WarmStartCache, report: Report, warn: Callable[[str], None]) -> None:
    settings, env = job.settings.warm_start, job.env.rehearsal()
    cache.prepare()  # an imitation that cannot be kept would be lost
    seed = number(settings.seed, "initial weights") % 2**32
    ready = _mistake(job.model.ready)
    if ready is None:
        model, tokenizer = job.model.build(env.vocabulary(), env.phrases, seed)
    else:  # imitation takes float32, whatever the learner does
        model, tokenizer = _mistake(lambda: job.model.load(ready, job.prompt, "fp32"))
        if torch.cuda.is_available():
            model.to("cuda")
    facts: dict[str, Any] = {"parameters": sum(p.numel() for p in model.parameters()), "vocabulary": len(tokenizer)}
    if settings.steps:
        shown = demonstrate(env, settings, lambda done, total: report("demonstrations", done, total, ""))
        if shown.failed:
            warn(f"{shown.failed} demonstrations failed and are left out, first: {shown.first_error}")
        examples = encode(shown, job.prompt, tokenizer)
        losses = imitate(
            model,
            examples,
            settings,
            derive(settings.seed, "imitation"),
            lambda done, total, loss: report("imitation", done, total, f"loss {loss:.2f}"),
        )
        window = max(1, min(20, len(losses) // 2))
        facts |= {
            "examples": len(examples),
            "demonstrations_solved": round(shown.success_rate, 4),
            "demonstrations_failed": shown.failed,
            "prompt_tokens": round(float(np.mean([len(p) for p, _ in examples])), 1),
            "loss_first": round(float(np.mean(losses[:window])), 4),
            "loss_last": round(float(np.mean(losses[-window:])), 4),
        }
    with writing(cache.path, "start the run again"):
        cache.store(model, tokenizer, facts)


def make_policy(job: Job, model: Any, tokenizer: Any) -> Policy:
    """The policy that acts with a model's weights, as the job's engine and prompt have it."""
    generator = job.engine.generator(model, tokenizer, stop_strings(job.prompt))
    return Policy(job.prompt, tokenizer, generator, job.settings.rollout.batch_size)
