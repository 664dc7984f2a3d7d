"""The machine: what a process may use of it, limits of containers included."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from creditlab.doctor.items import Item, Status
from creditlab.limits import core_limit, memory_limit, try_writing, usable_cores
from creditlab.plaintext import gibibytes

THREADS = "OMP_NUM_THREADS"
_LITTLE_SPACE = 1 << 30
_DRIVER = Path("/dev/nvidiactl")


def machine_items(gpu: Mapping[str, Any] | None) -> list[Item]:
    """Cores, threads, memory and GPU; `gpu` is what torch said, None where it could not be asked."""
    return [_cores(), _threads(), _memory(), _gpu(gpu)]


def folder_item(name: str, folder: Path, option: str) -> Item:
    """Whether a folder that the base writes to can be written, and how much space it has; nothing stays behind."""
    existing = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    error = _write_error(existing)
    if error:
        where = "" if existing == folder.absolute() else f" in {existing}"
        return Item("Folders", name, Status.BROKEN, f"{folder}: cannot be written{where}: {error}", f"set {option}=")
    free = shutil.disk_usage(existing).free
    text, facts = f"{folder}: writable, {gibibytes(free)} free", {"path": str(folder.absolute()), "free_bytes": free}
    if free < _LITTLE_SPACE:
        return Item("Folders", name, Status.WARNING, f"{text}, which is little", f"free space, or set {option}=", facts)
    return Item("Folders", name, Status.OK, text, "", facts)


def _cores() -> Item:
    usable, total, limit = usable_cores(), os.cpu_count() or 1, core_limit()
    text = f"{usable} of {total} usable"
    if limit is not None:
        text += f", time of {limit:g} at most (control group)"
    return Item("Machine", "cores", Status.OK, text, "", {"usable": usable, "total": total, "limit": limit})


def _threads() -> Item:
    value = os.environ.get(THREADS)
    facts = {THREADS: value}
    if value is None:
        text = f"{THREADS} is not set; the tiny model is fastest with 1, the more so on shared cores"
        return Item("Machine", "threads", Status.ABSENT, text, f"export {THREADS}=1", facts)
    return Item("Machine", "threads", Status.OK, f"{THREADS}={value}", "", facts)


def _memory() -> Item:
    known = {}
    with suppress(OSError, ValueError):
        for line in Path("/proc/meminfo").read_text().splitlines():
            key, _, value = line.partition(":")
            known[key] = int(value.split()[0]) << 10
    total = known.get("MemTotal") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    available, limit = known.get("MemAvailable"), memory_limit()
    text = gibibytes(total) + (f", {gibibytes(available)} available" if available is not None else "")
    if limit is not None and limit < total:
        text += f", at most {gibibytes(limit)} (control group)"
    return Item("Machine", "memory", Status.OK, text, "", {"total": total, "available": available, "limit": limit})


def _gpu(gpu: Mapping[str, Any] | None) -> Item:
    if gpu is None:
        return Item("Machine", "GPU", Status.ABSENT, "not known, for torch cannot be imported")
    devices = gpu["devices"]
    if devices:
        text = ", ".join(f"{device['name']} ({gibibytes(device['bytes'])})" for device in devices)
        return Item("Machine", "GPU", Status.OK, text, "", {"devices": devices})
    build = f"is built for {gpu['build']}" if gpu["build"] else "is built for CPUs"
    if _DRIVER.exists():
        text = f"a driver is there, but torch sees no GPU: it {build}"
        return Item("Machine", "GPU", Status.WARNING, text, "install the torch that fits the driver (pytorch.org)")
    text = f"none (torch {build}): the defaults are made for CPUs; language models of a billion parameters need one"
    return Item("Machine", "GPU", Status.ABSENT, text, "", {"devices": []})


def _write_error(folder: Path) -> str | None:
    """Why no file can be made in a folder."""
    try:
        try_writing(folder)
    except OSError as error:
        return error.strerror or str(error)
    return None


def system() -> str:
    """Name and release of the operating system and the kind of processor."""
    return f"{platform.system()} {platform.release()} {platform.machine()}"
