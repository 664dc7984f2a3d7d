"""`python -m creditlab`: trains an agent; every key is a Hydra override."""

from __future__ import annotations

from collections.abc import Sequence

from creditlab.stopping import run_command


def main() -> None:
    """Composes the configuration from the command line, trains, and turns a user's mistake into one line on stderr."""
    run_command(_run)


def _run(arguments: Sequence[str]) -> int:
    from creditlab.cli import run  # takes seconds, in which a signal is answered already

    return run(arguments)


if __name__ == "__main__":
    main()
