"""Game files for the real engine: a problem with the domain and the grammar of an alfworld release."""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.gametext import PLAIN_SENTENCE, GameText, is_plain

_PACKAGES = ("alfworld", "textworld")
_PLACEHOLDER = "UNKNOWN GOAL"
"""What the grammar holds where a game's task sentence belongs."""
_OLD_DOMAIN = (
    (r";(\(receptacleType \?r SinkType\))", r"\1"),
    (r"^\(:action help\b.*?^\)\n", ""),
)
_OLD_GRAMMAR = (
    (r"move \{o\} to \{r\}", "put {o} in/on {r}"),
    (r"You move the \{o\.name\} to the \{r\.name\}", "You put the {o.name} in/on the {r.name}"),
    (r"You arrive at \{r\.name\}", "You arrive at {lend.name}"),
    (r"^action help \{.*?^\}$", ""),
)
"""Passages of the files of 0.4 and what stood there in 0.3, as regular expressions and their replacements."""


def pack(game: GameText, grammar: GrammarName = "0.4") -> str:
    """A game as the JSON text of a `.tw-pddl` file.

    Raises ValueError where the alfworld package is not installed, and for a task that is no plain sentence: it becomes part
    of a grammar, in which the engine evaluates what stands in braces.
    """
    if not is_plain(game.task):
        raise ValueError(f"{game.name or 'the game'}: its task {game.task[:40]!r} is no plain sentence ({PLAIN_SENTENCE})")
    domain, texts = domain_and_texts(grammar)
    return json.dumps(
        {
            "pddl_domain": domain,
            "grammar": texts.replace(_PLACEHOLDER, game.task),
            "pddl_problem": game.problem,
            "solvable": True,
            "walkthrough": [],
        }
    )


@cache
def domain_and_texts(grammar: GrammarName) -> tuple[str, str]:
    """The PDDL domain and the text grammar of a release, made from the files that the alfworld package ships."""
    folder = _package_data()
    domain, texts = ((folder / name).read_text(encoding="utf-8") for name in ("alfred.pddl", "alfred.twl2"))
    return old_texts(domain, texts) if grammar == "0.3" else (domain, texts)


def old_texts(domain: str, grammar: str) -> tuple[str, str]:
    """The domain and text grammar of ALFWorld 0.3 (data 2.1.1), made from those of 0.4.

    Objects are `put … in/on`, an arrival names the location, a receptacle of type Sink cleans too, and there is no `help`.
    Raises ValueError naming a passage that the given texts lack.
    """
    for pattern, replacement in _OLD_DOMAIN:
        domain = _rewrite(domain, pattern, replacement, "alfred.pddl")
    for pattern, replacement in _OLD_GRAMMAR:
        grammar = _rewrite(grammar, pattern, replacement, "alfred.twl2")
    return domain, grammar


def _rewrite(text: str, pattern: str, replacement: str, file: str) -> str:
    changed, count = re.subn(pattern, replacement, text, flags=re.DOTALL | re.MULTILINE)
    if count == 0:
        raise ValueError(f"{file} of the alfworld package has no passage {pattern!r}: env.grammar=0.3 needs alfworld 0.4")
    return changed


def installed() -> bool:
    """Whether the packages of the extra `alfworld` are there; nothing is imported."""
    return all(find_spec(package) for package in _PACKAGES)


def versions() -> dict[str, str]:
    """Version of each package of the real engine."""
    return {package: version(package) for package in _PACKAGES}


def _package_data() -> Path:
    # found without importing it, for its import makes a folder in the user's home
    found = find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise ValueError("the alfworld package is not installed: pip install 'creditlab[alfworld]'")
    return Path(found.submodule_search_locations[0]) / "data"
