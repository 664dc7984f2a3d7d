"""The command line shared by the Hydra entry points: composes, explains mistakes in one line, and runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence

import hydra
import yaml  # type: ignore[import-untyped]
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from creditlab.config import Job, compose_config, config_dir, install_config, resolve
from creditlab.mistakes import check_overrides, explain
from creditlab.options import ConfigError
from creditlab.registry import registry
from creditlab.stopping import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_MISTAKE, tell

TRACEBACK = "CREDITLAB_TRACEBACK"
"""Environment variable: with 1, a mistake shows where in the code it was noticed."""
_MISTAKES = (HydraException, OmegaConfBaseException, yaml.YAMLError, RecursionError, ValueError)


class JobFailedError(RuntimeError):
    """A job of a sweep that ran in a process of its own ended with an exit code other than 0."""


def run(arguments: Sequence[str]) -> int:
    """Trains with the given Hydra overrides; returns the process's exit code."""
    return run_hydra(_train, arguments)


def _train(job: Job) -> int:
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # else each rank prints pages when another one is gone
    from creditlab.training.session import train  # brings torch along, which a mistake should not have to wait for

    return train(job)


def run_hydra(task: Callable[[Job], int], arguments: Sequence[str]) -> int:
    """Runs a task on the configuration composed from overrides; a user's mistake is one line on stderr and code 2.

    CREDITLAB_TRACEBACK=1 raises it instead.
    """
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")  # otherwise Hydra itself prints errors and exits
    codes, owner = [0], os.getpid()

    def job(cfg: DictConfig) -> None:
        context, sweep = HydraConfig.get(), HydraConfig.get().mode == RunMode.MULTIRUN
        overrides = [str(o) for o in OmegaConf.to_container(context.overrides.task, resolve=False) or ()]
        code = _run_job(task, cfg, dict(context.runtime.choices), overrides, " ".join(overrides) if sweep else "")
        if sweep and code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        if code and os.getpid() != owner:  # a launcher's child cannot add to the list
            raise JobFailedError(f"the run ended with code {code}")
        codes.append(code)

    argv = sys.argv
    try:
        install_config()
        warn_failed_plugins()
        sys.argv = [argv[0], *arguments]
        hydra.main(version_base="1.3", config_path=config_dir(), config_name="config")(job)()
    except _MISTAKES as error:
        return complain(error, arguments)
    except JobFailedError:
        return EXIT_FAILED
    except KeyboardInterrupt:
        tell("interrupted")
        return EXIT_INTERRUPTED
    finally:
        sys.argv = argv
    return max(codes)


def _run_job(
    task: Callable[[Job], int], cfg: DictConfig, choices: dict[str, object], overrides: list[str], label: str
) -> int:
    """Runs the task on one composed configuration; names the job of a sweep by `label`."""
    try:
        check_overrides(overrides)
        return task(resolve(cfg, choices))
    except _MISTAKES as error:
        return complain(error, overrides, label)


def complain(error: Exception, arguments: Sequence[str], label: str = "") -> int:
    """Writes a user's mistake as one line on stderr and returns its exit code; raises it under CREDITLAB_TRACEBACK=1."""
    if os.environ.get(TRACEBACK) == "1":
        raise error
    unforeseen = not isinstance(error, (ConfigError, HydraException, OmegaConfBaseException, yaml.YAMLError))
    hint = f" ({TRACEBACK}=1 shows where)" if unforeseen else ""
    tell(f"{f'[{label}] ' if label else ''}{explain(error, arguments)}{hint}")
    return EXIT_MISTAKE


def warn_failed_plugins() -> None:
    """Names every plug-in that failed to load on stderr; the others work on."""
    for name, reason in registry().failed.items():
        tell(f"plug-in {name} failed to load and is left out: {reason}")


def compose_job(overrides: Sequence[str]) -> Job:
    """A validated job from overrides, for notebooks and tests; raises ConfigError with one clear message."""
    try:
        check_overrides(overrides)
        cfg, choices = compose_config(overrides)
        return resolve(cfg, choices)
    except _MISTAKES as error:
        raise ConfigError(explain(error, overrides)) from None
