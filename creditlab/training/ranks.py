"""A command on all of its ranks: how they begin together, and how they end whatever happens to one of them."""

from __future__ import annotations

from collections.abc import Callable

from creditlab.config import Job
from creditlab.learner.distributed import RankLostError, rank, start_processes, take_leave, world_size
from creditlab.options import ConfigError
from creditlab.stopping import EXIT_FAILED, EXIT_MISTAKE, tell
from creditlab.training.failure import ElsewhereError, TrainingFailedError
from creditlab.training.folder import ignore_signals, terminable


def on_all_ranks(job: Job, work: Callable[[], int], told: Callable[[], bool] = lambda: False) -> int:
    """Does a job's work on every rank and leaves together; returns this rank's exit code.

    `told` says whether the user has heard already when another rank is lost. Raises ValueError on the first rank, which has
    to tell of a mistake.
    """
    lost: RankLostError | None = None
    try:
        with terminable():
            try:
                start_processes(job.settings.training.timeout)
            except ValueError as error:
                if rank() == 0:
                    raise ConfigError(str(error)) from error
                return _tell(str(error), EXIT_MISTAKE)  # no other rank may ever hear of it
            code = work()
    except ElsewhereError as error:
        code = error.code
    except RankLostError as error:
        code, lost = EXIT_FAILED, error
    except ValueError as error:
        if rank() != 0:  # nobody else knows of it
            raise TrainingFailedError(f"rank {rank()}: {error}") from error
        _leave()
        raise
    finally:
        job.env.close()
    if lost and rank() == 0 and not told():
        _tell(str(lost), EXIT_FAILED)
    followed = _leave()
    if lost and rank() == 1 and not followed:
        _tell(str(lost), EXIT_FAILED)
    return code


def _leave() -> bool:
    """Ends the work of this rank; returns whether the first rank has told how it ended."""
    if world_size() > 1:
        ignore_signals()
    return take_leave()


def _tell(message: str, code: int) -> int:
    """Writes one line on stderr, whichever rank this is; returns the exit code."""
    tell(message, every_rank=True)
    return code
