"""The command line shared by the Hydra entry points: composes, explains mistakes in one line, and runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from typing import Any

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from creditlab.config import Job, config_dir, install_config, resolve
from creditlab.registry import ConfigError, registry, unknown_key

EXIT_MISTAKE = 2
EXIT_INTERRUPTED = 130


def run(arguments: list[str]) -> int:
    """Trains with the given Hydra overrides; returns the process's exit code.

    Mistakes end in one line on stderr; CREDITLAB_TRACEBACK=1 shows where in the code it was noticed.
    """
    from creditlab.training.session import train

    return run_hydra(train, arguments)


def run_hydra(task: Callable[[Job], int], arguments: list[str]) -> int:
    """Runs a task on the configuration composed from overrides; a user's mistake is one line on stderr and code 2."""
    codes = [0]

    def job(cfg: DictConfig) -> None:
        codes.append(task(resolve(cfg, dict(HydraConfig.get().runtime.choices))))

    try:
        install_config()
        warn_failed_plugins()
        sys.argv = [sys.argv[0], *arguments]
        hydra.main(version_base="1.3", config_path=config_dir(), config_name="config")(job)()
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        if os.environ.get("CREDITLAB_TRACEBACK") == "1":
            raise
        sys.stderr.write(f"creditlab: {explain(error, arguments)}\n")
        return EXIT_MISTAKE
    except KeyboardInterrupt:
        sys.stderr.write("creditlab: interrupted\n")
        return EXIT_INTERRUPTED
    return max(codes)


def warn_failed_plugins() -> None:
    """Names every plug-in that failed to load on stderr; the others work on."""
    for name, reason in registry().failed.items():
        sys.stderr.write(f"creditlab: plug-in {name} failed to load and is left out: {reason}\n")


def explain(error: Exception, arguments: list[str]) -> str:
    """One clear message for a composition error: what exists, or the nearest valid key."""
    text = _chain(error)
    group = re.search(r"Could not (?:find|load) '(?P<group>\w+)(?:@[\w.]+)?/(?P<name>[^']*)'", text)
    if group and registry().names(group["group"]):
        return registry().unknown(group["group"], group["name"])
    if group:
        options = re.search(r"Available options in '[^']*':\n(?P<names>(?:\s+.+\n?)+)", text)
        names = [n.strip() for n in options["names"].splitlines()] if options else []
        return f"unknown {group['group']} {group['name']!r}; available: {', '.join(n for n in names if n) or 'none'}"
    key = re.search(r"Could not override '(?P<key>[^']+)'", text)
    if key:
        return unknown_key(key["key"], _valid_keys(key["key"], arguments))
    no_group = re.search(r"Could not override '?(?P<key>[^\s']+)'?\.?\s*No match in the defaults list", text)
    if no_group:
        return unknown_key(no_group["key"], _valid_keys(no_group["key"], arguments))
    return " ".join(str(error).split()) or type(error).__name__


def _chain(error: BaseException) -> str:
    parts: list[str] = []
    current: BaseException | None = error
    while current is not None:
        parts.append(str(current))
        current = current.__cause__ or current.__context__
    return "\n".join(parts)


def _valid_keys(key: str, arguments: list[str]) -> list[str]:
    """The keys beside an unknown one: composes again without the overrides that touch it."""
    parent = key.rpartition(".")[0]
    kept = [a for a in arguments if "=" in a and not a.startswith("-") and not _touches(a, key)]
    try:
        node: Any = compose_config(kept)
    except (HydraException, OmegaConfBaseException, ValueError):
        node = compose_config([])
    for name in parent.split(".") if parent else []:
        node = OmegaConf.select(node, name) if OmegaConf.is_dict(node) else None
    return [str(k) for k in node] if OmegaConf.is_dict(node) else []


def _touches(argument: str, key: str) -> bool:
    return argument.split("=", 1)[0].lstrip("+~") == key


def compose_config(overrides: list[str]) -> DictConfig:
    """Composes a configuration outside `hydra.main`, as tests and tools do."""
    install_config()
    active = GlobalHydra.instance().is_initialized()
    if active:
        GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir(), version_base="1.3"):
        return compose("config", overrides=overrides)


def compose_job(overrides: list[str]) -> Job:
    """A validated job from overrides, for notebooks and tests; raises ConfigError with one clear message."""
    install_config()
    try:
        with initialize_config_dir(config_dir(), version_base="1.3"):
            cfg = compose("config", overrides=overrides, return_hydra_config=True)
        choices = dict(cfg.hydra.runtime.choices)
        plain = OmegaConf.masked_copy(cfg, [str(k) for k in cfg if k != "hydra"])
    except (HydraException, OmegaConfBaseException, ValueError) as error:
        raise ConfigError(explain(error, overrides)) from None
    return resolve(plain, choices)
