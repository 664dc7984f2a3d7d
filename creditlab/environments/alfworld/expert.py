"""Solves ALFWorld games by exploring, for warm starts and to check that a game can be solved.

The expert knows what an agent reading the texts could know: the receptacles of the introduction, what it saw in those it
inspected, what it holds, and what fits where. It keeps no plan, so it goes on from whatever state it is asked in.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.goal import Process
from creditlab.environments.alfworld.problem import Game

_WAIT = "look"
"""For states from which no command helps, such as a held object that fits nowhere; always admissible."""


class Expert:
    """An exploring expert for one episode; equal seeds give equal decisions in equal histories."""

    def __init__(self, game: Game, rng: np.random.Generator) -> None:
        self.game = game
        self._order = tuple(game.receptacles[i] for i in rng.permutation(len(game.receptacles)))
        self._seen: dict[str, tuple[str, ...]] = {}
        """Receptacle to the objects it held when it was last inspected."""

    def act(self, engine: Engine) -> str:
        """The next command, always an admissible one; `engine` plays the expert's game."""
        self._observe(engine)
        held, process = engine.held, self.game.goal.process
        if held is None:
            return self._fetch(engine)
        if held not in self.game.targets:
            return self._put(engine, held, self._order)
        if self.game.lamp_type is not None:
            return self._use_lamp(engine)
        if process is not None and not engine.has(held, process.flag):
            return self._process(engine, held, process)
        return self._put(engine, held, self._destinations())

    def _observe(self, engine: Engine) -> None:
        """Takes in what the last command showed, and checks beliefs about places within reach.

        Receptacles that share a location are inspected one by one, as in the texts.
        """
        inspected = set(self._seen)
        if engine.last is not None and engine.last.receptacle is not None:
            inspected.add(engine.last.receptacle)
        for receptacle in engine.here:
            if receptacle in inspected and engine.is_open(receptacle):
                self._seen[receptacle] = engine.contents(receptacle)

    def _fetch(self, engine: Engine) -> str:
        """Takes a target it has seen, or looks on."""
        finished = self._destinations()[:1] if self.game.required > 1 else ()
        for receptacle in self._here_first(engine, self._order):
            if receptacle in finished:
                continue
            for item in self._seen.get(receptacle, ()):
                if item in self.game.targets and item in self.game.pickupable:
                    take = f"take {self.game.names[item]} from {self.game.names[receptacle]}"
                    return self._approach(engine, receptacle) or take
        return self._explore(engine, self.game.target_type)

    def _put(self, engine: Engine, held: str, receptacles: Iterable[str]) -> str:
        """Places the held object in the first of the receptacles that it fits in."""
        fitting = [receptacle for receptacle in receptacles if self.game.fits(held, receptacle)]
        if self.game.required == 1 or held not in self.game.targets:
            fitting = self._here_first(engine, fitting)
        if not fitting:
            return _WAIT
        names, receptacle = self.game.names, fitting[0]
        put = engine.grammar.move.format(item=names[held], receptacle=names[receptacle])
        return self._approach(engine, receptacle) or put

    def _process(self, engine: Engine, held: str, process: Process) -> str:
        appliances = [r for r in self._order if engine.happens_at(process, r)]
        if not appliances:
            return _WAIT
        appliance = self._here_first(engine, appliances)[0]
        if appliance not in engine.here:
            return f"go to {self.game.names[appliance]}"
        return f"{process.verb} {self.game.names[held]} with {self.game.names[appliance]}"

    def _use_lamp(self, engine: Engine) -> str:
        for receptacle in self._here_first(engine, self._order):
            for lamp in self._seen.get(receptacle, ()):
                if lamp in self.game.lamps:
                    return self._approach(engine, receptacle) or f"use {self.game.names[lamp]}"
        return self._explore(engine, str(self.game.lamp_type))

    def _explore(self, engine: Engine, wanted: str) -> str:
        """Inspects the next receptacle that may hold an object of the wanted type; starts over when all were seen."""
        unseen = [receptacle for receptacle in self._order if receptacle not in self._seen]
        if not unseen:
            self._seen.clear()
            unseen = list(self._order)
        likely = [r for r in unseen if (self.game.receptacle_types.get(r), wanted) in self.game.can_contain]
        # A target in a receptacle of the goal's type is the less useful find: it is placed already.
        elsewhere = [r for r in likely if r not in self.game.goal_receptacles]
        receptacle = self._here_first(engine, elsewhere or likely or unseen)[0]
        return self._approach(engine, receptacle) or f"examine {self.game.names[receptacle]}"

    def _destinations(self) -> list[str]:
        """Receptacles of the goal's type, those known to hold most targets first."""

        def missing(receptacle: str) -> int:
            return -len(self.game.targets.intersection(self._seen.get(receptacle, ())))

        return sorted((r for r in self._order if r in self.game.goal_receptacles), key=missing)

    def _approach(self, engine: Engine, receptacle: str) -> str | None:
        """The command that brings the receptacle's inside nearer; None when it is within reach."""
        if receptacle not in engine.here:
            return f"go to {self.game.names[receptacle]}"
        return None if engine.is_open(receptacle) else f"open {self.game.names[receptacle]}"

    def _here_first(self, engine: Engine, receptacles: Iterable[str]) -> list[str]:
        return sorted(receptacles, key=lambda receptacle: receptacle not in engine.here)


def solve(engine: Engine, rng: np.random.Generator, limit: int) -> int | None:
    """Plays the expert from the engine's present state; the number of commands until it won, None if above `limit`."""
    expert = Expert(engine.game, rng)
    for steps in range(limit):
        if engine.won:
            return steps
        engine.step(expert.act(engine))
    return limit if engine.won else None
