"""A run from start to finish: collect → credit → update → evaluate → checkpoint, with resume and interruption."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from creditlab.config import Job, required_features
from creditlab.credit.types import Credit
from creditlab.environments.protocol import Panel
from creditlab.learner.distributed import (
    gather_texts,
    largest,
    losing_ranks,
    merge,
    rank,
    total,
    world_size,
)
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import TrainBatch
from creditlab.learner.state import gather_state, load_optimizer
from creditlab.registry import registry
from creditlab.rollouts import Group, RolloutBatch
from creditlab.rollouts.store import RolloutStore
from creditlab.rollouts.together import RANKS
from creditlab.stopping import EXIT_FAILED, EXIT_INTERRUPTED, tell
from creditlab.tracking import Run, Summary, Tracker, default_listeners
from creditlab.tracking import metrics as m
from creditlab.tracking.writing import WriteError, writing
from creditlab.training import remarks
from creditlab.training.assign import assign, own_part, scope_of_credit
from creditlab.training.checkpoint import Checkpoint, store_of
from creditlab.training.collect import Timing, collect
from creditlab.training.evaluation import episode_metrics, evaluate, expected_informative
from creditlab.training.failure import TrainingFailedError, agreed
from creditlab.training.features import record_features
from creditlab.training.folder import check_present, interruption, locked, prepare_folder
from creditlab.training.manifest import check_same, check_start, made_with, manifest, read_manifest, write_json
from creditlab.training.progress import Progress
from creditlab.training.ranks import on_all_ranks
from creditlab.training.seeds import number, task_order
from creditlab.training.sources import changed_code
from creditlab.training.start import load_policy, make_policy, needs_reference, warm_start


def train(job: Job) -> int:
    """Runs or resumes a training run, on every rank; returns the process's exit code."""
    torch.set_num_threads(job.settings.training.threads or torch.get_num_threads())
    tracker = Tracker()
    return on_all_ranks(job, lambda: _train(job, tracker), lambda: bool(tracker.listeners))


def _train(job: Job, tracker: Tracker) -> int:
    with ExitStack() as stack:
        with agreed():
            check_present(job)
            stack.enter_context(locked(job.folder))
        session = Session(job, tracker, *prepare_folder(job))
        try:
            with tracker:
                session.prepare()  # a Ctrl-C in here ends at once, for nothing would be lost
                with interruption() as stop:
                    return session.run(stop)
        except WriteError as error:  # while preparing
            if not tracker.listeners:  # which tell of it; the first files are written before there are any
                tell(str(error))
            return EXIT_FAILED


class Session:
    """One sitting of a run."""

    def __init__(self, job: Job, tracker: Tracker, checkpoint: Checkpoint | None, notes: Sequence[str] = ()) -> None:
        self.job, self.tracker, self.settings = job, tracker, job.settings
        self.folder = job.folder
        self.checkpoints = store_of(job)
        self.store = RolloutStore(self.folder / "rollouts", rank() if world_size() > 1 else None)
        self.checkpoint, self.notes = checkpoint, notes
        self.saved = checkpoint.update if checkpoint else None
        """Update of the newest checkpoint."""
        self.progress = Progress(**checkpoint.state["progress"]) if checkpoint else Progress()
        self.before = self.progress.seconds.get(m.TIME_TOTAL, 0.0)
        """Seconds of the sittings before this one, up to the checkpoint."""
        self.told: set[str] = set()
        """Keys of which a warning was given."""
        self.started = time.perf_counter()

    def prepare(self) -> None:
        """Panel, tracking, warm start, learner and policy."""
        job = self.job
        with agreed():
            self.panel: Panel = job.env.panel(self.settings.evaluation.episodes, self.settings.evaluation.panel_seed)
            self.tasks = job.env.train_tasks()
            facts = self._facts()
            self._start_tracking(facts)
            for note in self.notes:
                self.tracker.event("warning", note)
        if self.checkpoint is None or needs_reference(job):
            with self._timed(m.TIME_WARM_START):
                start, now = warm_start(job, self.tracker.progress, functools.partial(self.tracker.event, "warning"))
        with agreed():
            if self.checkpoint is None or needs_reference(job):
                check_start(facts["warm_start"], now)
                facts["warm_start"] = facts["warm_start"] or now
            model, tokenizer = load_policy(job, self.checkpoint.path / "model" if self.checkpoint else start)
            reference = load_policy(job, start, training=False)[0].requires_grad_(False) if needs_reference(job) else None
            for remark in remarks.of_start(job, start) if self.checkpoint is None else ():
                self.tracker.event("info", remark)
            if rank() == 0:
                self._write("manifest.json", facts)
        temperature = self.settings.rollout.temperature
        with losing_ranks():
            self.learner = Learner(
                model, job.learner, pad=tokenizer.pad_token_id, temperature=temperature, reference=reference
            )
            if self.checkpoint:
                load_optimizer(self.learner, self.checkpoint.path)
        self.tokenizer = tokenizer
        self.policy = make_policy(job, self.learner.whole, tokenizer)
        self.models = {"actor": self.learner.whole, "reference": reference}

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
            self.notes = [*self.notes, *changed_code(earlier, facts)]
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
        self._write("config.json", job.config)
        self.tracker.listeners += default_listeners(job.tracking)
        for listeners in registry().plugins.hook.creditlab_listeners(run=run):
            self.tracker.listeners += listeners
        self.tracker.start(run)
        with writing(self.store.folder):
            self.store.discard_after(progress.update)

    def _write(self, name: str, facts: Mapping[str, Any]) -> None:
        """Writes plain data into the run folder, of which resume=true finds nothing to continue before an update is done."""
        write_json(self.folder / name, facts, "continue with resume=true" if self.checkpoint else "start the run again")

    def _update(self) -> None:
        """One update, its evaluation and its checkpoint when they are due."""
        update = self.progress.update + 1
        started = time.perf_counter()
        before = dict(self.progress.seconds)
        batch, timing = self._collect(update)
        with self._timed(m.TIME_CREDIT):
            scope = scope_of_credit(self.job, batch)
            with agreed():
                rows, credit = own_part(*assign(self.job, scope), batch)
                decisions = TrainBatch.build(batch, rows, credit)
        with self._timed(m.TIME_LEARNER), losing_ranks():
            result = self.learner.update(decisions, number(self.settings.seed, "shuffle", update))
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
        garbage = remarks.of_garbage(self.job, batch.trajectories)
        with agreed():
            self.tracker.update(update, metrics)
            self._warn_of_cuts(metrics)
            self._warn_once("garbage", garbage)
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
            if decisions and count >= decisions:
                limit = getattr(self.job.prompt, f"max_{part}_tokens")
                self._warn_once(key, f"every {part} of the update was cut to {key}={limit}; raise it")

    def _warn_once(self, key: str, remark: str | None) -> None:
        if remark and key not in self.told:
            self.told.add(key)
            self.tracker.event("warning", remark)

    def _collect(self, update: int) -> tuple[RolloutBatch, Timing]:
        timing, rollout = Timing(), self.settings.rollout
        order = task_order(self.settings.seed, update, rollout.groups, len(self.tasks))
        with self._timed(m.TIME_ROLLOUTS):
            with losing_ranks():
                self.learner.refresh()
            with agreed():
                groups = collect(
                    self.job.env,
                    self.policy,
                    [(i, self.tasks[place]) for i, place in enumerate(order) if i % world_size() == rank()],
                    rollout.group_size,
                    update,
                    self.settings.seed,
                    rollout.temperature,
                    timing,
                    lambda done, total_: self.tracker.progress("rollouts", done, total_),
                )
                groups = record_features(groups, required_features(self.job), self.models, self.job.learner.micro_batch)
        self._spend(m.TIME_ENVIRONMENT, timing.environment)
        self._report_errors(groups)
        return RolloutBatch(groups, update, self.settings.seed, rollout.temperature), timing

    def _report_errors(self, groups: Sequence[Group]) -> None:
        """Tells of the trajectories that failed; raises TrainingFailedError when there is no other."""
        trajectories = [t for group in groups for t in group.trajectories]
        failed = [t.error for t in trajectories if t.error]
        all_failed, all_played = total(np.array([len(failed), len(trajectories)], np.float64)).astype(int)
        if not all_failed:
            return
        first = next(text for text in gather_texts(failed[0] if failed else "") if text)
        with agreed():
            self.tracker.event("trajectory_error", f"{all_failed} trajectories failed, first: {first}")
            if all_failed == all_played:
                raise TrainingFailedError(f"every trajectory of the update failed; first error: {first}")

    def _count_skipped(self, reason: str | None, batch: RolloutBatch, credit: Credit, update: int) -> None:
        if reason is None:
            self.progress.skipped_in_a_row = 0
            return
        self.progress.skipped += 1
        self.progress.skipped_in_a_row += 1
        with agreed():
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
            with self._timed("timing_s/store"), agreed():
                self._save_rollouts(batch, credit)

    def _save_rollouts(self, batch: RolloutBatch, credit: Credit) -> Path:
        with writing(self.store.path(batch.update)):
            return self.store.save(batch, advantages=credit.advantages, metadata={RANKS: str(world_size())})

    def _evaluate(self) -> None:
        update, evaluation = self.progress.update, self.settings.evaluation
        started = time.perf_counter()
        with losing_ranks():
            self.learner.refresh()
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
        size = self.settings.rollout.group_size
        metrics["training/informative_groups_expected"] = expected_informative(metrics[m.VAL_SUCCESS], size)
        metrics[m.TIME_EVALUATION] = time.perf_counter() - started
        self._spend(m.TIME_EVALUATION, metrics[m.TIME_EVALUATION])
        if update == 0:
            metrics[m.TIME_WARM_START] = self.progress.seconds[m.TIME_WARM_START]
        self.progress.evaluations.append([update, metrics[m.VAL_SUCCESS]])
        with agreed():
            self.tracker.evaluation(update, metrics)

    def _save(self) -> None:
        """Writes the checkpoint of the present update, once; every rank takes part, the first one writes."""
        update = self.progress.update
        if update == self.saved:
            return
        self.progress.seconds[m.TIME_TOTAL] = self._total()
        with self._timed("timing_s/save_checkpoint"):
            with losing_ranks():
                whole = gather_state(self.learner)
            with agreed(), writing(self.checkpoints.path(update)):
                if rank() == 0:
                    state = {"progress": asdict(self.progress)}
                    write = functools.partial(whole.write, self.tokenizer)
                    self.checkpoints.save(update, state, write, self.progress.best)
        self.saved = update

    def _finish(self, status: Literal["finished", "interrupted", "failed"], message: str) -> int:
        seconds = {**self.progress.seconds, m.TIME_TOTAL: self._total()}
        paths = {
            "checkpoints": self.checkpoints.folder,
            "rollouts": self.store.folder,
            "manifest": self.folder / "manifest.json",
        }
        paths = {label: path for label, path in paths.items() if path.exists()}
        with suppress(OSError, ValueError):  # on a full disk neither the figure nor all it would show may be there
            if curve := self._draw():
                paths["curve"] = curve
        self.tracker.finish(Summary(status, metrics=seconds, paths=paths, message=message, before=self.before))
        return {"finished": 0, "interrupted": EXIT_INTERRUPTED, "failed": EXIT_FAILED}[status]

    def _draw(self) -> Path | None:
        if rank() != 0 or len(self.progress.evaluations) < 1:
            return None
        from creditlab.analysis.figures import learning_curve  # matplotlib is slow to import

        return learning_curve(self.folder / "metrics.jsonl", self.folder / "figures" / "learning_curve.png", self.job.name)

    def _total(self) -> float:
        """Seconds of the whole run up to now, over its sittings."""
        return self.before + time.perf_counter() - self.started

    @contextmanager
    def _timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._spend(name, time.perf_counter() - start)

    def _spend(self, name: str, seconds: float) -> None:
        self.progress.seconds[name] = self.progress.seconds.get(name, 0.0) + seconds
