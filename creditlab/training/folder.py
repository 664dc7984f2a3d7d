"""What comes before a run and may end it: its folder, and the signals that interrupt it."""

from __future__ import annotations

import errno
import fcntl
import json
import logging
import math
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from creditlab.config import Job
from creditlab.learner.distributed import gather_texts, rank, world_size
from creditlab.registry import ConfigError
from creditlab.stopping import SIGNALS, Handler, handling
from creditlab.tracking.jsonl import STEP, read
from creditlab.tracking.metrics import VAL_SUCCESS
from creditlab.training.checkpoint import Checkpoint, CheckpointStore, store_of
from creditlab.training.failure import agreed
from creditlab.training.progress import Progress

_log = logging.getLogger(__name__)
_TAKEN = (errno.EWOULDBLOCK, errno.EACCES)
"""What a lock that somebody else holds is answered with; anything else means that there are no locks."""
_LOOKS, _LOOK = 5, 0.1
"""Tries for the lock, and seconds between them: who only looks whether a run is at work holds it for a moment."""


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keeps other processes out of a run folder; the lock ends with the process, however it ends.

    Raises ConfigError when another process is at work there; where a file system has no locks, that is logged. A folder in
    which nothing was written does not stay behind.
    """
    if rank() != 0:
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise ConfigError(f"cannot write the run folder {folder}: {error.strerror}; choose another run_root=") from None
    try:
        try:
            _lock(handle)
        except OSError as error:
            if error.errno in _TAKEN:
                wait = "wait for it, or give this run another name="
                raise ConfigError(f"{folder} is in use by another process; {wait}") from None
            _log.warning("%s cannot be locked (%s); see to it that no other process works there", folder, error.strerror)
        yield
    finally:
        os.close(handle)
        with suppress(OSError):  # it holds something, as it should
            folder.rmdir()


def _lock(handle: int) -> None:
    """Takes the lock of an open folder; raises OSError where another process keeps it."""
    for left in reversed(range(_LOOKS)):
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if not left or error.errno not in _TAKEN:
                raise
            time.sleep(_LOOK)
        else:
            return


def check_present(job: Job) -> None:
    """Refuses to resume what is not there, before anything is made."""
    if job.settings.resume is True and not job.settings.overwrite and not _trained(job.folder):
        raise ConfigError(f"resume=true: there is no run in {job.folder}; start it with resume=false or resume=auto")


def prepare_folder(job: Job) -> tuple[Checkpoint | None, list[str]]:
    """Makes the run folder, or finds the checkpoint to resume from, with remarks; refuses to overwrite a run unasked.

    The first rank looks and acts, and the others hear of it, so that all of them resume from the same checkpoint.
    """
    found: tuple[Checkpoint | None, list[str]] = (None, [])
    with agreed():
        if rank() == 0:
            found = _prepare(job)
    checkpoint, notes = found
    first, *_ = gather_texts(json.dumps({"update": checkpoint.update, "state": checkpoint.state} if checkpoint else None))
    heard = json.loads(first)
    if heard and rank() != 0:
        checkpoint = Checkpoint(store_of(job).path(heard["update"]), heard["update"], heard["state"])
    return checkpoint, notes


def _prepare(job: Job) -> tuple[Checkpoint | None, list[str]]:
    folder, settings = job.folder, job.settings
    store = store_of(job)
    notes: list[str] = []
    checkpoint = store.latest(notes.append) if settings.resume and not settings.overwrite else None
    _check_folder(job, store, checkpoint)
    if settings.resume and not settings.overwrite and checkpoint is None and _trained(folder):
        notes.append("the run had no checkpoint yet; it starts from the beginning")
    if checkpoint:
        checkpoint = _with_metrics(store, checkpoint, folder / "metrics.jsonl", notes.append)
    if checkpoint and not (folder / "manifest.json").exists():
        notes.append("manifest.json is missing; cannot check that the games are the same")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if settings.overwrite:
            _empty(folder)
    except OSError as error:
        raise ConfigError(f"cannot write the run folder {folder}: {error.strerror}; choose another run_root=") from None
    store.discard_after(checkpoint.update if checkpoint else -1)
    return checkpoint, notes


def _with_metrics(store: CheckpointStore, newest: Checkpoint, path: Path, report: Callable[[str], None]) -> Checkpoint:
    """The newest checkpoint whose metrics are all there; what is lost of those after it is then made again.

    Raises ConfigError, before anything is trained, where the metrics are damaged or there is no such checkpoint.
    """
    try:
        records = read(path)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    lost = _lost(records, newest)
    found: Checkpoint | None = newest
    while found and _lost(records, found):
        found = store.latest(report, before=found.update)
    if found is None:
        raise ConfigError(
            f"{path} lacks {lost}, and no checkpoint before that is left: put back a copy of the file, "
            "or remove the run folder and start the run again"
        )
    if lost:
        report(f"{path} lacks {lost}; what came after update {found.update} is made again from its checkpoint")
    return found


def _lost(records: Sequence[Mapping[str, float]], checkpoint: Checkpoint) -> str | None:
    """What the metrics lack of the updates and evaluations that a checkpoint has behind it; None where all are there."""
    updates = set(range(checkpoint.update + 1)) - {int(record[STEP]) for record in records}
    evaluations = {int(update) for update, _ in Progress(**checkpoint.state["progress"]).evaluations}
    missing = updates | evaluations - {int(record[STEP]) for record in records if VAL_SUCCESS in record}
    if not missing:
        return None
    first = min(missing)
    more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
    return f"{'update' if first in updates else 'the evaluation after update'} {first}{more}"


def _empty(folder: Path) -> None:
    """Removes what a folder holds, but not the folder, which carries the lock."""
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def _check_folder(job: Job, store: CheckpointStore, checkpoint: Checkpoint | None) -> None:
    """A folder in which no update was done counts as absent: nothing in it would be missed."""
    resume, overwrite = job.settings.resume, job.settings.overwrite
    if resume is True and overwrite:
        raise ConfigError("resume=true continues a run and overwrite=true replaces it; give only one of them")
    if overwrite:
        return
    if resume and checkpoint is None and store.updates():
        raise ConfigError(f"no checkpoint in {store.folder} can be read; start the run again with overwrite=true")
    if not resume and _trained(job.folder):
        raise ConfigError(
            f"{job.folder} already holds this run: continue it with resume=true, replace it with overwrite=true, "
            "or give it another name="
        )


def _trained(folder: Path) -> bool:
    """Whether a run folder holds an update or a checkpoint."""
    return any((folder / "checkpoints").glob("update-*")) or any(r[STEP] > 0 for r in read(folder / "metrics.jsonl"))


SAME_REQUEST = 5.0
"""Seconds after a signal within which another one is the same request: on several ranks a terminal's Ctrl-C arrives once
from the terminal and again, maybe as SIGTERM, from the launcher."""


@contextmanager
def terminable() -> Iterator[None]:
    """Ends what is within at once on a termination signal, as on Ctrl-C: raises KeyboardInterrupt."""
    with handling(_stop_at(1)):
        yield


@contextmanager
def interruption() -> Iterator[list[int]]:
    """Collects interrupt and termination signals: the first asks for an orderly end, a second one ends at once."""
    received: list[int] = []
    with handling(_stop_at(2, received)):
        yield received


def ignore_signals() -> None:
    """From here on a rank ends by itself: launchers end all of them as soon as the first one is gone."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _stop_at(request: int, received: list[int] | None = None) -> Handler:
    """A handler that raises KeyboardInterrupt at the n-th request and notes those before in `received`."""
    noted, last = [] if received is None else received, -math.inf

    def handle(signum: int, frame: FrameType | None) -> None:
        nonlocal last
        if world_size() > 1 and time.monotonic() - last < SAME_REQUEST:
            return
        last = time.monotonic()
        noted.append(signum)
        if len(noted) >= request:
            raise KeyboardInterrupt

    return handle
