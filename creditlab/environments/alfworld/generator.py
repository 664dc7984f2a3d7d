"""A seeded generator of solvable household games, written as ALFRED planning problems.

A game is a function of (family, room, seed, unseen): floor plan, task, and what lies where. The target's kind never starts in
a receptacle of the goal's kind, every receptacle that can be closed is, and the agent starts in the middle of the room. The
problems use the vocabulary of the published domain, so that this project's engine and the published one both play them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache

from creditlab.environments.alfworld.families import FAMILIES, GOALS, LOOK, TWO, goal_text, task_sentences
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.scenes import (
    CAPACITY,
    FIXTURE_TRAITS,
    LAMP,
    ROOMS,
    FloorPlan,
    floor_plan,
    plan_numbers,
)
from creditlab.environments.alfworld.things import THINGS, Thing
from creditlab.environments.dice import Dice

_NOTHING_SPECIAL = Thing({}, frozenset())
_STATIC_RECEPTACLE_TYPES = ("SinkBasinType", "MicrowaveType", "FridgeType")
_STATIC_OBJECT_TYPES = ("KnifeType", "ButterKnifeType")
"""Constants of the published domain; a problem without them does not translate."""
_SINGLE_COPIES = ((1, 2, 3, 4), (0.38, 0.28, 0.21, 0.13))
_DOUBLE_COPIES = ((2, 3, 4), (0.43, 0.33, 0.24))
"""Numbers of instances of the target's kind, with their weights, where one or two are asked for."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A scene while it is being furnished: ids with their types, and where each object lies."""

    plan: FloorPlan
    receptacles: tuple[str, ...]
    """Ids, beside `plan.receptacles`."""
    objects: dict[str, str] = field(default_factory=dict)
    """Object id to type."""
    inside: dict[str, int] = field(default_factory=dict)
    """Object id to the position of its receptacle; fixtures have none."""


def rooms_of(family: str) -> tuple[str, ...]:
    """The room types in which a task family occurs; raises ValueError for an unknown family."""
    if family not in FAMILIES:
        raise ValueError(f"unknown task family {family!r}; there are {', '.join(FAMILIES)}")
    return tuple(room for room in ROOMS if (family, room) in GOALS)


def generate(family: str, room: str, seed: int, *, unseen: bool = False) -> GameText:
    """One game; `unseen` takes a floor plan that no training game has. Raises ValueError where the family does not occur."""
    if room not in rooms_of(family):
        raise ValueError(f"{family} does not occur in room {room!r}; it does in {', '.join(rooms_of(family))}")
    dice = Dice(FAMILIES.index(family), ROOMS.index(room), int(unseen), seed)
    numbers = _plans(family, room, unseen)
    plan = floor_plan(room, dice.one_of(numbers))
    target, goal = _draw_task(plan, family, dice)
    draft = _furnish(plan, family, target, goal, dice)
    task = dice.one_of(task_sentences(family, target, goal))
    name = f"{family}-{target}-None-{goal}-{plan.number}/{'unseen' if unseen else 'seen'}_{seed}"
    return GameText(name, task, family, room, plan.number, _problem_text(draft, family, target, goal))


@cache
def _plans(family: str, room: str, unseen: bool) -> tuple[int, ...]:
    """The floor plans in which the family has at least one task."""
    numbers = plan_numbers(room, unseen=unseen)
    return tuple(n for n in numbers if _choices(room, n, family))


def _draw_task(plan: FloorPlan, family: str, dice: Dice) -> tuple[str, str]:
    """A target type and a goal type (receptacle, or lamp) that fit together in this plan."""
    choices = _choices(plan.room, plan.number, family)
    return dice.weighted([pair for pair, _ in choices], [weight for _, weight in choices])


@cache
def _choices(room: str, number: int, family: str) -> tuple[tuple[tuple[str, str], float], ...]:
    """Every (target, goal) pair that this plan can pose, with its weight."""
    plan, table = floor_plan(room, number), GOALS[family, room]
    required = 2 if family == TWO else 1
    if family == LOOK:
        lit = LAMP in plan.pool and _places(LAMP, "", plan) > 0
        return tuple(
            ((t, LAMP), w) for t, w in table.targets.items() if lit and t in plan.pool and _places(t, LAMP, plan) > 0
        )
    return tuple(
        ((target, goal), table.targets[target] * table.receptacles[goal])
        for target in table.targets
        for goal in table.receptacles
        if target in plan.pool and goal in plan.types and goal in THINGS[target].homes
        if _places(target, goal, plan) >= required
    )


def _places(kind: str, goal: str, plan: FloorPlan) -> int:
    """How many objects of a kind have a place somewhere else than at the goal."""
    homes = {home for home, weight in THINGS[kind].homes.items() if weight > 0 and home != goal}
    return sum(CAPACITY.get(r.type, len(THINGS)) for r in plan.receptacles if r.type in homes)


def _furnish(plan: FloorPlan, family: str, target: str, goal: str, dice: Dice) -> _Draft:
    """Puts objects into the plan's receptacles, the target's instances first."""
    draft = _Draft(plan, _receptacle_ids(plan))
    copies, weights = _DOUBLE_COPIES if family == TWO else _SINGLE_COPIES
    by_type: dict[str, list[int]] = defaultdict(list)
    for position, receptacle in enumerate(plan.receptacles):
        by_type[receptacle.type].append(position)
    load: Counter[int] = Counter()
    _place(draft, target, dice.weighted(copies, weights), by_type, load, dice, avoid=goal)
    for kind in plan.pool:
        if kind != target:
            _place(draft, kind, dice.one_of(THINGS[kind].copies), by_type, load, dice)
    counts = Counter(draft.objects.values())
    for kind in plan.fixtures:
        counts[kind] += 1
        draft.objects[f"{kind}_bar_{counts[kind]:02d}"] = kind
    return draft


def _place(
    draft: _Draft,
    kind: str,
    copies: int,
    by_type: dict[str, list[int]],
    load: Counter[int],
    dice: Dice,
    avoid: str = "",
) -> None:
    """Lays `copies` instances of a kind into receptacles with room left, by the weights of its homes."""
    for copy in range(copies):
        free = {
            home: (weight, spots)
            for home, weight in THINGS[kind].homes.items()
            if weight > 0
            and home != avoid
            and (spots := [p for p in by_type.get(home, ()) if load[p] < CAPACITY.get(home, len(THINGS))])
        }
        if not free:
            return
        _, spots = dice.weighted(list(free.values()), [weight for weight, _ in free.values()])
        position = dice.one_of(spots)
        load[position] += 1
        identity = f"{kind}_bar_{copy + 1:02d}"
        draft.objects[identity] = kind
        draft.inside[identity] = position


def _receptacle_ids(plan: FloorPlan) -> tuple[str, ...]:
    """Ids in the published form; a basin is named as a part of its sink or bathtub, as there."""
    ids, counts = [], Counter[str]()
    for receptacle in plan.receptacles:
        counts[receptacle.type] += 1
        stem = receptacle.type.removesuffix("Basin")
        part = f"_bar_{receptacle.type}" if stem != receptacle.type else ""
        ids.append(f"{stem}_bar_{counts[receptacle.type]:02d}{part}")
    return tuple(ids)


def _traits(kind: str) -> frozenset[str]:
    return FIXTURE_TRAITS.get(kind, frozenset()) | THINGS.get(kind, _NOTHING_SPECIAL).traits


def _problem_text(draft: _Draft, family: str, target: str, goal: str) -> str:
    """The planning problem: objects, initial facts and goal."""
    plan, kinds = draft.plan, sorted(set(draft.objects.values()))
    receptacle_types = sorted(plan.types)
    spots = max(receptacle.place for receptacle in plan.receptacles)
    place = {identity: plan.receptacles[position].place for identity, position in draft.inside.items()}
    place |= {identity: spots + 1 + i for i, identity in enumerate(o for o in draft.objects if o not in draft.inside)}
    otypes = sorted({f"{kind}Type" for kind in kinds}.union(_STATIC_OBJECT_TYPES))
    rtypes = sorted({f"{kind}Type" for kind in receptacle_types}.union(_STATIC_RECEPTACLE_TYPES))
    declared = [
        "agent1 - agent",
        *(f"{name} - otype" for name in otypes),
        *(f"{name} - rtype" for name in rtypes),
        *(f"{identity} - object" for identity in draft.objects),
        *(f"{identity} - receptacle" for identity in draft.receptacles),
        *(f"{_location(n)} - location" for n in range(max(place.values(), default=spots) + 1)),
    ]
    facts = [f"(atLocation agent1 {_location(0)})"]
    for identity, receptacle in zip(draft.receptacles, plan.receptacles, strict=True):
        facts.append(f"(receptacleType {identity} {receptacle.type}Type)")
        facts.append(f"(receptacleAtLocation {identity} {_location(receptacle.place)})")
        if receptacle.openable:
            facts.append(f"(openable {identity})")
    for identity, kind in draft.objects.items():
        facts.append(f"(objectType {identity} {kind}Type)")
        facts.append(f"(objectAtLocation {identity} {_location(place[identity])})")
        facts += [f"({trait} {identity})" for trait in sorted(_traits(kind))]
        if identity in draft.inside:
            facts.append(f"(inReceptacle {identity} {draft.receptacles[draft.inside[identity]]})")
    facts += [
        f"(canContain {home}Type {kind}Type)"
        for home in receptacle_types
        for kind in kinds
        if home in THINGS.get(kind, _NOTHING_SPECIAL).homes and "pickupable" in THINGS[kind].traits
    ]
    return "\n".join(
        [
            f"(define (problem {family}_{plan.number})",
            "(:domain alfred)",
            "(:objects",
            *declared,
            ")",
            "(:init",
            "(= (total-cost) 0)",
            *facts,
            ")",
            f"(:goal {goal_text(family, target, goal)})",
            ")",
            "",
        ]
    )


def _location(number: int) -> str:
    return f"loc_bar_{number:02d}"
