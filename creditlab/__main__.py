"""`python -m creditlab`: trains an agent; every key is a Hydra override."""

from __future__ import annotations

import sys

from creditlab.stopping import end_when_told


def main() -> None:
    """Composes the configuration from the command line, trains, and turns a user's mistake into one line on stderr."""
    end_when_told()  # before the imports, which take seconds
    from creditlab.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
