"""The commands and texts of a grammar version; everything the engine prints is written here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

GrammarName = Literal["0.4", "0.3"]

WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING_HAPPENS = "Nothing happens."


class Command(NamedTuple):
    """A command taken apart; entities by id."""

    verb: str
    """look, inventory, help, go, open, close, examine, take, move, use, clean, heat, cool or slice."""
    item: str | None = None
    """The object acted on."""
    receptacle: str | None = None
    tool: str | None = None
    """The knife of `slice`."""


@dataclass(frozen=True)
class Grammar:
    """What differs between versions of ALFWorld; templates take {item}, {receptacle} and {location}."""

    move: str
    """The command that places the held object."""
    moved: str
    """Its feedback."""
    arrived: str
    """How the feedback of `go to` begins."""
    cleans: frozenset[str]
    """Types of the receptacles at which an object can be cleaned."""
    help: str | None = None
    """What `help` prints; none where there is no such command."""

    @property
    def names_locations(self) -> bool:
        """Whether its texts call locations by name, such as `loc 12`."""
        return "{location}" in self.arrived


GRAMMARS: dict[GrammarName, Grammar] = {
    "0.4": Grammar(
        move="move {item} to {receptacle}",
        moved="You move the {item} to the {receptacle}.",
        arrived="You arrive at {receptacle}.",
        cleans=frozenset({"sinkbasin"}),
        help=(
            "Available commands:\n"
            "  look:                             look around your current location\n"
            "  inventory:                        check your current inventory\n"
            "  go to (receptacle):               move to a receptacle\n"
            "  open (receptacle):                open a receptacle\n"
            "  close (receptacle):               close a receptacle\n"
            "  take (object) from (receptacle):  take an object from a receptacle\n"
            "  move (object) to (receptacle):  place an object in or on a receptacle\n"
            "  examine (something):              examine a receptacle or an object\n"
            "  use (object):                     use an object\n"
            "  heat (object) with (receptacle):  heat an object using a receptacle\n"
            "  clean (object) with (receptacle): clean an object using a receptacle\n"
            "  cool (object) with (receptacle):  cool an object using a receptacle\n"
            "  slice (object) with (object):     slice an object using a sharp object\n"
        ),
    ),
    "0.3": Grammar(
        move="put {item} in/on {receptacle}",
        moved="You put the {item} in/on the {receptacle}.",
        arrived="You arrive at {location}.",
        cleans=frozenset({"sinkbasin", "sink"}),
    ),
}
"""The known grammars by ALFWorld version."""


def listing(names: Sequence[str]) -> str:
    """`nothing`, `x`, or `x, y, and z` (the comma before `and` also with two)."""
    if len(names) < 2:
        return names[0] if names else "nothing"
    return f"{', '.join(names[:-1])}, and {names[-1]}"


def indefinite(names: Sequence[str]) -> str:
    """A listing with the article `a` before every name, whatever its first letter."""
    return listing([f"a {name}" for name in names])
