"""The worked examples that several tests compute by hand."""

from __future__ import annotations

from conftest import benchmark_module

from creditlab.rollouts import Group, Rows, Trajectory
from creditlab.testing import move, rows_of, siblings, state, walk

E1_ROWS = ("p0", "p1", "p2", "q0", "q1", "q2", "r0", "r1", "r2")


def e1() -> Rows:
    """p solves the task over A, B, C; q strays to D; r finds the shortcut A → C, wastes an invalid turn and loses."""
    return rows_of(
        siblings(
            "E1",
            walk(move("A", "go"), move("B", "go"), move("C", "fin"), success=True),
            walk(move("A", "go"), move("B", "bad"), move("D", "x"), end="D"),
            walk(move("A", "alt"), move("C", "back", valid=False), move("C", "lose"), end="E"),
        )
    )


def e2() -> Rows:
    """An all-failed group: u ends on an invalid turn in B, v loops over A."""
    return rows_of(
        siblings(
            "E2",
            walk(move("A", "a"), move("B", "b", valid=False), end="B"),
            walk(move("A", "c"), move("A", "a"), move("B", "b"), end="Z"),
        )
    )


def matched_contexts() -> Group:
    """MCGPO's oracle: slot → one eligible decision (turn, exact key, action, outcome); all share one coarse key."""
    decisions = [
        (2, "e1", "a", 1), (3, "e1", "b", 0), (2, "e2", "a", 0), (5, "e3", "c", 1),
        (1, "e1", "a", 1), (2, "e1", "b", 0), (4, "e2", "b", 1), (2, "e9", "a", 0),
    ]  # fmt: skip
    return siblings("G", *(decision_at(turn, key, action, outcome) for turn, key, action, outcome in decisions))


def decision_at(turn: int, exact: str, action: str, outcome: int, coarse: str = "all") -> Trajectory:
    """A trajectory whose only eligible decision stands at the given turn; the turns before did not parse."""
    filler = [move(state("waiting", coarse="waiting"), "?", parsed=False) for _ in range(turn)]
    return walk(*filler, move(state(exact, coarse=coarse), action), success=bool(outcome), end="done")


plain_credit = benchmark_module("plain_credit")
"""The formulas row by row in plain Python."""
plain_context = benchmark_module("plain_context")
"""Those of the methods that look at contexts."""
