"""Commands that lead an engine into every rule and oddity of a game, for playing it beside another engine.

Everything is chosen from the state of the engine that is passed, and from a generator of random numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.expert import Expert
from creditlab.environments.alfworld.goal import PROCESSES

Commands = Iterator[str]
KNIVES = ("knife", "butterknife")
_EXPERT_LIMIT = 60
_NONSENSE_SHARE = 0.15


def pick(rng: np.random.Generator, choices: Any) -> Any:
    """One of the choices, in their sorted order."""
    ordered = sorted(choices)
    return ordered[int(rng.integers(len(ordered)))]


def run_errands(engine: Engine, rng: np.random.Generator) -> Commands:
    """Every errand once, in random order, with nonsense before each."""
    errands: list[Callable[[Engine, np.random.Generator], Commands]] = [
        share_a_spot,
        light,
        contain,
        slice_something,
        process,
        shut,
    ]
    for index in rng.permutation(len(errands)):
        yield nonsense(engine, rng)
        yield from errands[index](engine, rng)


def wander(engine: Engine, rng: np.random.Generator) -> Commands:
    """Random commands without end: first the kind, then the command, so that `go to` does not crowd out the rest."""
    while True:
        if rng.random() < _NONSENSE_SHARE:
            yield nonsense(engine, rng)
            continue
        kinds = defaultdict(list)
        for command in engine.admissible:
            kinds[command.split()[0]].append(command)
        yield pick(rng, kinds[pick(rng, kinds)])


def finish(engine: Engine, rng: np.random.Generator) -> Commands:
    """The expert's commands until the game is won, and some after."""
    expert = Expert(engine.game, rng)
    for _ in range(_EXPERT_LIMIT):
        if engine.won:
            break
        yield expert.act(engine)
    yield "look"
    yield pick(rng, engine.admissible)


def nonsense(engine: Engine, rng: np.random.Generator) -> str:
    """A command that is not admissible now, for one of many reasons."""
    game, names = engine.game, engine.game.names
    item, receptacle = names[pick(rng, game.pickupable)], names[pick(rng, game.receptacles)]
    here = names[engine.here[0]] if engine.here else receptacle
    held = names[engine.held] if engine.held else item
    location = names[engine.location]
    candidates = [
        f"go to {here}",
        f"go to {location}",
        "go to nowhere 1",
        f"examine {item}",
        f"take {item} from {receptacle}",
        f"move {held} to {receptacle}",
        f"put {held} in/on {receptacle}",
        f"open {receptacle}",
        f"close {receptacle}",
        f"use {item}",
        f"heat {held} with {receptacle}",
        f"clean {held} with {receptacle}",
        f"slice {item} with {held}",
        f"Go to {receptacle}",
        f"go  to {receptacle}",
        f"{receptacle}",
        "help",
        "dance",
        "",
    ]
    known = set(engine.admissible)
    return str(pick(rng, [command for command in candidates if command not in known]))


def reach(engine: Engine, receptacle: str) -> Commands:
    """Goes to a receptacle and opens it."""
    if receptacle not in engine.here:
        yield f"go to {engine.game.names[receptacle]}"
    if not engine.is_open(receptacle):
        yield f"open {engine.game.names[receptacle]}"


def let_go(engine: Engine, rng: np.random.Generator) -> Commands:
    """Places the held object somewhere, here where possible."""
    held = engine.held
    if held is None:
        return
    fitting = [receptacle for receptacle in engine.game.receptacles if engine.game.fits(held, receptacle)]
    here = [receptacle for receptacle in fitting if receptacle in engine.here]
    if fitting:
        receptacle = pick(rng, here or fitting)
        yield from reach(engine, receptacle)
        yield engine.grammar.move.format(item=engine.game.names[held], receptacle=engine.game.names[receptacle])


def fetch(engine: Engine, rng: np.random.Generator, items: Any) -> Commands:
    """Takes one of the objects into the hand, from wherever it is."""
    found = [(item, r) for r in engine.game.receptacles for item in engine.contents(r) if item in items]
    portable = [(item, r) for item, r in found if item in engine.game.pickupable]
    if not portable or engine.held in items:
        return
    item, receptacle = pick(rng, portable)
    if engine.held is not None:
        yield from let_go(engine, rng)
    yield from reach(engine, receptacle)
    yield f"take {engine.game.names[item]} from {engine.game.names[receptacle]}"


def share_a_spot(engine: Engine, rng: np.random.Generator) -> Commands:
    """Receptacles reached from one spot: the second is no place to go to, but can be used."""
    shared = [group for group in engine.game.by_location.values() if len(group) > 1]
    if not shared:
        return
    first, second = pick(rng, shared)[:2]
    yield from reach(engine, first)
    yield f"go to {engine.game.names[second]}"
    yield from reach(engine, second)
    yield f"examine {engine.game.names[second]}"
    yield "look"


def light(engine: Engine, rng: np.random.Generator) -> Commands:
    """A lamp is used twice."""
    lamps = [(item, r) for r in engine.game.receptacles for item in engine.contents(r) if item in engine.game.toggleable]
    if lamps:
        lamp, receptacle = pick(rng, lamps)
        yield from (f"go to {engine.game.names[receptacle]}",) if receptacle not in engine.here else ()
        yield f"use {engine.game.names[lamp]}"
        yield f"use {engine.game.names[lamp]}"


def contain(engine: Engine, rng: np.random.Generator) -> Commands:
    """An object that can hold others is examined, in the hand and out of it."""
    yield from fetch(engine, rng, engine.game.containers)
    if engine.held is not None:
        name = engine.game.names[engine.held]
        yield f"examine {name}"
        yield "inventory"
        yield from let_go(engine, rng)
        yield f"examine {name}"
        yield "look"


def slice_something(engine: Engine, rng: np.random.Generator) -> Commands:
    """A knife cuts something where it lies; the piece is taken and examined."""
    game = engine.game
    yield from fetch(engine, rng, [item for item, kind in game.object_types.items() if kind in KNIVES])
    lying = [(item, r) for r in game.receptacles for item in engine.contents(r) if item in game.sliceable]
    if engine.held is None or game.object_types.get(engine.held) not in KNIVES or not lying:
        return
    item, receptacle = pick(rng, lying)
    if receptacle not in engine.here:
        yield f"go to {game.names[receptacle]}"
    yield f"slice {game.names[item]} with {game.names[engine.held]}"
    yield from let_go(engine, rng)
    yield from fetch(engine, rng, [item])
    yield f"examine {game.names[item]}"
    yield from process(engine, rng)


def process(engine: Engine, rng: np.random.Generator) -> Commands:
    """An object is cleaned, heated and cooled in some order, as far as it can be, and examined after each."""
    game = engine.game
    abilities = {"clean": game.cleanable, "heat": game.heatable, "cool": game.coolable}
    if engine.held is None:
        yield from fetch(engine, rng, game.heatable or game.cleanable)
    processes = list(PROCESSES.values())
    for index in rng.permutation(len(processes)):
        verb, held = processes[index].verb, engine.held
        appliances = [r for r in game.receptacles if engine.happens_at(processes[index], r)]
        if held in abilities[verb] and appliances:
            appliance = pick(rng, appliances)
            if appliance not in engine.here:
                yield f"go to {game.names[appliance]}"
            yield f"{verb} {game.names[held]} with {game.names[appliance]}"
            yield f"examine {game.names[held]}"


def shut(engine: Engine, rng: np.random.Generator) -> Commands:
    """A receptacle is opened, looked into, closed, and tried while it is closed."""
    game = engine.game
    if not game.openable:
        return
    receptacle = pick(rng, game.openable)
    name = game.names[receptacle]
    yield from reach(engine, receptacle)
    yield f"examine {name}"
    content = engine.contents(receptacle)
    yield f"close {name}"
    yield f"examine {name}"
    if content:
        yield f"take {game.names[content[0]]} from {name}"
    yield f"go to {name}"
