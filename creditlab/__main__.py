"""`python -m creditlab`: trains an agent; every key is a Hydra override."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Composes the configuration from the command line, trains, and turns a user's mistake into one line on stderr."""
    os.environ.setdefault("HYDRA_FULL_ERROR", "1")
    from creditlab.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
