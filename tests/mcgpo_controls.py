"""The controls of MCGPO as the table on its page lists them."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "methods" / "mcgpo.md"
HEADING = "| control | command | differs from | in |"
NOTHING = "–"
"""What the table says a plain method differs from."""


def table() -> dict[str, tuple[str, str, list[str]]]:
    """Command, plain run and changed settings of every row."""
    _, found, text = PAGE.read_text(encoding="utf-8").partition(f"{HEADING}\n")
    assert found, f"{PAGE} has no table of controls"
    lines = [line for line in text.partition("\n\n")[0].splitlines()[1:] if line]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return {
        name: (command.strip("`"), plain.strip("`"), re.findall(r"`([^`]+)`", keys)) for name, command, plain, keys in cells
    }


CONTROLS = {name: row for name, row in table().items() if row[1] != NOTHING}
"""The rows that differ from a plain method."""
