"""Demonstrations for the warm start: the noisy expert, turned into (prompt, response) examples, and their cache."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditlab import __version__
from creditlab.environments.protocol import Environment, Task
from creditlab.limits import try_writing, user_path
from creditlab.options import ConfigError
from creditlab.policy.policy import encode_prompts, encode_target
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings
from creditlab.sealed import seal, unseal
from creditlab.training.seeds import derive
from creditlab.training.settings import WarmStartSettings

Ids = NDArray[np.int32]
Progress = Callable[[int, int], None]
FACTS_FILE = "warm_start.json"
_PART = 1 << 24
"""Bytes of a file that are hashed at once."""
FORMAT = 3
"""Raised whenever a change to the code makes cached warm starts differ from fresh ones."""


@dataclass(frozen=True)
class Demonstrations:
    """Demonstrated decisions and how they came about."""

    contexts: list[Context]
    actions: list[str]
    """The expert's action in each context; what was executed may differ."""
    success_rate: float
    """Share of the noisy demonstrations that solved their task."""
    failed: int
    """Demonstrations that the environment broke off; nothing is learned from them."""
    first_error: str
    """What happened in the first of those, and in which task."""


def demonstrate(env: Environment, settings: WarmStartSettings, progress: Progress | None = None) -> Demonstrations:
    """Plays the expert with slips on training tasks; the target of every decision stays the expert's action.

    Raises ValueError with the first error where every demonstration failed.
    """
    tasks = env.train_tasks()
    order = derive(settings.seed, "demonstrated tasks").permutation(len(tasks))[: settings.games]
    contexts: list[Context] = []
    actions: list[str] = []
    errors: list[str] = []
    solved = played = 0
    for count, index in enumerate(order):
        for repeat in range(settings.demonstrations):
            rng = derive(settings.seed, "demonstration", tasks[index].id, repeat)
            try:
                seen, shown, success = _play(env, tasks[index], settings, rng)
            except Exception as error:  # whatever an environment raises costs one demonstration, never the run
                errors.append(f"task {tasks[index].id!r}: {type(error).__name__}: {error}")
                continue
            contexts += seen
            actions += shown
            solved += success
            played += 1
        if progress:
            progress(count + 1, len(order))
    if errors and not played:
        raise ValueError(f"every demonstration of the warm start failed, first: {errors[0]}")
    return Demonstrations(contexts, actions, solved / max(1, played), len(errors), errors[0] if errors else "")


def encode(demonstrations: Demonstrations, prompt: PromptSettings, tokenizer: Any) -> list[tuple[Ids, Ids]]:
    """The demonstrated decisions as token ids of prompt and response."""
    prompts = encode_prompts(prompt, tokenizer, demonstrations.contexts)
    targets = {action: encode_target(prompt, tokenizer, action) for action in set(demonstrations.actions)}
    return [(ids, targets[action]) for (ids, _), action in zip(prompts, demonstrations.actions, strict=True)]


def _play(
    env: Environment, task: Task, settings: WarmStartSettings, rng: np.random.Generator
) -> tuple[list[Context], list[str], bool]:
    """One demonstration: the contexts, the expert's actions in them, and whether it solved the task."""
    episode, expert = env.episode(task), env.expert(task, rng)
    now = episode.start()
    history: list[tuple[str, str]] = []
    contexts: list[Context] = []
    actions: list[str] = []
    for _ in range(env.horizon):
        if now.done:
            break
        action = executed = expert.act(episode)
        contexts.append(Context(env.role, task.goal, now.view, tuple(history), env.horizon))
        actions.append(action)
        draw = rng.random()
        if draw < settings.slip_share:
            executed = env.slip(episode, rng)
        elif draw < settings.slip_share + settings.random_share and now.view.actions:
            executed = now.view.actions[int(rng.integers(len(now.view.actions)))]
        history.append((now.view.observation, executed))
        now = episode.step(executed)
    return contexts, actions, now.success


class WarmStartCache:
    """Warm-started models on disk, whole or absent, in folders named by the hash of everything they depend on."""

    def __init__(self, folder: str | None, key: dict[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, "creditlab": __version__, **key}, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.root = cache_root(folder)
        self.path = self.root / self.hash

    def read(self, report: Callable[[str], None]) -> dict[str, Any] | None:
        """What was noted when the warm start was made; None where there is none, `report` is told of a damaged one."""
        try:
            return unseal(self.path, FACTS_FILE) if self.path.is_dir() else None
        except ValueError as error:
            report(f"warm start {error}; it is made again")
        except PermissionError:  # `prepare` will tell of it
            pass
        return None

    def weights(self) -> str:
        """Hash of the weights, whatever made them: the same inputs may give other last digits on another machine."""
        digest = hashlib.sha256()
        for path in sorted(self.path.glob("*.safetensors")):
            with path.open("rb") as file:
                while part := file.read(_PART):  # a file may be larger than the memory that is left
                    digest.update(part)
        return digest.hexdigest()

    def prepare(self) -> None:
        """Makes the cache's folder without what killed processes left; raises ConfigError where it cannot be written."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            try_writing(self.root)
        except OSError as error:
            raise ConfigError(
                f"warm_start.cache: cannot write {self.root}: {error.strerror}; set warm_start.cache to another folder"
            ) from None
        with _lock(self.root, fcntl.LOCK_EX | fcntl.LOCK_NB) as alone:
            for leftover in self.root.glob(".building-*") if alone else ():
                shutil.rmtree(leftover, ignore_errors=True)

    def store(self, model: Any, tokenizer: Any, facts: dict[str, Any]) -> None:
        """Writes the model in Hugging Face format, sealed with its facts, and moves it into place in one step."""
        self.root.mkdir(parents=True, exist_ok=True)
        with _lock(self.root, fcntl.LOCK_SH):  # nobody may take what is being written for a leftover
            work = Path(tempfile.mkdtemp(prefix=".building-", dir=self.root))
            try:
                model.save_pretrained(work)
                tokenizer.save_pretrained(work)
                seal(work, FACTS_FILE, facts)
                if self.read(lambda _: None) is not None:  # another run was faster, and may be reading its own by now
                    return
                shutil.rmtree(self.path, ignore_errors=True)
                work.rename(self.path)
            finally:
                shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _lock(folder: Path, kind: int) -> Iterator[bool]:
    """Holds a lock on a folder where that is possible; yields whether it is held. It ends with the process."""
    handle, held = os.open(folder, os.O_RDONLY), False
    try:
        with suppress(OSError):  # somebody else has it, or the file system has no locks
            fcntl.flock(handle, kind)
            held = True
        yield held
    finally:
        os.close(handle)


def cache_root(folder: str | None) -> Path:
    """The folder of cached warm starts that `warm_start.cache` names."""
    return user_path("warm_start.cache", folder or "~/.cache/creditlab/warm_start")


def cache_key(
    model: dict[str, Any], prompt: PromptSettings, settings: WarmStartSettings, env: dict[str, Any]
) -> dict[str, Any]:
    """Everything a warm start depends on, as plain data; `model` is the model's own part."""
    warm = {k: v for k, v in asdict(settings).items() if k != "cache"}
    return {"model": model, "prompt": asdict(prompt), "warm_start": warm, "env": env}
