"""The words of ALFWorld's texts, for tokenizers made from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from creditlab.environments.alfworld.commands import GRAMMARS, GrammarName
from creditlab.environments.alfworld.families import FAMILIES, task_sentences
from creditlab.environments.alfworld.scenes import ROOM_TABLES
from creditlab.environments.alfworld.things import THINGS

_PHRASES = (
    "you are in the middle of a room. looking quickly around you, you see a ",
    "you arrive at ",
    "you open the ",
    "you close the ",
    "you pick up the ",
    "you turn on the ",
    "you clean the ",
    "you heat the ",
    "you cool the ",
    "nothing happens.",
    ", and a ",
    ", a ",
    ". on the ",
    ". the ",
    " is closed.",
    " is open",
    ". in it, you see a ",
    ". in it, you see nothing.",
    ", you see a ",
    ", you see nothing.",
    "go to ",
    " from the ",
    " using the ",
    "at the middle of a room",
    "holding nothing",
    "and put it in",
)
_GRAMMAR_PHRASES: dict[GrammarName, tuple[str, ...]] = {
    "0.4": ("you move the ", " to the "),
    "0.3": ("you put the ", " in/on the ", "in/on", "you arrive at loc "),
}
"""`in/on` alone is a token as well: a command comes back from its tokens with single spaces, not as `in / on`."""
_WORDS = (
    "-= Welcome to TextWorld, ALFRED! =-",
    "Your task is to: .",
    "You are facing the . Next to it, you see nothing.",
    "You are carrying: a . You are not carrying anything.",
    "On the , you see nothing. The is open. In it, you see a",
    "This is a hot and clean, cool and clean, cold, sliced, normal. This is on. This is off. There's nothing special about .",
    "You turn on the . You turn off the . You sliced the with the .",
    "go to; open; close; take from; move to; put in/on; use; heat; clean; cool; slice with; examine; inventory; look; help",
    "at the middle of a room holding nothing; holding clean hot cool sliced",
    "look at under the; examine the with the",
)
_ENTITY = re.compile(r"^\s*([A-Za-z]+)_bar_(\S+) - (object|receptacle|location)", re.MULTILINE)
_LARGEST_NUMBER = 40
"""Largest number in the names of generated games, rounded up."""
_LARGEST_LOCATION = 60
"""Largest number of a location of generated games, rounded up."""


def phrases(grammar: GrammarName) -> tuple[str, ...]:
    """Fixed phrases of a grammar's texts, in lower case."""
    return (*_PHRASES, *_GRAMMAR_PHRASES[grammar])


def texts(grammar: GrammarName, problems: Iterable[str] = ()) -> Iterator[str]:
    """Texts that together hold every word of generated games and of the given problems."""
    kinds: Counter[str] = Counter()
    named = GRAMMARS[grammar].names_locations
    largest = _LARGEST_LOCATION if named else _LARGEST_NUMBER
    for kind in {*THINGS, *(k for room in ROOM_TABLES.values() for k in (*room.furniture, *room.fixtures))}:
        kinds[kind.lower()] = 1
    for problem in problems:
        kinds |= entity_counts(problem, locations=named)
    yield from phrases(grammar)
    yield from _WORDS
    yield GRAMMARS[grammar].help or ""
    for family in FAMILIES:
        yield from task_sentences(family, ",", ",")
    yield from sorted(kinds)
    yield " ".join(str(number) for number in range(max(largest, *kinds.values()) + 1))


def entity_counts(problem: str, *, locations: bool) -> Counter[str]:
    """How many objects, receptacles and, where asked for, locations of each kind a problem declares, by the kind's word."""
    return Counter(
        kind.lower() + ("basin" if "basin" in rest.lower() else "")
        for kind, rest, type_ in _ENTITY.findall(problem)
        if locations or type_ != "location"
    )
