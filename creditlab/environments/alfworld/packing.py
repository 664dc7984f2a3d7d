"""Game files for the real engine: a problem with the domain and the grammar of an alfworld release."""

from __future__ import annotations

import json
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.gametext import GameText

_PLACEHOLDER = "UNKNOWN GOAL"
"""What the grammar holds where a game's task sentence belongs."""


def pack(game: GameText, grammar: GrammarName = "0.4") -> str:
    """A game as the JSON text of a `.tw-pddl` file. Raises ValueError where the alfworld package is not installed."""
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
    return (folder / "alfred.pddl").read_text(encoding="utf-8"), (folder / "alfred.twl2").read_text(encoding="utf-8")


def _package_data() -> Path:
    # found without importing it, for its import makes a folder in the user's home
    found = find_spec("alfworld")
    if found is None or not found.submodule_search_locations:
        raise ValueError("the alfworld package is not installed: pip install 'creditlab[alfworld]'")
    return Path(found.submodule_search_locations[0]) / "data"
