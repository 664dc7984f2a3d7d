"""What a process may use of its machine: cores and memory, limits of containers included, and folders."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from creditlab.plaintext import clean, reason

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_GROUP = Path("/proc/self/cgroup")
_NO_LIMIT = 1 << 60
"""Version 1 of cgroups writes a number of about this size for no limit."""


def own_cores() -> int:
    """Whole cores for this process, at least 1: its share of those that the ranks on the machine may use together.

    Launchers that start them without cores of their own say how many there are: torchrun and deepspeed.
    """
    limit = core_limit()
    cores = usable_cores() if limit is None else min(usable_cores(), int(limit))
    ranks = os.environ.get("LOCAL_WORLD_SIZE") or os.environ.get("LOCAL_SIZE") or "1"
    return max(1, cores // int(ranks))


def usable_cores() -> int:
    """Cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def core_limit(cgroups: Path = _CGROUPS, own: Path = _OWN_GROUP) -> float | None:
    """Cores' worth of time that the process's control groups allow it; None for no limit."""
    limits = []
    for folder in _folders(cgroups, own, "cpu"):
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text().split()
            limits.append(int(quota) / int(period))  # "max" is no number
        with suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = ((folder / f"cpu.cfs_{part}_us").read_text() for part in ("quota", "period"))
            if int(quota) > 0:
                limits.append(int(quota) / int(period))
    return min(limits, default=None)


def memory_limit(cgroups: Path = _CGROUPS, own: Path = _OWN_GROUP) -> int | None:
    """Bytes that the process's control groups allow it; None for no limit."""
    limits = []
    for folder in _folders(cgroups, own, "memory"):
        for file in ("memory.max", "memory.limit_in_bytes"):
            with suppress(OSError, ValueError):
                limits.append(int((folder / file).read_text()))
    return min((limit for limit in limits if limit < _NO_LIMIT), default=None)


def try_writing(folder: Path) -> None:
    """Raises OSError where no file can be made in a folder; none stays behind."""
    tempfile.TemporaryFile(dir=folder).close()


def _folders(cgroups: Path, own: Path, controller: str) -> list[Path]:
    """The folders of the process's control group and those above it, of both versions of cgroups."""
    found = []
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, controllers, place = line.split(":", 2)
            if controllers and controller not in controllers.split(","):
                continue
            root = cgroups / controller if controllers else cgroups
            inner = root / place.lstrip("/")
            found += [path for path in (inner, *inner.parents) if path == root or root in path.parents]
    return found


def user_path(key: str, text: str) -> Path:
    """A path that a user wrote, variables and `~` filled in; raises ValueError naming the key where there can be none."""
    try:
        path = Path(os.path.expandvars(text)).expanduser()
        path.exists()
    except (RuntimeError, OSError, ValueError) as error:  # no such home, a name that is too long, a character that none has
        raise ValueError(f"{key}: {clean(text, 60)} is no path: {reason(error)}") from None
    return path
