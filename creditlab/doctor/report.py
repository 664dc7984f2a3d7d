"""The doctor's findings as text of 80 columns, or as JSON."""

from __future__ import annotations

import json
import shutil
import sys
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from creditlab.doctor.items import Item, Status
from creditlab.plaintext import printable

WIDTH = 80
_STYLES = {Status.OK: "green", Status.ABSENT: "dim", Status.WARNING: "yellow", Status.BROKEN: "bold red"}


def works(items: Sequence[Item]) -> bool:
    """Whether nothing is broken that the base needs."""
    return all(item.status is not Status.BROKEN for item in items)


def to_json(items: Sequence[Item]) -> str:
    """All findings as JSON: `works`, and a list of items."""
    return json.dumps({"works": works(items), "items": [asdict(item) for item in items]}, indent=2)


def lines(items: Sequence[Item], width: int = WIDTH) -> Iterator[tuple[str, Status | None]]:
    """The report line by line, each with the status it belongs to; a remedy stands below its item and is never broken.

    What packages and folders are called and say cannot steer a terminal.
    """
    column = max(len(item.name) for item in items)
    section = ""
    for item in items:
        if item.section != section:
            yield from ([("", None)] if section else [])
            section = item.section
            yield section, None
        start = f"  {item.status:<4}  {printable(item.name):<{column}}  "
        yield from ((line, item.status) for line in _wrapped(printable(item.text), start, width))
        if item.remedy:
            yield f"{' ' * len(start)}> {printable(item.remedy)}", None
    broken = [printable(item.name) for item in items if item.status is Status.BROKEN]
    yield "", None
    verdict = f"What the base needs is broken: {', '.join(broken)}." if broken else "The base works."
    yield verdict, Status.BROKEN if broken else Status.OK


def show(items: Sequence[Item]) -> None:
    """Writes the report to stdout, in colour where rich is there to do it."""
    width = min(shutil.get_terminal_size((WIDTH, 24)).columns, 120)
    written = list(lines(items, width))
    try:
        from rich.console import Console
        from rich.text import Text
    except Exception:  # broken in whatever way: the report must say so
        for line, _ in written:
            encoding = sys.stdout.encoding or "ascii"
            sys.stdout.write(f"{line}\n".encode(encoding, "replace").decode(encoding))
        return
    console = Console(highlight=False)
    for line, status in written:
        line = line.encode(console.encoding, "replace").decode(console.encoding)
        console.print(Text(line, style=_STYLES[status] if status else "bold" if line[:1].strip() else ""), soft_wrap=True)


def _wrapped(text: str, start: str, width: int) -> list[str]:
    return textwrap.wrap(
        text,
        width,
        initial_indent=start,
        subsequent_indent=" " * len(start),
        break_long_words=False,
        break_on_hyphens=False,
    )
