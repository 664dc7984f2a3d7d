"""Where a run begins: model and tokenizer, warm-started by imitation or taken from the cache."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from creditlab.config import Job, credit_parts
from creditlab.learner.distributed import rank, wait_for_all
from creditlab.policy.warm_start import imitate
from creditlab.tracking.writing import WriteError, writing
from creditlab.training.demonstrations import WarmStartCache, cache_key, demonstrate, encode
from creditlab.training.seeds import derive, number

_log = logging.getLogger(__name__)
Report = Callable[[str, int, int, str], None]


def needs_reference(job: Job) -> bool:
    """Whether the frozen start of the run has to stay beside the policy: for a KL term, or because a component asks."""
    return bool(job.learner.kl) or any("reference" in getattr(part, "requires", ()) for part in credit_parts(job))


def warm_start(job: Job, report: Report, warn: Callable[[str], None] = _log.warning) -> tuple[Path, dict[str, Any]]:
    """Folder of the warm-started model and its facts, made once and cached; with several ranks the first one makes it.

    A cached one that is damaged is made again, and `warn` is told of it, as of demonstrations that failed.
    """
    settings, env = job.settings.warm_start, job.env.rehearsal()
    facts = asdict(env) if is_dataclass(env) and not isinstance(env, type) else {}
    cache = WarmStartCache(settings.cache, cache_key(job.model, job.prompt, settings, {**facts, **env.describe()}))
    started = time.perf_counter()
    found = cache.read(warn)
    if found is None and rank() == 0:
        _make(job, cache, report, warn)
    wait_for_all()
    made = found or cache.read(warn)
    if made is None:
        raise WriteError(f"the warm start that was just written to {cache.path} cannot be read back; check the disk")
    seconds = round(time.perf_counter() - started, 2)
    return cache.path, {"hash": cache.hash, "cached": found is not None, "seconds": seconds, **made}


def _make(job: Job, cache: WarmStartCache, report: Report, warn: Callable[[str], None]) -> None:
    settings, env = job.settings.warm_start, job.env.rehearsal()
    cache.prepare()  # an imitation that cannot be kept would be lost
    seed = number(settings.seed, "initial weights") % 2**32
    model, tokenizer = job.model.build(env.vocabulary(), env.phrases, seed)
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
        facts |= {
            "examples": len(examples),
            "demonstrations_solved": round(shown.success_rate, 4),
            "demonstrations_failed": shown.failed,
            "prompt_tokens": round(float(np.mean([len(p) for p, _ in examples])), 1),
            "loss_first": round(float(np.mean(losses[:20])), 4),
            "loss_last": round(float(np.mean(losses[-20:])), 4),
        }
    with writing(cache.path, "start the run again"):
        cache.store(model, tokenizer, facts)
