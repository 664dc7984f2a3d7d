"""Demonstrations for the warm start: the noisy expert, turned into (prompt, response) examples, and their cache."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditlab import __version__
from creditlab.environments.protocol import Environment, Task
from creditlab.options import ConfigError
from creditlab.policy.policy import encode_prompts, encode_target
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings
from creditlab.training.seeds import derive
from creditlab.training.settings import WarmStartSettings

Ids = NDArray[np.int32]
Progress = Callable[[int, int], None]
FORMAT = 2
"""Raised whenever a change to the code makes cached warm starts differ from fresh ones."""


@dataclass(frozen=True)
class Demonstrations:
    """Demonstrated decisions and how they came about."""

    contexts: list[Context]
    actions: list[str]
    """The expert's action in each context; what was executed may differ."""
    success_rate: float
    """Share of the noisy demonstrations that solved their task."""


def demonstrate(env: Environment, settings: WarmStartSettings, progress: Progress | None = None) -> Demonstrations:
    """Plays the expert with slips on training tasks; the target of every decision stays the expert's action."""
    tasks = env.train_tasks()
    order = derive(settings.seed, "demonstrated tasks").permutation(len(tasks))[: settings.games]
    contexts: list[Context] = []
    actions: list[str] = []
    solved = 0
    for count, index in enumerate(order):
        for repeat in range(settings.demonstrations):
            rng = derive(settings.seed, "demonstration", tasks[index].id, repeat)
            solved += _play(env, tasks[index], settings, rng, contexts, actions)
        if progress:
            progress(count + 1, len(order))
    return Demonstrations(contexts, actions, solved / max(1, len(order) * settings.demonstrations))


def encode(demonstrations: Demonstrations, prompt: PromptSettings, tokenizer: Any) -> list[tuple[Ids, Ids]]:
    """The demonstrated decisions as token ids of prompt and response."""
    prompts = encode_prompts(prompt, tokenizer, demonstrations.contexts)
    targets = {action: encode_target(prompt, tokenizer, action) for action in set(demonstrations.actions)}
    return [(ids, targets[action]) for (ids, _), action in zip(prompts, demonstrations.actions, strict=True)]


def _play(
    env: Environment,
    task: Task,
    settings: WarmStartSettings,
    rng: np.random.Generator,
    contexts: list[Context],
    actions: list[str],
) -> bool:
    """One demonstration; returns whether it solved the task."""
    episode, expert = env.episode(task), env.expert(task, rng)
    now = episode.start()
    history: list[tuple[str, str]] = []
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
    return now.success


class WarmStartCache:
    """Warm-started models on disk, in folders named by the hash of everything they depend on."""

    def __init__(self, folder: str | None, key: dict[str, Any]) -> None:
        text = json.dumps({"format": FORMAT, "creditlab": __version__, **key}, sort_keys=True)
        self.hash = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.root = cache_root(folder)
        self.path = self.root / self.hash

    @property
    def found(self) -> bool:
        """Whether a whole warm start lies there; folders are moved into place only when complete."""
        try:
            return (self.path / "model.safetensors").is_file() and (self.path / "warm_start.json").is_file()
        except PermissionError:  # `check_writable` will tell of it
            return False

    def check_writable(self) -> None:
        """Makes the cache's folder; raises ConfigError where nothing can be written there."""
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=self.root).close()
        except OSError as error:
            raise ConfigError(
                f"warm_start.cache: cannot write {self.root}: {error.strerror}; set warm_start.cache to another folder"
            ) from None

    def facts(self) -> dict[str, Any]:
        """What was noted when the warm start was made."""
        facts: dict[str, Any] = json.loads((self.path / "warm_start.json").read_text())
        return facts

    def store(self, model: Any, tokenizer: Any, facts: dict[str, Any]) -> None:
        """Writes the model in Hugging Face format, with its facts, and moves it into place in one step."""
        self.root.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(prefix=".building-", dir=self.root))
        try:
            model.save_pretrained(work)
            tokenizer.save_pretrained(work)
            (work / "warm_start.json").write_text(json.dumps(facts, indent=2))
            if self.found:  # another run was faster, and may be reading its own by now
                return
            shutil.rmtree(self.path, ignore_errors=True)
            work.rename(self.path)
        finally:
            shutil.rmtree(work, ignore_errors=True)


def cache_root(folder: str | None) -> Path:
    """The folder of cached warm starts that `warm_start.cache` names."""
    return Path(folder or "~/.cache/creditlab/warm_start").expanduser()


def cache_key(model: Any, prompt: PromptSettings, settings: WarmStartSettings, env: dict[str, Any]) -> dict[str, Any]:
    """Everything a warm start depends on, as plain data."""
    warm = {k: v for k, v in asdict(settings).items() if k != "cache"}
    return {"model": asdict(model), "prompt": asdict(prompt), "warm_start": warm, "env": env}
