"""Curves from a table of results, `results.csv`, whoever computed them."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Final, TypeVar

from creditlab.analysis.curves import Curve, CurveError
from creditlab.analysis.lattice import restored
from creditlab.plaintext import clean, reason
from creditlab.registry import ConfigError

REQUIRED: Final = ("method", "setting", "seed", "update", "value")
OPTIONAL: Final = ("transitions", "seconds")
_COLUMN_OF: Final = {"updates": "update", "values": "value"}
"""Column of a curve's field, where it is called otherwise."""
_T = TypeVar("_T")
_WHOLE: Final = re.compile(r"[0-9]{1,18}")
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?")
_BEGIN: Final = f"begin with the line {','.join(REQUIRED)}"
_NO_TEXT: Final = "it is no text table in UTF-8; save the table as CSV in UTF-8"


class ResultsError(ConfigError):
    """A table of results that cannot be read; the message names the file and, where there is one, line and column."""

    def __init__(self, path: Path, message: str, line: int | None = None, column: str | None = None) -> None:
        where = [str(path), *([f"line {line}"] if line else []), *([f"column {clean(column, 40)}"] if column else [])]
        super().__init__(f"{', '.join(where)}: {message}")


@dataclass(frozen=True)
class _Row:
    """One evaluation and the line it stands on."""

    line: int
    update: int
    value: float
    printed: str
    """The value as it stands in the table."""
    transitions: int | None
    seconds: float | None


_Runs = dict[tuple[str, str, int], dict[int, _Row]]
"""The rows of every run by update; a run is a method, a setting and a seed."""


def read_results(path: Path, episodes: int | None = None) -> list[Curve]:
    """The curves of a CSV file in UTF-8, in the order in which they first appear; rows may stand in any order.

    Columns: method, setting, seed, update, value, and if wanted transitions and seconds (both counted from the start of the
    run). `episodes`: every value is a rate of so many episodes, in percent and rounded to the most decimals that a value of
    the table has, and is restored to what it was before. Raises ResultsError for a file that cannot be read, a column that is
    missing, unknown or repeated, a cell that is empty or no number, a name with control characters, an evaluation given
    twice, counts that fall, and a value that is no rate of `episodes`.
    """
    text = _text(path)
    runs: _Runs = {}
    for line, cells in _records(path, text):
        row = _row(path, line, cells)
        key = (_name(path, line, cells, "method"), _name(path, line, cells, "setting"), _whole(path, line, cells, "seed"))
        earlier = runs.setdefault(key, {}).setdefault(row.update, row)
        if earlier is not row:
            message = f"update {row.update} of {key[0]} on {key[1]}, seed {key[2]}, stands on line {earlier.line} already"
            raise ResultsError(path, message, line, "update")
    if not runs:
        raise ResultsError(path, "it has a header but no results; add a row for every evaluation", 1)
    if episodes is not None:
        runs = _restored(path, runs, episodes)
    return [_curve(path, key, [rows[update] for update in sorted(rows)]) for key, rows in runs.items()]


def _restored(path: Path, runs: _Runs, episodes: int) -> _Runs:
    """The rows with their values before they were rounded."""
    digits = max(_decimals(row.printed) for rows in runs.values() for row in rows.values())
    found: _Runs = {}
    for key, rows in runs.items():
        for update, row in rows.items():
            try:
                value = restored(row.printed, episodes, digits)
            except ValueError as error:
                raise ResultsError(path, reason(error), row.line, "value") from None
            found.setdefault(key, {})[update] = replace(row, value=value)
    return found


def _decimals(number: str) -> int:
    """Decimals of a number as it is written: a spreadsheet leaves out zeros at the end, so that one value may have fewer."""
    exponent = Decimal(number).as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else 0


def _text(path: Path) -> str:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ResultsError(path, f"it cannot be read: {error.strerror or reason(error)}") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if b"\0" in content:
            raise ResultsError(path, _NO_TEXT) from None
        before = content[: error.start].rpartition(b"\n")
        header = content.partition(b"\n")[0].decode("ascii", "replace").strip().split(",")
        line, place = before[0].count(b"\n") + bool(before[1]) + 1, before[2].count(b",")
        column = header[place] if line > 1 and place < len(header) else str(place + 1)
        message = f"the byte 0x{content[error.start]:02x} is no UTF-8; save the table as CSV in UTF-8"
        raise ResultsError(path, message, line, column) from None
    if "\0" in text.partition("\n")[0]:  # UTF-16 without its mark
        raise ResultsError(path, _NO_TEXT)
    if not text.strip():
        raise ResultsError(path, f"it is empty; {_BEGIN}")
    return text


def _records(path: Path, text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Line number and cells by column of every row that is not blank."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    columns: Sequence[str] = ()
    line = 1
    while True:
        try:
            cells = [cell.strip() for cell in next(reader)]
        except StopIteration:
            return
        except csv.Error as error:
            raise ResultsError(path, _no_csv(reason(error)), line) from None
        if any(cells):
            if columns:
                yield line, _cells(path, line, columns, cells)
            else:
                columns = _columns(path, line, cells)
        line = reader.line_num + 1


def _no_csv(why: str) -> str:
    """What is wrong with a row that cannot be taken apart."""
    if "field limit" not in why:
        return f"it is no CSV: {why}; check the quotes"
    longest = csv.field_size_limit()
    return f"a cell has more than {longest} characters; a quote that is never closed makes one cell of all that follows"


def _columns(path: Path, line: int, cells: Sequence[str]) -> Sequence[str]:
    """The header, checked."""
    if len(cells) == 1 and (found := re.search(r"[;\t]", cells[0])):
        raise ResultsError(path, f"its columns are separated by {found[0]!r}; save it with commas", line)
    for name in REQUIRED:
        if name not in cells:
            given = ", ".join(clean(cell, 40) or "(empty)" for cell in cells)
            raise ResultsError(path, f"the column is missing, given are {clean(given)}; {_BEGIN}", line, name)
    for place, name in enumerate(cells):
        if name in cells[:place]:
            raise ResultsError(path, "the column appears twice; keep one", line, name or str(place + 1))
        if name not in (*REQUIRED, *OPTIONAL):
            known = ", ".join((*REQUIRED, *OPTIONAL))
            raise ResultsError(
                path, f"the column is not known; remove it, or use one of {known}", line, name or str(place + 1)
            )
    return cells


def _cells(path: Path, line: int, columns: Sequence[str], cells: Sequence[str]) -> Mapping[str, str]:
    if len(cells) > len(columns):
        extra = clean(cells[len(columns)], 40)
        message = f"a cell without a heading holds {extra!r}; write decimals with a point and quote cells that hold commas"
        raise ResultsError(path, message, line, str(len(columns) + 1))
    if len(cells) < len(columns):
        raise ResultsError(path, "the cell is missing", line, columns[len(cells)])
    return dict(zip(columns, cells, strict=True))


def _row(path: Path, line: int, cells: Mapping[str, str]) -> _Row:
    return _Row(
        line,
        _whole(path, line, cells, "update"),
        _number(path, line, cells, "value"),
        cells["value"],
        _whole(path, line, cells, "transitions") if cells.get("transitions") else None,
        _number(path, line, cells, "seconds") if cells.get("seconds") else None,
    )


def _curve(path: Path, key: tuple[str, str, int], rows: Sequence[_Row]) -> Curve:
    for column in OPTIONAL:
        given = [getattr(row, column) is not None for row in rows]
        if any(given) and not all(given):
            message = "the cell is empty, but other evaluations of this run have one; fill all of them or none"
            raise ResultsError(path, message, rows[given.index(False)].line, column)
    try:
        return Curve(
            *key,
            updates=tuple(row.update for row in rows),
            values=tuple(row.value for row in rows),
            transitions=_counted([row.transitions for row in rows]),
            seconds=_counted([row.seconds for row in rows]),
        )
    except CurveError as error:
        line = rows[error.index].line
        raise ResultsError(path, reason(error), line, _COLUMN_OF.get(error.field, error.field)) from None


def _counted(values: Sequence[_T | None]) -> tuple[_T, ...] | None:
    counted = tuple(value for value in values if value is not None)
    return counted or None


def _name(path: Path, line: int, cells: Mapping[str, str], column: str) -> str:
    if not cells[column]:
        raise ResultsError(path, "the cell is empty", line, column)
    control = next((sign for sign in cells[column] if unicodedata.category(sign) == "Cc" and not sign.isspace()), None)
    if control is not None:
        raise ResultsError(path, f"the cell holds the control character U+{ord(control):04X}; remove it", line, column)
    return cells[column]


def _whole(path: Path, line: int, cells: Mapping[str, str], column: str) -> int:
    if not _WHOLE.fullmatch(_name(path, line, cells, column)):
        raise ResultsError(path, f"{clean(cells[column], 40)!r} is no whole number of at least 0", line, column)
    return int(cells[column])


def _number(path: Path, line: int, cells: Mapping[str, str], column: str) -> float:
    cell = _name(path, line, cells, column)
    if cell.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        raise ResultsError(path, f"{cell!r} is no finite number; leave the row out where there is no result", line, column)
    if not _NUMBER.fullmatch(cell):
        hint = "; write decimals with a point" if "," in cell else ""
        raise ResultsError(path, f"{clean(cell, 40)!r} is no number{hint}", line, column)
    return float(cell)
