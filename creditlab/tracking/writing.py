"""What must be on disk before a command goes on: a failure to write it ends the command with one clear message."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from safetensors import SafetensorError

_FREE_SPACE = "free space"
_REMEDIES = {
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.EROFS), "make it writable"),
    **dict.fromkeys((errno.EEXIST, errno.EISDIR, errno.ENOTDIR), "remove what is in its place"),
}
"""What to do about a number of the system's errors; most of the others say that a disk is full."""


class WriteError(RuntimeError):
    """A file of a run cannot be written."""


@contextmanager
def writing(path: Path, then: str = "continue with resume=true") -> Iterator[None]:
    """Turns what goes wrong while `path` is written into a WriteError that names it, the reason and what to do `then`."""
    try:
        yield
    except Exception as error:
        # the library of tokenizers reports a full disk as a bare Exception
        if not isinstance(error, (OSError, SafetensorError)) and type(error) is not Exception:
            raise
        reason = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        remedy = _REMEDIES.get(error.errno or 0, _FREE_SPACE) if isinstance(error, OSError) else _FREE_SPACE
        raise WriteError(f"cannot write {path}: {reason}; {remedy} and {then}") from error


def put(path: Path, content: bytes, then: str) -> None:
    """Writes a file, whole or not at all, and its folder; raises WriteError that says what to do `then`.

    Processes that write the same file do so one after the other, where the file system has locks.
    """
    work = path.with_name(f".{path.name}.tmp")
    with writing(path, then):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(work) as file:
            try:
                file.truncate(0)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                work.replace(path)
            except BaseException:
                work.unlink(missing_ok=True)
                raise


@contextmanager
def _alone(work: Path) -> Iterator[BinaryIO]:
    """A work file that no other process is writing; what one that died left of it is taken over, so that nothing piles up."""
    while True:
        with work.open("ab") as file:
            with suppress(OSError):  # no locks here
                fcntl.flock(file, fcntl.LOCK_EX)
            if not _stands(file, work):  # the process before has put it in its place
                continue
            yield file
            return


def _stands(file: BinaryIO, path: Path) -> bool:
    """Whether an open file still has this name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False
