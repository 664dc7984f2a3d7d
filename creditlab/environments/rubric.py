"""What rubrics of environments share: dependency templates of criteria, exact channels, and the frontier F (MCGPO, Table 17).

Dependencies are data: an edge (X, Y) of `ever` lets Y open once X has been above zero at any time, an edge of `current` only
while X is above zero now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

from creditlab.rollouts import Channel

GOAL_PROGRESS = "goal_progress"
"""The channel that holds the share of the goal reached."""
SUCCESS = "task_success"
"""The node of the solved task: a criterion of the frontier, no channel of C."""

Edge = tuple[str, str]


@dataclass(frozen=True)
class Template:
    """The criteria of a task family and what each waits for."""

    ever: tuple[Edge, ...]
    """Edges (X, Y): Y needs X above zero at some time so far."""
    current: tuple[Edge, ...]
    """Edges (X, Y): Y needs X above zero now."""

    @cached_property
    def criteria(self) -> tuple[str, ...]:
        """Every node, sorted by name."""
        return tuple(sorted({node for edge in (*self.ever, *self.current) for node in edge}))

    @cached_property
    def channels(self) -> tuple[str, ...]:
        """The nodes that have a status, sorted by name: all but the solved task."""
        return tuple(name for name in self.criteria if name != SUCCESS)

    @cached_property
    def parents(self) -> Mapping[str, tuple[frozenset[str], frozenset[str]]]:
        """For each node its parents of `ever` and of `current`."""
        return {
            node: (
                frozenset(x for x, y in self.ever if y == node),
                frozenset(x for x, y in self.current if y == node),
            )
            for node in self.criteria
        }


@cache
def channel(value: Fraction | int, full: Fraction | int) -> Channel:
    """A channel's status as exact rationals; cached, since few values occur."""
    return Channel(Fraction(value), Fraction(full))


def frontier(
    template: Template,
    status: Mapping[str, Channel],
    ever: frozenset[str] | set[str],
    *,
    solved: bool,
    excludes_satisfied: bool = True,
) -> tuple[str, ...]:
    """Criteria whose prerequisites are met, sorted; by default without those that hold in full.

    `ever` names the channels that have been above zero at any time so far, the present included.
    """
    current = {name for name, channel in status.items() if channel.begun}
    satisfied = {name for name, channel in status.items() if channel.satisfied} | ({SUCCESS} if solved else set())
    return tuple(
        node
        for node, (needs_ever, needs_current) in template.parents.items()
        if needs_ever <= ever and needs_current <= current and not (excludes_satisfied and node in satisfied)
    )
