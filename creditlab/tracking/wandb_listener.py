"""Weights & Biases: online when it can be, offline otherwise, and never a reason for a run to fail."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from creditlab.plaintext import reason
from creditlab.tracking.config import TrackingConfig
from creditlab.tracking.events import Listener, Metrics, Run, Summary
from creditlab.tracking.jsonl import read
from creditlab.tracking.summary import summarise

Mode = Literal["online", "offline"]


class WandbListener(Listener):
    """Logs one dict per step under the names of `creditlab.tracking.metrics`; every failure ends in a warning.

    A resumed run continues the W&B run of its folder; a fresh one gets a new id, so that it never appends to another's.
    """

    def __init__(self, config: TrackingConfig) -> None:
        self._config = config
        self._run: Any = None
        self._folder = Path()

    def on_start(self, run: Run) -> list[str]:
        self._folder = run.folder
        warnings: list[str] = []
        config = self._config
        self._run = begin(
            config,
            warnings,
            dir=run.folder,
            id=run_id(run.folder, resumed=run.resumed is not None),
            name=config.run_name or run.name,
            group=config.group or run.group or None,
            job_type=config.job_type or run.job_type,
            tags=sorted({*run.tags, *config.tags}),
            config={**run.config, "manifest": dict(run.manifest)},
        )
        return warnings

    def on_update(self, step: int, metrics: Metrics) -> None:
        self._log(step, metrics)

    def on_evaluation(self, step: int, metrics: Metrics) -> None:
        self._log(step, metrics)

    def on_finish(self, summary: Summary) -> None:
        if self._run is None:
            return
        # prefixed, for W&B keeps the last value of every logged metric under its plain name
        final = {f"final/{name}": float(value) for name, value in summary.metrics.items()}
        self._run.summary.update({"status": summary.status, **final, **self._result()})
        end(self._run, int(summary.status == "failed"))

    def paths(self) -> Mapping[str, Path]:
        if self._run is None:
            return {}
        return {f"W&B ({'offline' if self._run.offline else 'online'})": Path(self._run.dir).parent}

    def _log(self, step: int, metrics: Metrics) -> None:
        """Adds to the row of a step; W&B closes a row when the next step begins."""
        if self._run is not None:
            self._run.log({name: float(value) for name, value in metrics.items()}, step=step)

    def _result(self) -> dict[str, float]:
        return {f"curve/{name}": value for name, value in summarise(read(self._folder / "metrics.jsonl")).items()}


def begin(tracking: TrackingConfig, warnings: list[str], **facts: Any) -> Any:
    """A W&B run with the facts that `wandb.init` takes, in the first mode that works.

    None where W&B is disabled or cannot start; `warnings` then has the reasons.
    """
    for mode in modes(tracking.wandb, warnings):
        try:
            return _open(tracking, mode, facts)
        except Exception as error:  # a refused network, an unknown host, a bad key: all of them must not matter
            warnings.append(f"W&B cannot start {mode}: {reason(error)}")
            _end_service(1)  # it would keep the run's id in use
    return None


def end(run: Any, exit_code: int = 0) -> None:
    """Finishes a W&B run and everything that writes it."""
    run.finish(exit_code=exit_code)
    # finish returns while the service still writes: end it, so that the file is whole and the run's id free again
    _end_service(exit_code)


def run_id(folder: Path, *, resumed: bool) -> str:
    """The id kept in a folder where its W&B run is resumed, else a new one."""
    path = folder / "wandb" / "run-id"
    if resumed and path.exists():
        return path.read_text(encoding="utf-8").strip()
    name = hashlib.sha256(f"{folder.resolve()} {time.time_ns()}".encode()).hexdigest()[:12]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(name, encoding="utf-8")
    return name


def modes(choice: str, warnings: list[str]) -> tuple[Mode, ...]:
    """The modes that `tracking.wandb` comes to, in the order in which they are tried; none when W&B is disabled."""
    if choice == "auto":
        choice = os.environ.get("WANDB_MODE") or ("online" if has_key(warnings) else "offline")
    if choice == "disabled":
        return ()
    return ("online", "offline") if choice == "online" else ("offline",)


def has_key(warnings: list[str]) -> bool:
    """Whether W&B itself finds a key (environment, settings, netrc); nothing is asked for, sent or shown."""
    os.environ.setdefault("WANDB_SILENT", "true")
    import wandb

    try:
        return bool(wandb.login(prompt=False, verify=False))
    except Exception as error:  # such as a key of the wrong length
        warnings.append(f"W&B refuses the configured key: {reason(error)}")
        return False


def _end_service(exit_code: int) -> None:
    import wandb

    wandb.teardown(exit_code=exit_code)


def _open(tracking: TrackingConfig, mode: Mode, facts: Mapping[str, Any]) -> Any:
    import wandb

    return wandb.init(
        mode=mode,
        project=tracking.project,
        resume="allow",
        **facts,
        settings=wandb.Settings(
            silent=True,
            console="off",
            init_timeout=tracking.wandb_timeout,
            login_timeout=tracking.wandb_timeout,
            finish_timeout=tracking.wandb_timeout,
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
        ),
    )
