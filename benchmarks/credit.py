"""How long credit takes: `python benchmarks/credit.py [--repeats 7]`.

One table: milliseconds per update (best of the repeats) of every method on interned rows, and the ratio to a plain
row-by-row transcription of the same formulas, timed in the same run.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
import plain_credit
from rich.console import Console
from rich.table import Table
from timing import best

from creditlab.hookspecs import Method, Rows
from creditlab.registry import registry
from creditlab.rollouts import Group
from creditlab.testing import move, siblings, state, walk

SIZES = {1_920: (16, 8, 15), 6_400: (16, 8, 50), 25_600: (64, 8, 50)}
"""Decisions: task groups, trajectories each, decisions each."""
PLAIN: dict[str, Callable[[list[plain_credit.Row]], Any]] = {
    "grpo": plain_credit.grpo,
    "graphgpo": plain_credit.graphgpo,
    "mcgpo": lambda rows: (plain_credit.graphgpo(rows), plain_credit.mcgpo(rows)),
}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    table = Table("method", "rows", "ms", "plain ms", "ratio", title="credit per update")
    for number, shape in SIZES.items():
        rows = Rows.from_groups(walks(*shape))
        assert len(rows) == number
        plain = plain_credit.plain_rows(rows)
        for name, transcription in PLAIN.items():
            method: Method = registry().create("method", name)
            ours = 1000 * best(lambda method=method, rows=rows: method(rows), repeats)
            theirs = 1000 * best(lambda f=transcription, plain=plain: f(plain), 1 if number > 10_000 else 2)
            table.add_row(name, f"{number:,}", f"{ours:.2f}", f"{theirs:.1f}", f"{theirs / ours:.0f}×")
    Console().print(table)


def walks(groups: int, slots: int, turns: int, rooms: int = 30) -> tuple[Group, ...]:
    """Random walks of fixed length over the rooms of a task: siblings meet often, as on ALFWorld."""
    rng = np.random.default_rng(0)
    out = []
    for index in range(groups):
        visits = np.abs(np.cumsum(rng.integers(-2, 3, (slots, turns + 1)), axis=1)) % rooms
        success, action = rng.random(slots) < 0.5, rng.integers(4, size=(slots, turns))
        trajectories = []
        for slot in range(slots):
            places = [place(int(room), turn) for turn, room in enumerate(visits[slot])]
            moves = [move(places[t], f"a{action[slot, t]}", valid=bool(rng.random() < 0.95)) for t in range(turns)]
            trajectories.append(walk(*moves, end=places[-1], success=bool(success[slot])))
        out.append(siblings(f"g{index}", *trajectories))
    return tuple(out)


def place(room: int, turn: int) -> Any:
    """A state whose rubric grows with the turn."""
    rubric = {"goal_progress": (turn // 20, 3)}
    return state(f"room {room}", exact=f"room {room}", coarse=f"{room % 10} {turn // 10}", rubric=rubric)


if __name__ == "__main__":
    main()
