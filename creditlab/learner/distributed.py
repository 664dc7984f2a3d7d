"""The few collective operations of a run, on host memory; with one process every function is the identity."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray


def rank() -> int:
    """This process's rank."""
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Number of ranks."""
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def start_processes() -> None:
    """Joins the process group: gloo serves host memory, NCCL the GPUs; a second call does nothing.

    A launcher's variables say which ranks there are; without one, the only process needs neither them nor a port.
    """
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed asks for it
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if world_size() == 1:
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=0, world_size=1)
    else:
        dist.init_process_group(backend)


def wait_for_all() -> None:
    """Returns once every rank has called it."""
    total(np.zeros(1))


def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Element-wise sum of an array over ranks."""
    if world_size() == 1:
        return values
    tensor = torch.from_numpy(np.array(values, dtype=np.float64))
    dist.all_reduce(tensor)
    return np.asarray(tensor.numpy())


def largest(value: float) -> float:
    """Maximum of a number over ranks."""
    if world_size() == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def merge(values: Mapping[str, float]) -> dict[str, float]:
    """One set of named numbers from those of all ranks, which may have different names.

    Integers are counts and are added up; floats are averaged over the ranks that have them. Numbers that are not finite
    are left out.
    """
    own = {name: value for name, value in values.items() if math.isfinite(value)}
    if world_size() == 1:
        return own
    text = json.dumps({n: v if isinstance(v, int) else float(v) for n, v in own.items()}).encode()
    parts = [json.loads(part.astype(np.uint8).tobytes()) for part in gather(np.frombuffer(text, np.uint8).astype(np.int64))]
    merged: dict[str, float] = {}
    for name in sorted({name for part in parts for name in part}):
        found = [part[name] for part in parts if name in part]
        merged[name] = sum(found) if isinstance(found[0], int) else sum(found) / len(found)
    return merged


def gather(values: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """The arrays [any length] of every rank, in rank order."""
    if world_size() == 1:
        return [values]
    lengths = total(np.eye(world_size())[rank()] * len(values)).astype(np.int64)
    padded = np.zeros(max(1, int(lengths.max())), np.int64)
    padded[: len(values)] = values
    mine = torch.from_numpy(padded)
    parts = [torch.empty_like(mine) for _ in range(world_size())]
    dist.all_gather(parts, mine)
    return [part.numpy()[:length] for part, length in zip(parts, lengths, strict=True)]
