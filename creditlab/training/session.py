"""A run from start to finish: collect → credit → update → evaluate → checkpoint, with resume and interruption."""

from __future__ import annotations

import json
import math
import shutil
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import torch

from creditlab.config import Job
from creditlab.credit.types import Credit
from creditlab.environments.protocol import Panel, Task
from creditlab.learner.distributed import rank, total, world_size
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.state import load_optimizer, save_state
from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.loading import load_model
from creditlab.policy.policy import Policy
from creditlab.policy.prompts import stop_strings
from creditlab.registry import ConfigError, registry
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.rollouts.store import RolloutStore
from creditlab.tracking import Run, Summary, Tracker, default_listeners
from creditlab.tracking import metrics as m
from creditlab.training.checkpoint import Checkpoint, CheckpointStore
from creditlab.training.collect import Timing, collect
from creditlab.training.evaluation import episode_metrics, evaluate
from creditlab.training.manifest import manifest
from creditlab.training.seeds import derive, number
from creditlab.training.start import warm_start

EXIT_INTERRUPTED = 130
EXIT_FAILED = 1


class TrainingFailedError(RuntimeError):
    """The run cannot go on; its message says why and where the evidence lies."""


@dataclass
class Progress:
    """The position of a run: all that a checkpoint holds beside the learner's state."""

    update: int = 0
    evaluations: list[list[float]] = field(default_factory=list)
    """[update, held-out success] of every evaluation so far."""
    skipped: int = 0
    skipped_in_a_row: int = 0
    transitions: int = 0
    """Environment steps of all training trajectories so far."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Time split of the whole run, over its sittings."""

    @property
    def best(self) -> int | None:
        """The evaluated update with the highest held-out success, the earliest of equals."""
        return int(max(self.evaluations, key=lambda e: (e[1], -e[0]))[0]) if self.evaluations else None


def train(job: Job) -> int:
    """Runs or resumes a training run; returns the process's exit code."""
    torch.set_num_threads(job.settings.training.threads or torch.get_num_threads())
    checkpoint = prepare_folder(job)
    tracker = Tracker()
    session = Session(job, tracker, checkpoint)
    with tracker, interruption() as stop:
        return session.run(stop)


def prepare_folder(job: Job) -> Checkpoint | None:
    """Makes the run folder, or finds the checkpoint to resume from; refuses to overwrite a run unasked."""
    folder, settings = job.folder, job.settings
    store = CheckpointStore(folder / "checkpoints", settings.checkpoint.keep)
    notes: list[str] = []
    if folder.exists() and settings.overwrite and rank() == 0:
        shutil.rmtree(folder)
    checkpoint = store.latest(notes.append) if settings.resume else None
    if settings.resume is True and not folder.exists():
        raise ConfigError(f"resume=true: there is no run in {folder}; start it with resume=false or resume=auto")
    if folder.exists() and not settings.resume and not settings.overwrite:
        raise ConfigError(
            f"{folder} already holds this run: continue it with resume=true, replace it with overwrite=true, "
            "or give it another name="
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot create the run folder {folder}: {error.strerror}; choose another run_root=") from None
    return checkpoint


@contextmanager
def interruption() -> Iterator[list[int]]:
    """Collects interrupt and termination signals: the first asks for an orderly end, a second one ends at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        if received:
            raise KeyboardInterrupt
        received.append(signum)

    previous = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in previous.items():
            signal.signal(signum, handler)


class Session:
    """One sitting of a run."""

    def __init__(self, job: Job, tracker: Tracker, checkpoint: Checkpoint | None) -> None:
        self.job, self.tracker, self.settings = job, tracker, job.settings
        self.folder = job.folder
        self.checkpoints = CheckpointStore(self.folder / "checkpoints", self.settings.checkpoint.keep)
        self.store = RolloutStore(self.folder / "rollouts", rank() if world_size() > 1 else None)
        self.checkpoint = checkpoint
        self.progress = Progress(**checkpoint.state["progress"]) if checkpoint else Progress()
        self.started = time.perf_counter()

    def run(self, stop: list[int]) -> int:
        """Trains up to `training.updates`; returns the exit code."""
        self._prepare()
        try:
            while self.progress.update < self.settings.training.updates and not stop:
                self._update()
        except TrainingFailedError as error:
            return self._finish("failed", str(error))
        if stop and self.progress.update < self.settings.training.updates:
            self._save()
            return self._finish("interrupted", "interrupted; continue with the same command and resume=true")
        return self._finish("finished", "")

    def _prepare(self) -> None:
        """Panel, warm start, learner and policy; evaluates the warm start of a fresh run."""
        job = self.job
        self.panel: Panel = job.env.panel(self.settings.evaluation.episodes, self.settings.evaluation.panel_seed)
        self.tasks = job.env.train_tasks()
        self._start_tracking()
        with self._timed(m.TIME_WARM_START):
            start, facts = warm_start(job, self.tracker.progress)
            model, tokenizer = load_model(self.checkpoint.path / "model" if self.checkpoint else start)
        self._write_manifest(facts)
        reference = load_model(start)[0].requires_grad_(False) if job.learner.kl else None
        self.learner = Learner(
            model,
            job.learner,
            pad=tokenizer.pad_token_id,
            temperature=self.settings.rollout.temperature,
            reference=reference,
        )
        if self.checkpoint:
            load_optimizer(self.learner, self.checkpoint.path)
        self.tokenizer = tokenizer
        generator = TransformersGenerator(self.learner.module.model, tokenizer, stop_strings(job.prompt))
        self.policy = Policy(job.prompt, tokenizer, generator, self.settings.rollout.batch_size)
        if not self.progress.evaluations:
            self._evaluate()

    def _start_tracking(self) -> None:
        job, progress = self.job, self.progress
        if rank() != 0:
            return
        run = Run(
            name=self.folder.name,
            folder=self.folder,
            config=job.config,
            manifest=manifest(job, self.panel, job.env.describe(), {}),
            seed=self.settings.seed,
            updates=self.settings.training.updates,
            group=f"{job.name}-{job.hash}",
            tags=tuple(f"{axis}={name}" for axis, name in job.choices.items() if name and axis in ("method", "env", "match")),
            resumed=progress.update if self.checkpoint else None,
        )
        (self.folder / "config.json").write_text(json.dumps(job.config, indent=2))
        self.tracker.listeners += default_listeners(job.tracking)
        for listeners in registry().plugins.hook.creditlab_listeners(run=run):
            self.tracker.listeners += listeners
        self.tracker.start(run)
        self.store.discard_after(progress.update)

    def _write_manifest(self, warm: Mapping[str, Any]) -> None:
        if rank() == 0:
            facts = manifest(self.job, self.panel, self.job.env.describe(), dict(warm))
            (self.folder / "manifest.json").write_text(json.dumps(facts, indent=2))

    def _update(self) -> None:
        """One update, its evaluation and its checkpoint when they are due."""
        update = self.progress.update + 1
        started = time.perf_counter()
        before = dict(self.progress.seconds)
        batch, timing = self._collect(update)
        with self._timed(m.TIME_CREDIT):
            rows, credit = self._credit(batch)
        with self._timed(m.TIME_LEARNER):
            result = self.learner.update(TrainBatch.build(batch, rows, credit), number(self.settings.seed, "shuffle", update))
        self.progress.update = update
        metrics = episode_metrics(batch.trajectories)
        self.progress.transitions += int(metrics["episode/decisions"])
        metrics |= {f"{m.CREDIT_PREFIX}{name}": value for name, value in _mean_over_ranks(credit.diagnostics).items()}
        metrics |= result.metrics
        self._count_skipped(result.skipped, batch, credit, update)
        metrics[m.SKIPPED] = float(self.progress.skipped)
        metrics["training/transitions"] = float(self.progress.transitions)
        metrics["prompt_length/cut"] = float(timing.prompts_cut)
        metrics |= {k: v - before.get(k, 0.0) for k, v in self.progress.seconds.items() if k != m.TIME_EVALUATION}
        metrics.pop(m.TIME_WARM_START, None)
        metrics[m.TIME_STEP] = time.perf_counter() - started
        self._store(batch, credit, update)
        self.tracker.update(update, metrics)
        every = self.settings.evaluation.every
        if (every and update % every == 0) or update == self.settings.training.updates:
            self._evaluate()
        if self.settings.checkpoint.every and update % self.settings.checkpoint.every == 0:
            self._save()

    def _collect(self, update: int) -> tuple[RolloutBatch, Timing]:
        timing, rollout = Timing(), self.settings.rollout
        with self._timed(m.TIME_ROLLOUTS):
            mine = [(i, task) for i, task in enumerate(self._tasks_of(update)) if i % world_size() == rank()]
            groups = collect(
                self.job.env,
                self.policy,
                mine,
                rollout.group_size,
                update,
                self.settings.seed,
                rollout.temperature,
                timing,
                lambda done, total_: self.tracker.progress("rollouts", done, total_),
            )
        self._spend(m.TIME_ENVIRONMENT, timing.environment)
        self._report_errors(groups)
        return RolloutBatch(groups, update, self.settings.seed, rollout.temperature), timing

    def _report_errors(self, groups: tuple[Any, ...]) -> None:
        failed = [t for g in groups for t in g.trajectories if t.error]
        if failed:
            self.tracker.event("trajectory_error", f"{len(failed)} trajectories failed, first: {failed[0].error}")
        if groups and len(failed) == sum(len(g.trajectories) for g in groups):
            raise TrainingFailedError(f"every trajectory of the update failed; first error: {failed[0].error}")

    def _tasks_of(self, update: int) -> list[Task]:
        """The update's tasks: consecutive stretches of one shuffled order per pass over the training tasks."""
        count, size = self.settings.rollout.groups, len(self.tasks)
        chosen = []
        for position in range((update - 1) * count, update * count):
            epoch, index = divmod(position, size)
            order = derive(self.settings.seed, "task order", epoch).permutation(size)
            chosen.append(self.tasks[int(order[index])])
        return chosen

    def _credit(self, batch: RolloutBatch) -> tuple[Rows, Credit]:
        """Rows and credit of a batch: shaping first, then the method, then the auxiliary losses that were added."""
        rows = Rows.from_batch(batch)
        shaped = rows.with_rewards(self.job.shaping(rows)) if self.job.shaping is not None else rows
        credit: Credit = self.job.method(shaped)
        for auxiliary in self.job.aux:
            loss, diagnostics = auxiliary(shaped)
            credit = replace(credit, auxiliary=(*credit.auxiliary, loss), diagnostics={**credit.diagnostics, **diagnostics})
        return shaped, credit

    def _count_skipped(self, reason: str | None, batch: RolloutBatch, credit: Credit, update: int) -> None:
        if reason is None:
            self.progress.skipped_in_a_row = 0
            return
        self.progress.skipped += 1
        self.progress.skipped_in_a_row += 1
        self.tracker.event("skipped_update", f"update {update} was skipped: {reason}")
        if self.progress.skipped_in_a_row >= self.settings.training.max_skipped:
            path = self.store.save(batch, advantages=credit.advantages)
            raise TrainingFailedError(
                f"{self.progress.skipped_in_a_row} updates in a row were skipped, the last because {reason}; "
                f"its batch is saved in {path}"
            )

    def _store(self, batch: RolloutBatch, credit: Credit, update: int) -> None:
        every = self.settings.checkpoint.rollouts_every
        if every and update % every == 0:
            with self._timed("timing_s/store"):
                self.store.save(batch, advantages=credit.advantages)

    def _evaluate(self) -> None:
        update, evaluation = self.progress.update, self.settings.evaluation
        started = time.perf_counter()
        with self._timed(m.TIME_EVALUATION):
            metrics = evaluate(
                self.job.env,
                self.policy,
                self.panel,
                evaluation.temperature,
                lambda done, total_: self.tracker.progress("evaluation", done, total_),
            )
        metrics[m.TIME_EVALUATION] = time.perf_counter() - started
        if update == 0:
            metrics[m.TIME_WARM_START] = self.progress.seconds[m.TIME_WARM_START]
        self.progress.evaluations.append([update, metrics[m.VAL_SUCCESS]])
        self.tracker.evaluation(update, metrics)

    def _save(self) -> None:
        with self._timed("timing_s/save_checkpoint"):
            self.checkpoints.save(
                self.progress.update,
                {"progress": {k: getattr(self.progress, k) for k in Progress.__dataclass_fields__}},
                lambda folder: save_state(self.learner, self.tokenizer, folder),
                self.progress.best,
            )

    def _finish(self, status: Any, message: str) -> int:
        if status == "finished" and self.progress.update not in self.checkpoints.updates():
            self._save()
        seconds = {**self.progress.seconds, m.TIME_TOTAL: time.perf_counter() - self.started}
        paths = {
            "checkpoints": self.checkpoints.folder,
            "rollouts": self.store.folder,
            "manifest": self.folder / "manifest.json",
        }
        curve = self._draw()
        if curve:
            paths["curve"] = curve
        self.tracker.finish(Summary(status, metrics=seconds, paths=paths, message=message))
        return {"finished": 0, "interrupted": EXIT_INTERRUPTED}.get(status, EXIT_FAILED)

    def _draw(self) -> Path | None:
        if rank() != 0 or len(self.progress.evaluations) < 1:
            return None
        from creditlab.analysis.figures import learning_curve  # matplotlib is slow to import

        return learning_curve(self.folder / "metrics.jsonl", self.folder / "figures" / "learning_curve.png", self.job.name)

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._spend(name, time.perf_counter() - start)

    def _spend(self, name: str, seconds: float) -> None:
        self.progress.seconds[name] = self.progress.seconds.get(name, 0.0) + seconds


def _mean_over_ranks(values: Mapping[str, float]) -> dict[str, float]:
    """Finite diagnostics, averaged over ranks; every rank has the same names, since they come from one method."""
    names = sorted(values)
    numbers = np.array([values[name] if math.isfinite(values[name]) else 0.0 for name in names], dtype=np.float64)
    return dict(zip(names, (total(numbers) / world_size()).tolist(), strict=True))
