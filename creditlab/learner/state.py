"""The learner's state as plain tensors: model in Hugging Face format, optimizer moments in safetensors."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from creditlab.learner.learner import Learner
from creditlab.learner.module import GuardedAdamW

MOMENTS = ("exp_avg", "exp_avg_sq")
OPTIMIZER_FILE = "optimizer.safetensors"


def save_state(learner: Learner, tokenizer: Any, folder: Path) -> None:
    """Writes `model/` and `optimizer.safetensors`; collective under ZeRO, where every rank has to call it."""
    tensors = optimizer_tensors(learner)
    with _whole_parameters(learner):
        if learner.engine.global_rank:
            return
        model: Any = learner.module.model
        model.save_pretrained(folder / "model")
        tokenizer.save_pretrained(folder / "model")
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, folder / OPTIMIZER_FILE)


def load_optimizer(learner: Learner, folder: Path) -> None:
    """Puts the saved moments, step and master weights back; raises ValueError naming a file that does not fit."""
    path = folder / OPTIMIZER_FILE
    tensors = load_file(path)
    expected = {f"{name}/{moment}" for name, _ in learner.module.named_parameters() for moment in MOMENTS}
    if tensors and not expected <= tensors.keys():
        raise ValueError(f"{path} belongs to another model: it lacks {sorted(expected - tensors.keys())[0]!r}")
    if not tensors:
        return
    if isinstance(learner.engine.optimizer, GuardedAdamW):
        for name, parameter in learner.module.named_parameters():
            learner.optimizer.state[parameter] = {
                "step": tensors["step"].clone(),
                **{moment: tensors[f"{name}/{moment}"].to(parameter.device).clone() for moment in MOMENTS},
            }
        return
    _load_sharded(learner, tensors)


def optimizer_tensors(learner: Learner) -> dict[str, torch.Tensor]:
    """Full, unsharded moments by parameter name, the step count, and the float32 master weights where they differ.

    Empty before the first optimizer step.
    """
    if not learner.optimizer.state:
        return {}
    plain = isinstance(learner.engine.optimizer, GuardedAdamW)
    tensors: dict[str, torch.Tensor] = {"step": _step(learner)}
    for name, parameter in learner.module.named_parameters():
        for moment in MOMENTS:
            tensors[f"{name}/{moment}"] = (
                learner.optimizer.state[parameter][moment] if plain else _full_state(parameter, moment)
            )
        if not plain:
            tensors[f"{name}/master"] = _full_master(parameter)
    return tensors


def _whole_parameters(learner: Learner) -> AbstractContextManager[Any]:
    """Within it every rank holds whole parameters, which ZeRO-3 shards."""
    from deepspeed.runtime.zero import GatheredParameters

    context: AbstractContextManager[Any] = GatheredParameters(
        list(learner.module.parameters()), enabled=learner.zero_stage == 3
    )
    return context


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


def _load_sharded(learner: Learner, tensors: dict[str, torch.Tensor]) -> None:
    from deepspeed.utils import safe_set_full_fp32_param, safe_set_full_optimizer_state

    learner.idle_step()  # shards of the moments exist only after a first step
    for name, parameter in learner.module.named_parameters():
        for moment in MOMENTS:
            safe_set_full_optimizer_state(parameter, tensors[f"{name}/{moment}"], moment)
        safe_set_full_fp32_param(parameter, tensors[f"{name}/master"])
    for state in learner.optimizer.state.values():
        state["step"] = tensors["step"].clone()
