"""The words of ALFWorld's texts, for tokenizers made from them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from creditlab.environments.alfworld.commands import GRAMMARS
from creditlab.environments.alfworld.families import FAMILIES, task_sentences
from creditlab.environments.alfworld.scenes import ROOM_TABLES
from creditlab.environments.alfworld.things import THINGS

PHRASES = (
    "you are in the middle of a room. looking quickly around you, you see a ",
    "you arrive at ",
    "you open the ",
    "you close the ",
    "you pick up the ",
    "you move the ",
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
    " to the ",
    " using the ",
    "at the middle of a room",
    "holding nothing",
    "and put it in",
)
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
_ENTITY = re.compile(r"^\s*([A-Za-z]+)_bar_(\S+) - (?:object|receptacle)", re.MULTILINE)
_LARGEST_NUMBER = 40
"""Largest number in the names of generated games, rounded up."""


def texts(problems: Iterable[str] = ()) -> Iterator[str]:
    """Texts that together hold every word of generated games and of the given problems."""
    kinds: Counter[str] = Counter()
    for kind in {*THINGS, *(k for room in ROOM_TABLES.values() for k in (*room.furniture, *room.fixtures))}:
        kinds[kind.lower()] = 1
    for problem in problems:
        kinds |= entity_counts(problem)
    yield from PHRASES
    yield from _WORDS
    yield from (grammar.help for grammar in GRAMMARS.values())
    for family in FAMILIES:
        yield from task_sentences(family, ",", ",")
    yield from sorted(kinds)
    yield " ".join(str(number) for number in range(max(_LARGEST_NUMBER, *kinds.values()) + 1))


def entity_counts(problem: str) -> Counter[str]:
    """How many entities of each kind a problem declares, by the kind's word in the texts."""
    return Counter(kind.lower() + ("basin" if "basin" in rest.lower() else "") for kind, rest in _ENTITY.findall(problem))
