"""The command line of a run, one of whose ranks presses Ctrl-C within the first update."""

from __future__ import annotations

import os
import signal

from creditlab.__main__ import main
from creditlab.learner.distributed import rank
from creditlab.training.session import Session

if __name__ == "__main__":
    collect = Session._collect

    def interrupted(session: Session, update: int) -> object:
        if rank() == 1:
            for process in (os.getppid(), os.getpid()):  # a terminal tells the launcher and the ranks
                os.kill(process, signal.SIGINT)
        return collect(session, update)

    Session._collect = interrupted  # type: ignore[method-assign,assignment]
    main()
