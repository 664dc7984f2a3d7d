"""The few collective operations of a run; with one process every function is the identity."""

from __future__ import annotations

import os
import socket

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


def prepare_environment() -> None:
    """Sets the variables DeepSpeed reads, where no launcher did, so that it does not look for MPI."""
    os.environ.setdefault("RANK", "0")
    os.environ.setdefault("WORLD_SIZE", "1")
    os.environ.setdefault("LOCAL_RANK", "0")
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    if "MASTER_PORT" not in os.environ:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            os.environ["MASTER_PORT"] = str(probe.getsockname()[1])


def total(values: NDArray[np.float64], device: torch.device | str = "cpu") -> NDArray[np.float64]:
    """Element-wise sum of an array over ranks."""
    if world_size() == 1:
        return values
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype=np.float64)).to(device)
    dist.all_reduce(tensor)
    return np.asarray(tensor.cpu().numpy())


def largest(value: float, device: torch.device | str = "cpu") -> float:
    """Maximum of a number over ranks."""
    if world_size() == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64, device=device)
    dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def gather(values: NDArray[np.int64], device: torch.device | str = "cpu") -> list[NDArray[np.int64]]:
    """The arrays [any length] of every rank, in rank order."""
    if world_size() == 1:
        return [values]
    lengths = total(np.eye(world_size())[rank()] * len(values), device).astype(np.int64)
    padded = np.zeros(max(1, int(lengths.max())), np.int64)
    padded[: len(values)] = values
    mine = torch.from_numpy(padded).to(device)
    parts = [torch.empty_like(mine) for _ in range(world_size())]
    dist.all_gather(parts, mine)
    return [part.cpu().numpy()[:length] for part, length in zip(parts, lengths, strict=True)]
