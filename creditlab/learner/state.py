"""The learner's state as plain tensors: model in Hugging Face format, optimizer moments in safetensors."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from creditlab.learner.distributed import rank
from creditlab.learner.learner import Learner
from creditlab.learner.module import GuardedAdamW

MOMENTS = ("exp_avg", "exp_avg_sq")
OPTIMIZER_FILE = "optimizer.safetensors"


@dataclass(frozen=True)
class LearnerState:
    """The whole state of a learner, gathered from all ranks and ready to be written by the first one."""

    model: Any
    tensors: dict[str, torch.Tensor]
    """Optimizer moments, step and master weights by name."""

    def write(self, tokenizer: Any, folder: Path) -> None:
        """Writes `model/` and `optimizer.safetensors`."""
        self.model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        save_file(self.tensors, folder / OPTIMIZER_FILE)


def gather_state(learner: Learner) -> LearnerState:
    """The state of a learner; collective under ZeRO, where every rank has to call it."""
    learner.refresh()
    return LearnerState(learner.whole, optimizer_tensors(learner))


def load_optimizer(learner: Learner, folder: Path) -> None:
    """Puts the saved moments, step and master weights back; raises ValueError naming a file that does not fit."""
    path = folder / OPTIMIZER_FILE
    with safe_open(path, "pt") as saved:  # one tensor at a time: a rank need not hold the moments of all of them
        names = set(saved.keys())
        expected = {f"{name}/{moment}" for name, _ in learner.module.named_parameters() for moment in MOMENTS}
        if names and not expected <= names:
            raise ValueError(f"{path} belongs to another model: it lacks {sorted(expected - names)[0]!r}")
        if not names:
            return
        if isinstance(learner.engine.optimizer, GuardedAdamW):
            _load_whole(learner, saved.get_tensor)
        else:
            _load_sharded(learner, saved.get_tensor, names)


def optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    """Full, unsharded moments by parameter name, the step count, and the float32 master weights where they differ.

    On host memory; every rank has to call it under ZeRO, the first one gets them, the others nothing. Empty before the
    first optimizer step.
    """
    if not learner.optimizer.state:
        return {}
    plain = isinstance(learner.engine.optimizer, GuardedAdamW)
    tensors: dict[str, torch.Tensor] = {}

    def keep(name: str, tensor: torch.Tensor) -> None:
        if rank() == 0:
            tensors[name] = tensor.detach().cpu().contiguous()

    keep("step", _step(learner))
    for name, parameter in learner.module.named_parameters():
        for moment in MOMENTS:
            keep(f"{name}/{moment}", learner.optimizer.state[parameter][moment] if plain else _full_state(parameter, moment))
        if not plain:
            keep(f"{name}/master", _full_master(parameter))
    return tensors


def _step(learner: Learner) -> torch.Tensor:
    return torch.as_tensor(next(iter(learner.optimizer.state.values()))["step"], dtype=torch.float32)


def _full_state(parameter: torch.nn.Parameter, moment: str) -> torch.Tensor:
    from deepspeed.utils import safe_get_full_optimizer_state

    tensor: torch.Tensor = safe_get_full_optimizer_state(parameter, moment)
    return tensor


def _full_master(parameter: torch.nn.Parameter) -> torch.Tensor:
    from deepspeed.utils import safe_get_full_fp32_param

    tensor: torch.Tensor = safe_get_full_fp32_param(parameter)
    return tensor


def _load_whole(learner: Learner, tensor: Callable[[str], torch.Tensor]) -> None:
    for name, parameter in learner.module.named_parameters():
        learner.optimizer.state[parameter] = {
            "step": tensor("step").clone(),
            **{moment: tensor(f"{name}/{moment}").to(parameter.device).clone() for moment in MOMENTS},
        }


def _load_sharded(learner: Learner, tensor: Callable[[str], torch.Tensor], names: Collection[str]) -> None:
    from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

    learner.idle_step()  # shards of the moments exist only after a first step
    for name, parameter in learner.module.named_parameters():
        for moment in MOMENTS:
            safe_set_full_optimizer_state(parameter, tensor(f"{name}/{moment}"), moment)
        if f"{name}/master" in names:  # without ZeRO the weights themselves were the master weights
            safe_set_full_fp32_param(parameter, tensor(f"{name}/master"))
    for state in learner.optimizer.state.values():
        state["step"] = tensor("step").clone()
