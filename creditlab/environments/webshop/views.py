"""The state views of WebShop, read off a session: what decisions are compared by (MCGPO, Table 5).

`observation` is the raw page, `graph` the page without its instruction (GraphGPO), `exact` and `coarse` are the summaries of
MCGPO.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from creditlab.environments.rubric import frontier
from creditlab.environments.webshop.records import Goal, Score
from creditlab.environments.webshop.rubric import (
    ATTRIBUTES,
    OPENED,
    OPTIONS,
    PRICE,
    SEARCHED,
    TYPE,
    channels,
    template,
)
from creditlab.environments.webshop.session import Session
from creditlab.rollouts import Channel, State


class Tracker:
    """Gives the state after every action of one session, and remembers what has been reached before."""

    def __init__(self, goal: Goal, *, frontier_excludes_satisfied: bool) -> None:
        self.goal = goal
        self._template = template(goal)
        self._excludes_satisfied = frontier_excludes_satisfied
        self._ever: frozenset[str] = frozenset()

    def forget(self) -> None:
        """Begins a new episode."""
        self._ever = frozenset()

    def snapshot(self) -> frozenset[str]:
        """What has been reached so far."""
        return self._ever

    def restore(self, snapshot: frozenset[str]) -> None:
        """Continues from a snapshot."""
        self._ever = snapshot

    def state(self, session: Session, page: str, shown: str, score: Score | None, *, solved: bool) -> State:
        """The present state; `shown` is the page without its instruction, `score` that of buying the open product now."""
        rubric = channels(self.goal, score, searched=session.keywords is not None)
        self._ever |= {name for name, status in rubric.items() if status.begun}
        opened = frontier(self._template, rubric, self._ever, solved=solved, excludes_satisfied=self._excludes_satisfied)
        views = {"observation": page, "graph": shown, "exact": _exact(session), "coarse": _coarse(session, rubric)}
        return State(views, rubric, opened)


def after_instruction(page: str, instruction: str, separator: str) -> str:
    """What follows the instruction on a page; the whole of a page that does not show it."""
    _, found, rest = page.partition(f"{separator}{instruction}{separator}")
    return rest if found else page


def match_bin(share: Fraction) -> str:
    """The bin of a match in the coarse view: {0}, (0, .5], (.5, 1), {1}."""
    if share.denominator == 1:
        return str(share.numerator)
    return "low" if 2 * share.numerator <= share.denominator else "high"


def _exact(session: Session) -> str:
    page = f"results {session.page_number}" if session.kind == "results" else session.kind
    chosen = ", ".join(f"{name}: {value}" for name, value in sorted(session.options.items()))
    return _fields({"page": page, "query": session.keywords, "product": session.asin, "options": chosen})


def _coarse(session: Session, rubric: Mapping[str, Channel]) -> str:
    binned = {name: match_bin(rubric[channel].value) for name, channel in _BINNED.items()}
    flags = {name: "yes" if rubric[channel].begun else "no" for name, channel in _FLAGS.items()}
    return _fields({"page": session.kind, **flags, **binned, "price": "ok" if rubric[PRICE].begun else "no"})


_FLAGS = {"searched": SEARCHED, "product open": OPENED}
_BINNED = {"type": TYPE, "attributes": ATTRIBUTES, "options": OPTIONS}


def _fields(fields: Mapping[str, str | None]) -> str:
    return " | ".join(f"{name}={value or 'none'}" for name, value in fields.items())
