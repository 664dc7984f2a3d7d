"""`python -m creditlab.environments.alfworld.worker`: the real engine in a process of a `WorkerPool`."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.packing import pack
from creditlab.environments.alfworld.textworld import RealEngine
from creditlab.environments.worker import Handler, serve


def player() -> Handler:
    """Plays requests on one engine: a game (`task`, `problem`, `grammar`) begins an episode, a `command` goes on with it."""
    os.environ["ALFWORLD_DATA"] = tempfile.gettempdir()  # the package makes this folder; the user's home is none of ours
    engine = RealEngine()

    def play(request: Any) -> dict[str, Any]:
        if "command" in request:
            feedback = engine.step(request["command"])
        else:
            game = GameText("", request["task"], "", "", 0, request["problem"])
            engine.load(pack(game, request["grammar"]))
            feedback = engine.reset()
        return {
            "feedback": feedback,
            "admissible": engine.admissible,
            "won": engine.won,
            "effective": engine.effective,
        }

    return play


if __name__ == "__main__":
    serve(player)
