"""What a comparison comes to: its files and what a terminal shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from creditlab.analysis import comparison_tables
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.tables import Table, json_text, latex, markdown
from creditlab.sealed import sync
from creditlab.suites.collect import FinishedRun
from creditlab.suites.differences import differences, differences_table
from creditlab.tracking.text import encodable
from creditlab.tracking.writing import writing

Configs = dict[str, dict[str, Mapping[str, Any]]]
"""The resolved configuration of every entry, by setting and entry."""


def configs_of(finished: Sequence[FinishedRun]) -> Configs:
    """The configuration of every entry by setting, that of its first finished seed."""
    found: Configs = {}
    for run in finished:
        found.setdefault(run.run.setting, {}).setdefault(run.run.entry.name, run.record["config"])
    return found


def write_suite(out: Path, suite: str, finished: Sequence[FinishedRun], comparison: Comparison) -> None:
    """The comparison of a suite with what made its runs; raises WriteError where it cannot be written."""
    configs = configs_of(finished)
    facts = {
        "suite": suite,
        "runs": [run.facts for run in finished],
        "configuration_differences": {setting: differences(by_entry) for setting, by_entry in configs.items()},
    }
    write(out, comparison, facts, [differences_table(setting, by_entry) for setting, by_entry in configs.items()])


def write(out: Path, comparison: Comparison, facts: Mapping[str, Any], further: Sequence[Table] = ()) -> None:
    """A comparison as JSON with further facts, and as Markdown and LaTeX with further tables; raises WriteError."""
    tables = [*comparison_tables.tables(comparison), *(table for table in further if table.rows)]
    texts = {
        "comparison.json": json_text({**facts, **comparison_tables.as_record(comparison)}),
        "comparison.md": "\n".join(map(markdown, tables)),
        "comparison.tex": "\n".join(map(latex, tables)),
    }
    for name, text in texts.items():
        path, work = out / name, out / f".{name}.tmp"
        with writing(path, "call the command again"):
            out.mkdir(parents=True, exist_ok=True)
            try:
                work.write_text(text, encoding="utf-8")
                sync(work)
                work.replace(path)
            finally:
                work.unlink(missing_ok=True)


def show(comparison: Comparison, console: Console) -> None:
    """The results and the paired differences with their notes."""
    for table in (comparison_tables.results_table(comparison), comparison_tables.differences_table(comparison)):
        if not table.rows:
            continue
        grid = Grid(title=_text(table.title, console), title_justify="left")
        for index, column in enumerate(table.columns):
            side: Literal["left", "right"] = "left" if index < table.labels else "right"
            grid.add_column(_text(column, console), justify=side, overflow="fold")
        for row in table.rows:
            grid.add_row(*(_text(cell, console) for cell in row))
        console.print(grid)
        for note in table.notes:
            say(console, f"  {note}")


def say(console: Console, text: str, style: str = "") -> None:
    """One line, with what the console can show of it."""
    line = _text(text, console)
    line.stylize(style)
    console.print(line, soft_wrap=True)


def _text(text: str, console: Console) -> Text:
    return Text(encodable(text, console.encoding))
