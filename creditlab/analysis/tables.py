"""Tables of results, written as Markdown and LaTeX with every foreign character escaped, and numbers as they are printed."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_UP, Decimal
from typing import Final

from creditlab.analysis.statistics import Interval, MeanSD
from creditlab.plaintext import printable

NOTHING: Final = "–"
"""A cell without a value; the notes below the table say why."""
_NAME, _LINES = 30, 3
"""Letters on a line of a name, and lines of a name at most."""
_MARKDOWN: Final = re.compile(r"[\\`*_\[\]|$~]")
_LINE_START: Final = re.compile(r"^(\d+(?=[.)])|(?=[#+=-]))")
"""What would begin a list, a heading or a line across the page where a text stands first on its line."""
_HYPHENS: Final = re.compile("-(?=-)")
"""Two of them would be set as one dash."""
_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_LATEX: Final[Mapping[str, str]] = {
    "\\": r"\textbackslash{}",
    **{sign: f"\\{sign}" for sign in "{}$&#_%"},
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "\0": "{}",
    "−": "$-$",
    "±": r"$\pm$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "×": r"$\times$",
    "–": "--",
    "…": r"\ldots{}",
}


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first `labels` columns name things, the others hold numbers.

    Raises ValueError for a row of another length than the headings.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    labels: int = 2

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.columns):
                raise ValueError(f"table {self.title!r}: {len(self.columns)} headings, a row of {len(row)} cells")


def markdown(table: Table) -> str:
    """The table in Markdown with its title above and its notes below; cells show as text, whatever they hold."""
    align = [":--" if column < table.labels else "--:" for column in range(len(table.columns))]
    lines = [[_in_markdown(cell) for cell in row] for row in (table.columns, *table.rows)]
    lines.insert(1, align)
    body = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join(f"\n- {_first_in_markdown(note)}" for note in table.notes)
    return f"**{_in_markdown(table.title)}**\n\n{body}\n" + (f"{notes}\n" if notes else "")


def latex(table: Table) -> str:
    """The table in LaTeX (booktabs and textcomp), its title as the caption and its notes below; cells show as text.

    Letters beyond Latin are left as they are and need an engine that reads Unicode.
    """
    align = "l" * table.labels + "r" * (len(table.columns) - table.labels)
    head, *body = [_row(row) for row in (table.columns, *table.rows)]
    notes = [rf"\par\footnotesize {_in_latex(note)}" for note in table.notes]
    lines = [
        r"\begin{table}",
        rf"\caption{{{_in_latex(table.title)}}}",
        rf"\begin{{tabular}}{{{align}}}",
        r"\toprule",
        head,
        r"\midrule",
        *body,
        r"\bottomrule",
        r"\end{tabular}",
        *notes,
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def short(name: str, width: int = _NAME, lines: int = _LINES) -> str:
    """A name on a few lines, its middle left out where it is longer than they hold."""
    text = printable(name)
    room = width * lines - lines
    if len(text) > room:
        text = f"{text[: room // 2]}…{text[-(room // 2) :]}"
    return "\n".join(textwrap.wrap(text, width)) or text


def shown(value: float | None, digits: int = 2, *, signed: bool = False) -> str:
    """A number with `digits` decimals, halves away from zero, a true minus sign, and a plus where `signed`.

    None shows as a dash. Twelve significant digits are looked at, so that the noise of binary floats decides no rounding.
    """
    if value is None:
        return NOTHING
    rounded = Decimal(f"{value:.12g}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    text = f"{abs(rounded):f}"
    if rounded == 0:
        return text
    return f"−{text}" if rounded < 0 else f"+{text}" if signed else text


def shown_mean(moments: MeanSD, digits: int = 2) -> str:
    """Mean ± sample SD; the mean alone where one seed has no deviation."""
    return shown(moments.mean, digits) + (f" ± {shown(moments.sd, digits)}" if moments.sd is not None else "")


def shown_interval(interval: Interval | None, digits: int = 2, *, signed: bool = True) -> str:
    """An interval in brackets; a dash for none."""
    if interval is None:
        return NOTHING
    return f"[{shown(interval.low, digits, signed=signed)}, {shown(interval.high, digits, signed=signed)}]"


def _in_markdown(text: str) -> str:
    escaped = "".join(_ENTITIES.get(sign, sign) for sign in printable(text))
    return _MARKDOWN.sub(lambda found: "\\" + found[0], escaped)


def _first_in_markdown(text: str) -> str:
    """A text that stands first on its line."""
    return _LINE_START.sub(lambda found: f"{found[1]}\\", _in_markdown(text).lstrip())


def _row(cells: tuple[str, ...]) -> str:
    """A row in LaTeX; one that begins with a bracket or star would be read as an argument of the command before it."""
    line = " & ".join(map(_in_latex, cells))
    return ("{}" if line.lstrip().startswith(("[", "*")) else "") + line + r" \\"


def _in_latex(text: str) -> str:
    line = _HYPHENS.sub("-\0", printable(text))  # braces come after the escaping of braces
    return "".join(_LATEX.get(sign, sign) for sign in line)


def json_text(record: object) -> str:
    """Plain data as JSON in UTF-8 letters, with None for what is not defined; raises ValueError for NaN and infinities."""
    return json.dumps(record, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def without_setting(table: Table, setting: str) -> Table:
    """The table without the column that says the setting, where all rows are of this one."""
    if table.columns[0] != "setting" or any(row[0] != setting for row in table.rows):
        return table
    notes = tuple(note.removeprefix(f"{setting}, ") for note in table.notes)
    rows = tuple(row[1:] for row in table.rows)
    return replace(table, columns=table.columns[1:], rows=rows, notes=notes, labels=table.labels - 1)
