"""How long credit takes: `python benchmarks/credit.py [--quick] [--methods gigpo,ccpo] [--rows 6400,12800]`.

One table per method. `raw` starts at recorded rollouts (texts → columns → credit), `interned` at the columns of `Rows`,
`plain` at recorded rollouts too (one object per decision → credit, row by row in plain Python), `formulas` at those objects,
up to a size where that takes seconds. So plain/raw compares whole ways, formulas/interned the credit alone, plain/interned
plain Python from texts with credit on rows that are there, as it is for every method and diagnostic after the first. Before
a ratio is printed, both must agree. `growth` is the factor per doubling since the size before; `peak` is the memory that
columns and credit need beyond the rollouts themselves. Times are of one core, the best of several runs.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy: the table is about one core

import argparse
import gc
import math
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import plain_context
import plain_credit
from rich.console import Console
from rich.table import Table
from synthetic import rollouts
from timing import best

from creditlab.hookspecs import Rows
from creditlab.registry import registry
from creditlab.rollouts import Group

SIZES = {
    1_920: (16, 8, 15),
    6_400: (16, 8, 50),
    12_800: (32, 8, 50),
    25_600: (64, 8, 50),
    51_200: (128, 8, 50),
    100_000: (250, 8, 50),
    200_000: (500, 8, 50),
    400_000: (1000, 8, 50),
}
"""Decisions: task groups, trajectories each, decisions each."""
QUICK = (1_920, 6_400, 12_800)
PLAIN_SECONDS, QUICK_PLAIN_SECONDS = 8.0, 4.0
"""The transcription is left out where it would take longer."""
PLAIN_ROWS = 51_200
"""It is not asked for more decisions than that."""
NARROW, WIDE = 64, 1536
"""Widths of hidden states: small enough for large updates, and that of a model of 1.5 billion parameters."""
TOLERANCE = 1e-8
WIDTH = 150
"""Columns of the tables where no terminal says how many fit."""

Plain = Callable[[list[plain_credit.Row]], Any]
Checked = Callable[[Any, Any], float]


@dataclass(frozen=True)
class Case:
    """One line of the benchmark: a component, its transcription, and the largest difference between their answers."""

    axis: str
    name: str
    plain: Plain
    options: dict[str, Any]
    difference: Checked
    hidden: int = 0
    """Width of the hidden states that its rollouts carry."""
    most: int | None = None
    """Largest update it is measured on, where it is slow or its rollouts are large."""


def _advantages(credit: Any, expected: Sequence[float]) -> float:
    wanted = np.array(expected)
    return float(np.max(np.abs(credit.advantages - wanted) / np.maximum(1, np.abs(wanted)), initial=0))


def _preferences(built: Any, expected: Sequence[tuple[int, int, float]]) -> float:
    preferences = built[0].preferences
    wanted = np.array(expected).reshape(-1, 3)
    if not np.array_equal(preferences.pairs, wanted[:, :2]):
        return math.inf
    return float(np.max(np.abs(preferences.weight - wanted[:, 2]), initial=0))


def _method(name: str, plain: Plain, *, width: int = 0, most: int | None = None, **options: Any) -> Case:
    return Case("method", name, plain, options, _advantages, width, most)


def _ccpo_hidden(rows: list[plain_credit.Row]) -> list[float]:
    return plain_context.ccpo(rows, "reference_hidden")


CASES = {
    "grpo": _method("grpo", plain_credit.grpo),
    "rloo": _method("rloo", plain_credit.rloo),
    "gigpo": _method("gigpo", plain_credit.gigpo),
    "gigpo_similar": _method("gigpo", plain_credit.gigpo_similar, most=6_400, match="similar_state"),
    "hgpo": _method("hgpo", plain_credit.hgpo),
    "graphgpo": _method("graphgpo", plain_credit.graphgpo),
    "g2po": _method("g2po", plain_credit.g2po),
    "mcgpo": Case("aux", "pair", plain_credit.mcgpo, {}, _preferences),
    "ccpo": _method("ccpo", plain_context.ccpo, hidden=False),
    "ccpo_hidden": _method("ccpo", _ccpo_hidden, width=NARROW),
    "ccpo_wide": _method("ccpo", _ccpo_hidden, width=WIDE, most=6_400),
    "covgpo": _method("covgpo", plain_context.covgpo),
    "progpo": _method("progpo", plain_context.progpo),
    "bipace": _method("bipace", plain_context.bipace, width=NARROW),
    "bipace_wide": _method("bipace", plain_context.bipace, width=WIDE, most=6_400),
}
"""What is measured: of `mcgpo` the preferences, of `ccpo` the context statistics alone, `ccpo_hidden` with hidden states.

`gigpo_similar` groups observations by the likeness of their texts.
"""


@dataclass(frozen=True)
class Measured:
    """Seconds and bytes of one case at one size."""

    rows: int
    raw: float
    interned: float
    plain: Plainly | None
    peak: int


@dataclass(frozen=True)
class Plainly:
    """Seconds of a transcription: one object per decision out of the recorded rollouts, and the formulas over them."""

    records: float
    formulas: float

    @property
    def total(self) -> float:
        """Both, the whole way."""
        return self.records + self.formulas


def main() -> None:
    """Prints a table per method; exits with an error when a method and its transcription disagree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three sizes, short transcriptions, without the slow methods")
    parser.add_argument("--methods", type=lambda text: text.split(","), help=f"of {', '.join(CASES)}")
    parser.add_argument(
        "--rows", type=lambda text: [int(n) for n in text.split(",")], help=f"of {', '.join(map(str, SIZES))}"
    )
    args = parser.parse_args()
    methods = args.methods or [name for name, case in CASES.items() if not (args.quick and case.most)]
    unknown = [str(x) for x in (*set(methods) - CASES.keys(), *set(args.rows or ()) - SIZES.keys())]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}; methods are {', '.join(CASES)}; rows are {', '.join(map(str, SIZES))}")
    sizes = sorted(args.rows or (QUICK if args.quick else SIZES))
    limit = QUICK_PLAIN_SECONDS if args.quick else PLAIN_SECONDS
    check_mixed(methods)
    found: dict[str, list[Measured]] = {name: [] for name in methods}
    for number in sizes:
        measured = [name for name in methods if number <= (CASES[name].most or number)]
        for hidden in sorted({CASES[name].hidden for name in measured}):
            _measure_size(number, hidden, [name for name in measured if CASES[name].hidden == hidden], found, limit)
    console = Console(width=None if sys.stdout.isatty() else WIDTH)
    for name in methods:
        console.print(_table(name, found[name]))


def check_mixed(names: Sequence[str]) -> None:
    """Compares every case with its transcription on rollouts of 5 to 30 turns with failures and empty responses."""
    groups = rollouts(8, 8, 30, hidden=NARROW, mixed=True)
    rows, plain = Rows.from_groups(groups), plain_credit.plain_rows(groups)
    for name in names:
        _agree(name, _component(CASES[name])(rows), CASES[name].plain(plain))


def _measure_size(number: int, hidden: int, names: Sequence[str], found: dict[str, list[Measured]], limit: float) -> None:
    gc.disable()  # building millions of records is no part of what is measured
    groups = rollouts(*SIZES[number], hidden=hidden)
    gc.enable()
    gc.collect()  # else the first measured call would be the one to look through them all
    rows = Rows.from_groups(groups)
    assert len(rows) == number
    for name in names:
        component = _component(CASES[name])
        component(rows)  # makes the columns that it reads
        interned = _timed(lambda component=component: component(rows))
        raw, peak = (measure(lambda component=component: component(Rows.from_groups(groups))) for measure in (_timed, _peak))
        before = found[name][-1] if found[name] else None
        plain = _timed_plain(name, groups, rows, before, limit)
        found[name].append(Measured(number, raw, interned, plain, peak))
        Console(stderr=True).print(f"{number:,} rows, {name}")


def _timed_plain(name: str, groups: tuple[Group, ...], rows: Rows, before: Measured | None, limit: float) -> Plainly | None:
    """Seconds of the transcription, after its answer was compared; None where it would take too long."""
    too_long = before and (before.plain is None or before.plain.total * len(rows) / before.rows > limit)
    if too_long or len(rows) > PLAIN_ROWS:
        return None
    case = CASES[name]
    records = plain_credit.plain_rows(groups)
    _agree(name, _component(case)(rows), case.plain(records))
    return Plainly(_timed(lambda: plain_credit.plain_rows(groups)), _timed(lambda: case.plain(records)))


def _agree(name: str, answer: Any, expected: Any) -> None:
    difference = CASES[name].difference(answer, expected)
    if not difference <= TOLERANCE:
        sys.exit(f"{name} and its transcription differ by {difference:.1e}; their formulas are not the same")


def _component(case: Case) -> Callable[[Rows], Any]:
    component: Callable[[Rows], Any] = registry().create(case.axis, case.name, **case.options)
    return component


def _timed(call: Callable[[], Any]) -> float:
    """Best of the runs that fit into about a second, two at least."""
    first = best(call, 1, time.process_time)
    return min(first, best(call, min(200, 1 + int(1 / first)), time.process_time))


def _peak(call: Callable[[], Any]) -> int:
    """Bytes allocated at most while the call runs."""
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    del result
    return peak


def _table(name: str, measured: Sequence[Measured]) -> Table:
    """One line per size."""
    columns = (
        "rows",
        "raw ms",
        "interned ms",
        "plain ms",
        "formulas ms",
        "formulas/interned",
        "plain/interned",
        "plain/raw",
        "growth raw",
        "interned",
        "peak MB",
        "B/row",
    )
    table = Table(*columns, title=name)
    for before, m in zip([None, *measured], measured, strict=False):
        plain = ("",) * 5
        if m.plain:
            compared = (m.plain.formulas / m.interned, m.plain.total / m.interned, m.plain.total / m.raw)
            ratios = tuple(f"{ratio:.1f}×" for ratio in compared)
            plain = (_ms(m.plain.total), _ms(m.plain.formulas), *ratios)
        growth = ("", "")
        if before:
            doublings = math.log2(m.rows / before.rows)
            growth = tuple(
                f"{(b / a) ** (1 / doublings):.2f}" for a, b in ((before.raw, m.raw), (before.interned, m.interned))
            )
        memory = (f"{m.peak / 1e6:.1f}", f"{m.peak / m.rows:.0f}")
        table.add_row(f"{m.rows:,}", _ms(m.raw), _ms(m.interned), *plain, *growth, *memory)
    return table


def _ms(seconds: float) -> str:
    return f"{1000 * seconds:.3g}" if seconds < 1 else f"{1000 * seconds:,.0f}"


if __name__ == "__main__":
    main()
