"""A run from start to finish: collect → credit → update → evaluate → checkpoint, with resume and interruption."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from creditlab.config import Job
from creditlab.credit.types import Credit
from creditlab.environments.protocol import Panel, Task
from creditlab.learner.distributed import largest, merge, rank, start_processes, total, world_size
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.state import load_optimizer, save_state
from creditlab.options import EXIT_INTERRUPTED
from creditlab.policy.loading import load_model
from creditlab.policy.policy import Policy
from creditlab.policy.prompts import stop_strings
from creditlab.registry import registry
from creditlab.rollouts import Group, RolloutBatch
from creditlab.rollouts.store import RolloutStore
from creditlab.tracking import Run, Summary, Tracker, default_listeners
from creditlab.tracking import metrics as m
from creditlab.tracking.writing import WriteError, writing
from creditlab.training.assign import assign
from creditlab.training.checkpoint import Checkpoint, store_of
from creditlab.training.collect import Timing, collect
from creditlab.training.evaluation import episode_metrics, evaluate
from creditlab.training.failure import TrainingFailedError
from creditlab.training.folder import check_present, check_ranks, interruption, locked, prepare_folder, terminable
from creditlab.training.manifest import check_same, check_start, made_with, manifest, read_manifest, write_json
from creditlab.training.seeds import derive, number
from creditlab.training.start import needs_reference, warm_start

EXIT_FAILED = 1


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
        """The update with the highest held-out success, the earliest of equals; the warm start, update 0, does not count."""
        trained = [e for e in self.evaluations if e[0] > 0]
        return int(max(trained, key=lambda e: (e[1], -e[0]))[0]) if trained else None


def train(job: Job) -> int:
    """Runs or resumes a training run; returns the process's exit code."""
    torch.set_num_threads(job.settings.training.threads or torch.get_num_threads())
    check_ranks(job)
    check_present(job)
    start_processes()
    with terminable(), locked(job.folder):
        try:
            return _train(job)
        except WriteError:  # while preparing; the tracker has told of it
            return EXIT_FAILED
        finally:
            job.env.close()


def _train(job: Job) -> int:
    checkpoint, notes = prepare_folder(job)
    tracker = Tracker()
    session = Session(job, tracker, checkpoint)
    with tracker:
        session.prepare(notes)  # a Ctrl-C in here ends at once, for nothing would be lost
        with interruption() as stop:
            return session.run(stop)


class Session:
    """One sitting of a run."""

    def __init__(self, job: Job, tracker: Tracker, checkpoint: Checkpoint | None) -> None:
        self.job, self.tracker, self.settings = job, tracker, job.settings
        self.folder = job.folder
        self.checkpoints = store_of(job)
        self.store = RolloutStore(self.folder / "rollouts", rank() if world_size() > 1 else None)
        self.checkpoint = checkpoint
        self.saved = checkpoint.update if checkpoint else None
        """Update of the newest checkpoint."""
        self.progress = Progress(**checkpoint.state["progress"]) if checkpoint else Progress()
        self.told: set[str] = set()
        """Keys of which a warning was given."""
        self.started = time.perf_counter()

    def prepare(self, notes: Sequence[str] = ()) -> None:
        """Panel, tracking, warm start, learner and policy."""
        job = self.job
        self.panel: Panel = job.env.panel(self.settings.evaluation.episodes, self.settings.evaluation.panel_seed)
        self.tasks = job.env.train_tasks()
        facts = self._facts()
        self._start_tracking(facts)
        for note in notes:
            self.tracker.event("warning", note)
        with self._timed(m.TIME_WARM_START):
            if self.checkpoint is None or needs_reference(job):
                start, now = warm_start(job, self.tracker.progress, functools.partial(self.tracker.event, "warning"))
                check_start(facts["warm_start"], now)
                facts["warm_start"] = facts["warm_start"] or now
            model, tokenizer = load_model(self.checkpoint.path / "model" if self.checkpoint else start)
        if rank() == 0:
            write_json(self.folder / "manifest.json", facts)
        reference = load_model(start)[0].requires_grad_(False) if needs_reference(job) else None
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
        generator = job.engine.generator(self.learner.module.model, tokenizer, stop_strings(job.prompt))
        self.policy = Policy(job.prompt, tokenizer, generator, self.settings.rollout.batch_size)

    def run(self, stop: Sequence[int]) -> int:
        """Evaluates the start of a fresh run and trains up to `training.updates`; returns the exit code.

        Anything in `stop` ends the run after the update in progress.
        """
        if self.progress.update >= self.settings.training.updates and self.checkpoint:
            return self._finish("finished", "it was finished already; overwrite=true runs it again")
        try:
            if not self.progress.evaluations:
                self._evaluate()
            while self.progress.update < self.settings.training.updates:
                if largest(len(stop)):
                    self._save()
                    return self._finish("interrupted", "interrupted; continue with the same command and resume=true")
                self._update()
            self._save()
        except (TrainingFailedError, WriteError) as error:
            return self._finish("failed", str(error))
        return self._finish("finished", "")

    def _facts(self) -> dict[str, Any]:
        """The manifest; of a resumed run with the warm start it had. Raises ConfigError when the tasks have changed."""
        facts = manifest(self.job, self.panel, self.job.env.describe(), {})
        path = self.folder / "manifest.json"
        if self.checkpoint and path.exists():
            earlier = read_manifest(path)
            check_same(earlier, facts)
            facts["warm_start"] = earlier["warm_start"]
            facts["sittings"] = [*earlier.get("sittings", []), made_with(earlier)]
        return facts

    def _start_tracking(self, facts: Mapping[str, Any]) -> None:
        job, progress = self.job, self.progress
        if rank() != 0:
            return
        run = Run(
            name=self.folder.name,
            folder=self.folder,
            config=job.config,
            manifest=facts,
            seed=self.settings.seed,
            updates=self.settings.training.updates,
            group=f"{job.name}-{job.hash}",
            tags=tuple(f"{axis}={name}" for axis, name in job.choices.items() if name and axis in ("method", "env", "match")),
            resumed=progress.update if self.checkpoint else None,
        )
        write_json(self.folder / "config.json", job.config)
        self.tracker.listeners += default_listeners(job.tracking)
        for listeners in registry().plugins.hook.creditlab_listeners(run=run):
            self.tracker.listeners += listeners
        self.tracker.start(run)
        self.store.discard_after(progress.update)

    def _update(self) -> None:
        """One update, its evaluation and its checkpoint when they are due."""
        update = self.progress.update + 1
        started = time.perf_counter()
        before = dict(self.progress.seconds)
        batch, timing = self._collect(update)
        with self._timed(m.TIME_CREDIT):
            rows, credit = assign(self.job, batch)
        with self._timed(m.TIME_LEARNER):
            result = self.learner.update(TrainBatch.build(batch, rows, credit), number(self.settings.seed, "shuffle", update))
        self.progress.update = update
        self._store(batch, credit, update)
        metrics = episode_metrics(batch.trajectories)
        self.progress.transitions += int(metrics["episode/decisions"])
        metrics |= {f"{m.CREDIT_PREFIX}{name}": float(value) for name, value in merge(credit.diagnostics).items()}
        metrics |= result.metrics
        self._count_skipped(result.skipped, batch, credit, update)
        metrics[m.SKIPPED] = float(self.progress.skipped)
        metrics["training/transitions"] = float(self.progress.transitions)
        metrics["prompt_length/cut"] = float(total(np.array([timing.prompts_cut], np.float64))[0])
        metrics |= {k: v - before.get(k, 0.0) for k, v in self.progress.seconds.items() if v != before.get(k)}
        metrics[m.TIME_STEP] = time.perf_counter() - started
        self.tracker.update(update, metrics)
        self._warn_of_cuts(metrics)
        evaluation, checkpoint = self.settings.evaluation.every, self.settings.checkpoint.every
        if (evaluation and update % evaluation == 0) or update == self.settings.training.updates:
            self._evaluate()
        if checkpoint and (update % checkpoint == 0 or self.progress.best == update):
            self._save()

    def _warn_of_cuts(self, metrics: Mapping[str, float]) -> None:
        """Tells, once each, that every prompt or every response of an update was too long."""
        decisions = metrics["episode/decisions"]
        cut = {"prompt": metrics["prompt_length/cut"], "response": round(metrics[m.CUT_RATIO] * decisions)}
        for part, count in cut.items():
            key = f"prompt.max_{part}_tokens"
            if decisions and count >= decisions and key not in self.told:
                self.told.add(key)
                limit = getattr(self.job.prompt, f"max_{part}_tokens")
                self.tracker.event("warning", f"every {part} of the update was cut to {key}={limit}; raise it")

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

    def _report_errors(self, groups: Sequence[Group]) -> None:
        """Tells of trajectories that failed on this rank; raises TrainingFailedError when no rank has any other."""
        trajectories = [t for group in groups for t in group.trajectories]
        failed = [t for t in trajectories if t.error]
        if failed:
            self.tracker.event("trajectory_error", f"{len(failed)} trajectories failed, first: {failed[0].error}")
        if not total(np.array([len(trajectories) - len(failed)], np.float64))[0]:
            first = failed[0].error if failed else "on another rank"
            raise TrainingFailedError(f"every trajectory of the update failed; first error: {first}")

    def _tasks_of(self, update: int) -> list[Task]:
        """The update's tasks: consecutive stretches of one shuffled order per pass over the training tasks."""
        count, size = self.settings.rollout.groups, len(self.tasks)
        places = [divmod(position, size) for position in range((update - 1) * count, update * count)]
        orders = {n: derive(self.settings.seed, "task order", n).permutation(size) for n in {n for n, _ in places}}
        return [self.tasks[int(orders[n][index])] for n, index in places]

    def _count_skipped(self, reason: str | None, batch: RolloutBatch, credit: Credit, update: int) -> None:
        if reason is None:
            self.progress.skipped_in_a_row = 0
            return
        self.progress.skipped += 1
        self.progress.skipped_in_a_row += 1
        self.tracker.event("skipped_update", f"update {update} was abandoned: {reason}")
        if self.progress.skipped_in_a_row >= self.settings.training.max_skipped:
            path = self._save_rollouts(batch, credit)
            raise TrainingFailedError(
                f"{self.progress.skipped_in_a_row} updates in a row were abandoned, the last because {reason}; "
                f"its batch is saved in {path}"
            )

    def _store(self, batch: RolloutBatch, credit: Credit, update: int) -> None:
        every = self.settings.checkpoint.rollouts_every
        if every and update % every == 0:
            with self._timed("timing_s/store"):
                self._save_rollouts(batch, credit)

    def _save_rollouts(self, batch: RolloutBatch, credit: Credit) -> Path:
        with writing(self.store.path(batch.update)):
            return self.store.save(batch, advantages=credit.advantages)

    def _evaluate(self) -> None:
        update, evaluation = self.progress.update, self.settings.evaluation
        started = time.perf_counter()
        metrics = evaluate(
            self.job.env,
            self.policy,
            self.panel,
            evaluation.temperature,
            lambda done, total_: self.tracker.progress("evaluation", done, total_),
            lambda message: self.tracker.event("trajectory_error", message),
        )
        if not metrics["val/episodes"]:
            raise TrainingFailedError("every episode of the evaluation failed; events.jsonl names the first error")
        metrics[m.TIME_EVALUATION] = time.perf_counter() - started
        self._spend(m.TIME_EVALUATION, metrics[m.TIME_EVALUATION])
        if update == 0:
            metrics[m.TIME_WARM_START] = self.progress.seconds[m.TIME_WARM_START]
        self.progress.evaluations.append([update, metrics[m.VAL_SUCCESS]])
        self.tracker.evaluation(update, metrics)

    def _save(self) -> None:
        """Writes the checkpoint of the present update, once; every rank takes part, the first one writes."""
        update = self.progress.update
        if update == self.saved:
            return
        with self._timed("timing_s/save_checkpoint"), writing(self.checkpoints.path(update)):
            if rank() == 0:
                state = {"progress": asdict(self.progress)}
                write = functools.partial(save_state, self.learner, self.tokenizer)
                self.checkpoints.save(update, state, write, self.progress.best)
            else:
                save_state(self.learner, self.tokenizer, self.checkpoints.folder)
        self.saved = update

    def _finish(self, status: Literal["finished", "interrupted", "failed"], message: str) -> int:
        seconds = {**self.progress.seconds, m.TIME_TOTAL: time.perf_counter() - self.started}
        paths = {
            "checkpoints": self.checkpoints.folder,
            "rollouts": self.store.folder,
            "manifest": self.folder / "manifest.json",
        }
        paths = {label: path for label, path in paths.items() if path.exists()}
        with suppress(OSError, ValueError):  # on a full disk neither the figure nor all it would show may be there
            if curve := self._draw():
                paths["curve"] = curve
        self.tracker.finish(Summary(status, metrics=seconds, paths=paths, message=message))
        return {"finished": 0, "interrupted": EXIT_INTERRUPTED, "failed": EXIT_FAILED}[status]

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
