"""`python -m creditlab.memory [ranks=N] [output=json] KEY=VALUE …`: the memory a run with model=hf needs on each rank.

Takes the same words as a run, loads no weights and downloads nothing:
`python -m creditlab.memory experiment=paper/alfworld_qwen2.5_7b ranks=4`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from creditlab.cli import compose_job, warn_failed_plugins
from creditlab.plaintext import gibibytes
from creditlab.stopping import EXIT_MISTAKE, run_command, tell
from creditlab.training.memory import Estimate, estimate

OUTPUTS = ("table", "json")


def main(arguments: Sequence[str], console: Console | None = None) -> int:
    """Prints the estimate as a table, or with `output=json` as one JSON object of bytes; returns the exit code."""
    own = {key: value for key, _, value in (a.partition("=") for a in arguments) if key in ("ranks", "output")}
    overrides = [a for a in arguments if a.partition("=")[0] not in own]
    console = console or Console(highlight=False)
    try:
        ranks = _positive(own.get("ranks", "1"))
        output = own.get("output", "table")
        if output not in OUTPUTS:
            raise ValueError(f"output={output} is not one of {', '.join(OUTPUTS)}")
        found = estimate(compose_job(overrides), ranks)
    except ValueError as error:
        tell(str(error), "creditlab.memory")
        return EXIT_MISTAKE
    if output == "json":
        sys.stdout.write(json.dumps(found.plain(), indent=2) + "\n")
    else:
        console.print(_table(found))
    return 0


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"ranks={text} must be a whole number of at least 1")
    return int(text)


def _table(found: Estimate) -> Table:
    """Parts with their sizes; the moment that decides the peak is marked."""
    title = f"{found.parameters / 1e9:.3g} billion parameters, memory on each of {found.ranks} rank(s)"
    table = Table("when", "part", "memory", title=title)
    table.columns[2].justify = "right"
    for name, size in found.lasting.items():
        table.add_row("always", name, gibibytes(size))
    for moment, parts in found.moments.items():
        table.add_section()
        label = f"{moment} *" if moment == found.moment else moment
        for name, size in parts.items():
            table.add_row(label, name, gibibytes(size))
    table.add_section()
    table.add_row("peak", "always + *", gibibytes(found.peak))
    table.add_section()
    table.add_row("checkpoint", "host memory of the first rank", gibibytes(found.checkpoint))
    return table


if __name__ == "__main__":
    warn_failed_plugins()
    run_command(main)
