"""The DeepSpeed learner: one update from training sequences, on any number of ranks."""

from __future__ import annotations

import copy
import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from creditlab.learner.balance import balanced, mass_by_length
from creditlab.learner.batching import StepPlan, plan_steps
from creditlab.learner.distributed import add_up, gather, gather_texts, largest, start_processes, total, world_size
from creditlab.learner.losses import Denominators, PolicyLoss, policy_loss
from creditlab.learner.module import GuardedAdamW, PolicyModule, score
from creditlab.learner.sequences import MicroBatch, Scored, TrainBatch, tokens
from creditlab.learner.settings import DeepSpeedLearner

NO_ROWS: NDArray[np.int64] = np.zeros(0, np.int64)
SUMMED = ("actor/pg_loss", "actor/entropy", "actor/kl_loss", "actor/loss", "actor/pg_clipfrac", "actor/ppo_kl")
"""Tracked parts of the policy loss."""


@dataclass
class UpdateResult:
    """What an update did."""

    metrics: dict[str, float]
    skipped: str | None = None
    """Why the update was abandoned, naming the decision or the norm; None when it was applied whole."""


class _Sums:
    """Running sums of one optimizer step on this rank, added up over ranks afterwards."""

    def __init__(self, batch: TrainBatch) -> None:
        auxiliary = [f"actor/{a.name}_{part}" for a in batch.auxiliary if a.weight for part in ("loss", "realised")]
        self.values = dict.fromkeys((*SUMMED, *auxiliary), 0.0)

    def add(self, name: str, value: Any) -> None:
        self.values[name] += float(value)


class Learner:
    """Owns the DeepSpeed engine round a causal language model.

    The gradient of an optimizer step is that of the sum over all ranks' micro-batches, each divided by counts of the whole
    step; neither the micro-batch split nor the number of ranks changes it.
    """

    def __init__(
        self,
        model: nn.Module,
        settings: DeepSpeedLearner,
        *,
        pad: int,
        temperature: float = 1.0,
        reference: nn.Module | None = None,
    ) -> None:
        start_processes()
        deepspeed = _import_deepspeed()
        self.settings, self.pad = settings, pad
        self.module = PolicyModule(model.float() if settings.precision == "fp32" else model, temperature)
        # bf16 weights need float32 master weights, which ZeRO keeps; without ZeRO DeepSpeed's own keeper of them counts a
        # step too many and cannot be saved
        self.zero_stage = max(settings.zero_stage, 1) if settings.precision == "bf16" else settings.zero_stage
        self.optimizer = GuardedAdamW(
            self.module.parameters(),
            lr=settings.lr,
            betas=(settings.beta1, settings.beta2),
            weight_decay=settings.weight_decay,
            max_norm=settings.max_grad_norm if self.zero_stage == 0 else None,
            agree=largest,
        )
        copied = copy.deepcopy(self.module.model) if self.zero_stage == 3 else None
        deepspeed.init_distributed(verbose=False)
        self.engine, *_ = deepspeed.initialize(
            model=self.module, optimizer=self.optimizer, config=self._deepspeed_config(), dist_init_required=False
        )
        self.device = self.engine.device
        self.whole: nn.Module = self.module.model
        """The model that samples and is saved: the trained one, or under ZeRO-3, which shards it, a copy; see `refresh`."""
        if copied is not None:
            self.whole = copied.to(self.device, next(self.module.parameters()).dtype).requires_grad_(False).eval()
        self._stale = True
        self.reference = PolicyModule(reference, temperature).to(self.device).eval() if reference is not None else None

    def _deepspeed_config(self) -> dict[str, Any]:
        settings = self.settings
        return {
            "train_micro_batch_size_per_gpu": settings.micro_batch,
            "gradient_accumulation_steps": 1,
            "managed_gradient_accumulation": False,
            "gradient_clipping": settings.max_grad_norm if self.zero_stage else 0.0,
            "zero_optimization": {"stage": self.zero_stage},
            "zero_allow_untested_optimizer": True,
            "bf16": {"enabled": settings.precision == "bf16"},
            "steps_per_print": 10**9,
        }

    def refresh(self) -> None:
        """Brings `whole` up to date with the trained weights; collective under ZeRO-3, where every rank has to call it."""
        if self.whole is self.module.model or not self._stale:
            return
        from deepspeed.runtime.zero import GatheredParameters

        pairs = zip(self.module.model.parameters(), self.whole.parameters(), strict=True)
        with torch.no_grad():
            for sharded, whole in pairs:  # one at a time: no rank holds the weights twice
                with GatheredParameters([sharded]):
                    whole.copy_(sharded)
        self._stale = False

    def update(self, batch: TrainBatch, seed: int) -> UpdateResult:
        """Trains on a batch for the configured epochs; a step that is not finite ends the update and is named.

        Every rank has to call it, also one without any decision.
        """
        self.engine.train()
        self._stale = True
        if self.settings.trajectory_weight == "equal":
            batch = balanced(batch)
        mass = mass_by_length(batch)
        result = UpdateResult({})
        history: list[dict[str, float]] = []
        for epoch in range(self.settings.epochs):
            for plan in self._plan(batch, seed + epoch):
                metrics, result.skipped = self._step(batch, plan)
                if result.skipped:
                    break
                history.append(metrics)
            if result.skipped:
                break
        if history:
            # pairs are counted per pass, to stand beside the number that was constructed; all else is a mean over steps
            count = {k: self.settings.epochs if k.endswith("_realised") else len(history) for k in history[0]}
            result.metrics = {k: sum(h[k] for h in history) / count[k] for k in history[0]}
            result.metrics["actor/ratio_p95_first"] = history[0]["actor/ratio_p95"]
            result.metrics |= mass
        if result.skipped and history:
            result.skipped += f" (after {len(history)} whole optimizer steps, which stay)"
        result.metrics["actor/lr"] = self.settings.lr
        result.metrics["actor/optimizer_steps"] = float(len(history))
        return result

    def idle_step(self) -> None:
        """An optimizer step with learning rate and gradient 0: moments exist after it, weights are as before."""
        batch = TrainBatch((), (), (), np.zeros(0), (), NO_ROWS, NO_ROWS, NO_ROWS, describe=str)
        loss, _, _ = self._micro(batch, None, Denominators(0, 0), _Sums(batch))
        rates = [group["lr"] for group in self.optimizer.param_groups]
        for group in self.optimizer.param_groups:
            group["lr"] = 0.0
        self.engine.backward(loss, scale_wrt_gas=False)
        self.engine.step()
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate

    def _plan(self, batch: TrainBatch, seed: int) -> list[StepPlan]:
        settings = self.settings
        lengths = np.array([len(p) + len(r) for p, r in zip(batch.prompts, batch.responses, strict=True)], np.int64)
        packed = [a.pairs for a in batch.auxiliary if a.weight and settings.pair_placement == "pack"]
        return plan_steps(
            batch.keys,
            lengths,
            packed,
            steps=settings.steps,
            mini_batch=settings.mini_batch,
            micro_batch=settings.micro_batch,
            seed=seed,
        )

    def _step(self, batch: TrainBatch, plan: StepPlan) -> tuple[dict[str, float], str | None]:
        """One optimizer step: metrics, and the reason if it was refused."""
        rows = np.concatenate(plan.micro_batches) if plan.micro_batches else NO_ROWS
        counts = total(np.array([tokens(batch, rows), sum(len(batch.responses[r]) > 0 for r in rows)], np.float64))
        denominators = Denominators(tokens=int(counts[0]), rows=int(counts[1]))
        sums, deviations = _Sums(batch), [np.zeros(0, np.float32)]
        for call in range(plan.calls):
            chosen = plan.micro_batches[call] if call < len(plan.micro_batches) else None
            loss, problem, deviation = self._micro(batch, chosen, denominators, sums)
            if largest(1.0 if problem else 0.0):
                problem = next(text for text in gather_texts(problem or "") if text)
                if call:  # DeepSpeed's own step clears what the micro-batches before this one have accumulated
                    self.optimizer.refuse_next = True
                    self.engine.step()
                return {}, problem
            deviations.append(deviation)
            self.engine.backward(loss * world_size(), scale_wrt_gas=False)
        if plan.calls:
            self.optimizer.refused = False
            self.engine.step()
            # under ZeRO DeepSpeed itself may see the overflow first, and then takes no step
            if self.optimizer.refused or not self.engine.was_step_applied():
                return {}, f"the gradient is not finite in the optimizer step {_name_step(batch, rows)}"
        return self._metrics(sums, denominators, np.concatenate(deviations)), None

    def _micro(
        self, batch: TrainBatch, rows: NDArray[np.int64] | None, denominators: Denominators, sums: _Sums
    ) -> tuple[torch.Tensor, str | None, NDArray[np.float32]]:
        """Loss of one micro-batch (of weight zero when this rank has none left), what is wrong with it, |ratio − 1|."""
        micro = MicroBatch.build(batch, NO_ROWS if rows is None else rows, self.pad, self.device)
        logp, entropy = score(self.engine, micro)
        if (
            rows is None
        ):  # through both outputs: ZeRO-3 fetches weights on the way back along each of them, on all ranks alike
            return (logp.sum() + entropy.sum()) * 0.0, None, np.zeros(0, np.float32)
        parts = policy_loss(
            self.settings,
            logp,
            micro.old_logp,
            micro.advantages,
            micro.mask,
            entropy,
            self._reference_logp(micro),
            denominators,
        )
        loss = parts.loss
        _record(sums, parts)
        view = Scored(micro.rows, logp, micro.old_logp, micro.mask, denominators.rows)
        for auxiliary in batch.auxiliary:
            if auxiliary.weight:
                term = auxiliary(view)
                sums.add(f"actor/{auxiliary.name}_loss", term.detach())
                sums.add(f"actor/{auxiliary.name}_realised", _together(auxiliary.pairs, micro.rows))
                loss = loss + auxiliary.weight * term
        problem = None if torch.isfinite(loss) else _name_row(batch, micro, logp, entropy)
        return loss, problem, parts.deviation.cpu().numpy()

    def _reference_logp(self, micro: MicroBatch) -> torch.Tensor | None:
        if self.reference is None or not self.settings.kl:  # kept for the features of a method alone
            return None
        with torch.no_grad():
            return score(self.reference, micro)[0]

    def _metrics(self, sums: _Sums, denominators: Denominators, deviation: NDArray[np.float32]) -> dict[str, float]:
        metrics = add_up(sums.values)  # a rank without decisions knows no auxiliary loss
        for name in ("actor/pg_clipfrac", "actor/ppo_kl"):
            metrics[name] /= max(denominators.tokens, 1)
        norm = self.optimizer.norm if self.zero_stage == 0 else float(self.engine.get_global_grad_norm() or 0.0)
        metrics["actor/grad_norm"] = norm
        deviation = np.concatenate(gather(deviation))
        metrics["actor/ratio_p95"] = float(np.quantile(deviation, 0.95)) if deviation.size else 0.0
        return metrics


def _record(sums: _Sums, parts: PolicyLoss) -> None:
    values = (parts.pg, parts.entropy, parts.kl, parts.loss.detach(), parts.clipped, parts.ppo_kl)
    for name, value in zip(SUMMED, values, strict=True):
        sums.add(name, value)


def _together(pairs: NDArray[np.int64], rows: NDArray[np.int64]) -> int:
    """How many pairs have both rows among the given ones."""
    return int(np.isin(pairs, rows).all(axis=1).sum()) if pairs.size else 0


def _name_row(batch: TrainBatch, micro: MicroBatch, logp: torch.Tensor, entropy: torch.Tensor) -> str:
    """Names the first decision of a micro-batch whose probability ratio or entropy is not finite, else the first one."""
    sound = torch.isfinite((logp.detach() - micro.old_logp).exp() + entropy.detach()) | ~micro.mask
    bad = np.flatnonzero(~sound.all(dim=1).cpu().numpy())
    row = int(micro.rows[bad[0] if bad.size else 0])
    what = "probability ratio or entropy is not finite at" if bad.size else "the loss is not finite in the micro-batch with"
    return f"{what} {batch.describe(row)}"


def _name_step(batch: TrainBatch, rows: NDArray[np.int64]) -> str:
    """Names the decisions of an optimizer step by their number and the first one."""
    return f"of {len(rows)} decisions that holds {batch.describe(int(rows[0]))}" if len(rows) else "of another rank"


def _import_deepspeed() -> Any:
    """DeepSpeed, quiet and without building its optional CPU extension."""
    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")  # else it warns that it found nothing better
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import deepspeed
        from deepspeed.ops import __compatible_ops__

        # Its shared-memory collective would be compiled at the first start, for 40 s, where a compiler exists at all.
        compatible: Mapping[str, bool] = __compatible_ops__
        compatible["deepspeed_shm_comm"] = False  # type: ignore[index]
    return deepspeed
