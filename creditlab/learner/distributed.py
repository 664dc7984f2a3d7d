"""The few collective operations of a run, on host memory; with one process every function is the identity."""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TypeVar

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

Number = TypeVar("Number", bound=np.generic)

WAIT = 1800.0
"""Seconds that a rank waits for the others unless told otherwise."""
FAREWELL = 20.0
"""Seconds that a rank that is done waits for the first one to have told of the end."""
LINGER = 3.0
"""Seconds that the first rank waits for the others to have seen that."""
_TOLD, _HEARD = "creditlab/told", "creditlab/heard"
_LOST = re.compile(r"gloo|nccl|connection (closed|reset)|broken pipe|timed? ?out|process group", re.IGNORECASE)


class RankLostError(RuntimeError):
    """Another rank has ended or did not answer in time."""


def rank() -> int:
    """This process's rank."""
    return dist.get_rank() if dist.is_initialized() else int(os.environ.get("RANK", "0"))


def world_size() -> int:
    """Number of ranks."""
    return dist.get_world_size() if dist.is_initialized() else int(os.environ.get("WORLD_SIZE", "1"))


def start_processes(timeout: float = WAIT) -> None:
    """Joins the process group: gloo serves host memory, NCCL the GPUs; a second call does nothing.

    A launcher's variables say which ranks there are; without one, the only process needs neither them nor a port. No wait
    for another rank lasts longer than `timeout` seconds. Raises ValueError naming a variable that is missing, or the place
    where the ranks cannot meet.
    """
    os.environ.setdefault("LOCAL_RANK", "0")  # DeepSpeed asks for it
    if dist.is_initialized():
        return
    backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(own_gpu(int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()))
    ranks = world_size()
    if ranks == 1:
        store = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=0, world_size=1)
        return
    missing = [name for name in ("RANK", "MASTER_ADDR", "MASTER_PORT") if name not in os.environ]
    if missing:
        raise ValueError(f"WORLD_SIZE={ranks} announces several ranks but {missing[0]} is not set; start them with torchrun")
    place = f"MASTER_ADDR={os.environ['MASTER_ADDR']} and MASTER_PORT={os.environ['MASTER_PORT']}"
    try:
        dist.init_process_group(backend, timeout=timedelta(seconds=timeout))
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"rank {os.environ['RANK']} of {ranks} cannot meet the others at {place}: {_first_line(error)}; check that this "
            "is the first rank's machine with a free port there, and that all ranks were started"
        ) from error
    wait_for_all()


def own_gpu(local_rank: int, visible: int) -> int:
    """Which of the visible GPUs belongs to a rank of this machine; a scheduler may show each rank its own one alone."""
    return local_rank % visible


@contextmanager
def losing_ranks() -> Iterator[None]:
    """Turns what torch raises when another rank is gone, or silent for too long, into RankLostError."""
    try:
        yield
    except RankLostError:
        raise
    except RuntimeError as error:
        if world_size() == 1 or not (isinstance(error, dist.DistError) or _LOST.search(str(error))):
            raise
        reason = "did not answer in time" if re.search(r"timed? ?out", str(error), re.IGNORECASE) else "has ended"
        told = "what it said itself, if anything, tells why"
        raise RankLostError(f"another rank {reason}; {told} (noticed here as: {_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    """What an error of torch says before it shows where."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)[:300]


def take_leave() -> bool:
    """Ends the common work, on the first rank once it has told how; returns whether it has.

    The others wait for that, because a launcher ends all ranks as soon as one has ended with an error, and the first one
    lingers until they know, because their connection may lead through it.
    """
    if world_size() == 1 or not dist.is_initialized():
        return True
    store = dist.distributed_c10d._get_default_store()
    with suppress(RuntimeError):  # the connection may have ended with the first rank
        if rank() == 0:
            store.set(_TOLD, "1")
            if _await(lambda: store.add(_HEARD, 0) >= world_size() - 1, LINGER):
                store.delete_key(_TOLD)  # the processes may go on to another run
                store.delete_key(_HEARD)
            return True
        if _await(lambda: store.check([_TOLD]), FAREWELL):
            store.add(_HEARD, 1)
            return True
    return False


def _await(condition: Callable[[], bool], seconds: float) -> bool:
    """Whether a condition comes true in time."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(0.05)
    return met


def wait_for_all() -> None:
    """Returns once every rank has called it."""
    total(np.zeros(1))


def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Element-wise sum of an array over ranks."""
    if world_size() == 1:
        return values
    tensor = torch.from_numpy(np.array(values, dtype=np.float64))
    with losing_ranks():
        dist.all_reduce(tensor)
    return np.asarray(tensor.numpy())


def largest(value: float) -> float:
    """Maximum of a number over ranks."""
    if world_size() == 1:
        return value
    tensor = torch.tensor(value, dtype=torch.float64)
    with losing_ranks():
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return float(tensor)


def merge(values: Mapping[str, float]) -> dict[str, float]:
    """One set of named numbers from those of all ranks, which may have different names.

    Integers are counts and are added up; floats are averaged over the ranks that have them. Numbers that are not finite
    are left out.
    """
    own = {name: value for name, value in values.items() if math.isfinite(value)}
    return {n: sum(v) if isinstance(v[0], int) else sum(v) / len(v) for n, v in _by_name(own).items()}


def add_up(values: Mapping[str, float]) -> dict[str, float]:
    """Sums of named numbers over the ranks that have them."""
    return {name: sum(found) for name, found in _by_name(values).items()}


def _by_name(values: Mapping[str, float]) -> dict[str, list[float]]:
    """The values of every name on the ranks that have it, in rank order."""
    own = {n: v if isinstance(v, int) else float(v) for n, v in values.items()}
    parts = [json.loads(text) for text in gather_texts(json.dumps(own))]
    return {name: [part[name] for part in parts if name in part] for name in sorted({n for part in parts for n in part})}


def gather_texts(text: str) -> list[str]:
    """The texts of every rank, in rank order."""
    return [data.decode() for data in gather_bytes(text.encode())]


def gather_bytes(data: bytes) -> list[bytes]:
    """The data of every rank, in rank order."""
    return [part.tobytes() for part in gather(np.frombuffer(data, np.uint8))]


def gather(values: NDArray[Number]) -> list[NDArray[Number]]:
    """The arrays [any length] of every rank, in rank order."""
    if world_size() == 1:
        return [values]
    lengths = total(np.eye(world_size())[rank()] * len(values)).astype(np.int64)
    padded = np.zeros(max(1, int(lengths.max())), values.dtype)
    padded[: len(values)] = values
    mine = torch.from_numpy(padded)
    parts = [torch.empty_like(mine) for _ in range(world_size())]
    with losing_ranks():
        dist.all_gather(parts, mine)
    return [np.asarray(part.numpy()[:length]) for part, length in zip(parts, lengths, strict=True)]
