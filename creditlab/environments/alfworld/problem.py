"""An ALFRED problem, parsed once and shared by every episode that plays it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from creditlab.environments.alfworld.goal import Goal, bare_type, recognise_goal
from creditlab.environments.alfworld.pddl import (
    DOMAIN,
    SExpr,
    UnknownDomainError,
    check_atom,
    read_expression,
    read_typed_list,
    show,
)

__all__ = ["FLAGS", "Game", "UnknownDomainError", "parse_problem"]

FLAGS = ("isclean", "ishot", "iscool", "istoggled", "issliced")
"""Facts about a single object that commands can change."""

_SECTIONS = (":domain", ":objects", ":init", ":goal")
_IGNORED_SECTIONS = frozenset({"problem", ":requirements", ":metric"})


@dataclass(frozen=True, eq=False)
class Game:
    """The unchanging part of a game and its initial facts; entities go by their PDDL id in lower case."""

    name: str
    """A stable id, used in messages."""
    task: str
    """The task sentence without its final period."""
    goal: Goal
    names: Mapping[str, str]
    """Id to display name, such as `mug 2`, of every entity that occurs in a fact."""
    receptacles: tuple[str, ...]
    """Every receptacle, sorted by id, which is the order of the texts."""
    receptacle_location: Mapping[str, str]
    receptacle_types: Mapping[str, str]
    """Receptacle to type in lower case without suffix, such as `sidetable`."""
    object_types: Mapping[str, str]
    openable: frozenset[str]
    pickupable: frozenset[str]
    cleanable: frozenset[str]
    heatable: frozenset[str]
    coolable: frozenset[str]
    toggleable: frozenset[str]
    sliceable: frozenset[str]
    containers: frozenset[str]
    """Objects that `examine` describes by what is in them (isReceptacleObject)."""
    container_contents: Mapping[str, tuple[str, ...]]
    """Container to the objects in it, sorted; no command changes it."""
    can_contain: frozenset[tuple[str, str]]
    """Pairs (receptacle type, object type) for which placing is possible."""
    start: str
    """Location of the agent at first."""
    initial_held: str | None
    initial_contents: tuple[tuple[str, ...], ...]
    """The objects in each receptacle, sorted; aligned with `receptacles`. An object may be in several at first."""
    initial_opened: frozenset[str]
    initial_places: frozenset[tuple[str, str]]
    """Pairs (object, location) at which `slice` reaches an object."""
    initial_flags: frozenset[tuple[str, str]]
    """Pairs (flag, object) that hold at first; the flags are `FLAGS`."""
    index: Mapping[str, int]
    """Receptacle to its position in `receptacles`."""
    by_location: Mapping[str, tuple[str, ...]]
    targets: frozenset[str]
    """Objects that can satisfy the goal once they have the state it asks for."""
    goal_receptacles: tuple[str, ...]
    """Receptacles of the goal's type, sorted; empty for look_at_obj_in_light."""
    lamps: frozenset[str]
    """Toggleable objects of the goal's lamp type; empty for the other families."""

    @property
    def family(self) -> str:
        """The task family, one of `families.FAMILIES`."""
        return self.goal.family

    @property
    def target_type(self) -> str:
        """Type of the object to find, such as `mug`."""
        return self.goal.target_type

    @property
    def receptacle_type(self) -> str | None:
        """Type of the receptacle to place it in; None for look_at_obj_in_light."""
        return self.goal.receptacle_type

    @property
    def lamp_type(self) -> str | None:
        """Type of the lamp to use; None but for look_at_obj_in_light."""
        return self.goal.lamp_type

    @property
    def required(self) -> int:
        """How many targets must be placed (in the same receptacle): 2 for pick_two_obj_and_place, else 1."""
        return self.goal.required

    def receptacles_at(self, location: str) -> tuple[str, ...]:
        """The receptacles within reach at a location, sorted; empty for a location without any."""
        return self.by_location.get(location, ())

    def fits(self, item: str, receptacle: str) -> bool:
        """Whether an object may be placed in a receptacle, by their types."""
        return (self.receptacle_types.get(receptacle, ""), self.object_types.get(item, "")) in self.can_contain


def parse_problem(text: str, task: str, name: str) -> Game:
    """The game of a PDDL problem of the ALFRED domain.

    `task` is the task sentence (a final period is dropped), `name` a stable id. Raises UnknownDomainError for another
    domain, predicate or kind of goal, and ValueError for anything else that is wrong; both name `name` and the offence.
    """
    sections = _read_sections(text, name)
    if sections[":domain"] != [DOMAIN]:
        raise UnknownDomainError(f"{name}: domain {show(sections[':domain'])} is not {DOMAIN!r}, the only one known")
    types = read_typed_list(sections[":objects"], name, ":objects")
    facts = _read_facts(sections[":init"], types, name)
    if len(sections[":goal"]) != 1:
        raise ValueError(f"{name}: :goal must hold one formula, found {len(sections[':goal'])}")
    return _build(facts, types, recognise_goal(sections[":goal"][0], types, name), task.strip().removesuffix("."), name)


def _read_sections(text: str, name: str) -> dict[str, list[SExpr]]:
    root = read_expression(text, name)
    if not isinstance(root, list) or root[:1] != ["define"]:
        raise ValueError(f"{name}: a PDDL problem must read (define (problem …) …), found {show(root)[:60]}")
    sections: dict[str, list[SExpr]] = {}
    for part in root[1:]:
        if not isinstance(part, list) or not part or not isinstance(part[0], str):
            raise ValueError(f"{name}: unexpected {show(part)[:60]} where a section such as (:init …) should stand")
        if part[0] not in _SECTIONS and part[0] not in _IGNORED_SECTIONS:
            raise ValueError(f"{name}: unknown section {part[0]!r}; a problem has {', '.join(_SECTIONS)}")
        if part[0] in sections:
            raise ValueError(f"{name}: section {part[0]} appears twice")
        sections[part[0]] = part[1:]
    missing = [section for section in _SECTIONS if section not in sections]
    if missing:
        raise ValueError(f"{name}: the problem has no section {', '.join(missing)}")
    return sections


def _read_facts(init: list[SExpr], types: dict[str, str], name: str) -> dict[str, set[tuple[str, ...]]]:
    """The initial facts, predicate to argument tuples; values of the domain's two numeric functions carry no rule."""
    facts: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for atom in init:
        match atom:
            case ["=", ["total-cost" | "distance", *_], str()]:
                continue
        parts = check_atom(atom, types, name, ":init")
        facts[parts[0]].add(parts[1:])
    return facts


def _build(facts: dict[str, set[tuple[str, ...]]], types: dict[str, str], goal: Goal, task: str, name: str) -> Game:
    agents = [entity for entity, kind in types.items() if kind == "agent"]
    start = _function(facts, "atlocation", name)
    if len(agents) != 1 or len(start) != 1:
        raise ValueError(f"{name}: a game needs exactly one agent at one location, found {len(agents)} and {len(start)}")
    held = [item for _, item in facts["holds"]]
    if len(held) > 1 or len(held) != len(facts["holdsany"]):
        raise ValueError(f"{name}: the agent must hold one object (holds and holdsAny) or none, found {held}")
    receptacle_location = _function(facts, "receptacleatlocation", name)
    receptacles = tuple(sorted(receptacle_location))
    receptacle_types = {entity: bare_type(kind) for entity, kind in _function(facts, "receptacletype", name).items()}
    object_types = {entity: bare_type(kind) for entity, kind in _function(facts, "objecttype", name).items()}
    contents = _group((r, o) for o, r in facts["inreceptacle"])
    unreachable = sorted(contents.keys() - receptacle_location.keys())
    if unreachable:
        raise ValueError(f"{name}: {unreachable[0]!r} holds objects but has no receptacleAtLocation")
    targets = {entity for entity, kind in object_types.items() if kind == goal.target_type}
    if goal.process is not None:
        targets &= _members(facts, goal.process.ability)
    toggleable = _members(facts, "toggleable")
    return Game(
        name=name,
        task=task,
        goal=goal,
        names=_display_names(facts, types, name),
        receptacles=receptacles,
        receptacle_location=receptacle_location,
        receptacle_types=receptacle_types,
        object_types=object_types,
        openable=_members(facts, "openable"),
        pickupable=_members(facts, "pickupable"),
        cleanable=_members(facts, "cleanable"),
        heatable=_members(facts, "heatable"),
        coolable=_members(facts, "coolable"),
        toggleable=toggleable,
        sliceable=_members(facts, "sliceable"),
        containers=_members(facts, "isreceptacleobject"),
        container_contents=_group((outer, inner) for inner, outer in facts["inreceptacleobject"]),
        can_contain=frozenset((bare_type(r), bare_type(o)) for r, o in facts["cancontain"]),
        start=start[agents[0]],
        initial_held=held[0] if held else None,
        initial_contents=tuple(contents.get(receptacle, ()) for receptacle in receptacles),
        initial_opened=_members(facts, "opened"),
        initial_places=frozenset((item, place) for item, place in facts["objectatlocation"]),
        initial_flags=frozenset((flag, item) for flag in FLAGS for (item,) in facts[flag]),
        index={receptacle: position for position, receptacle in enumerate(receptacles)},
        by_location=_group((place, receptacle) for receptacle, place in receptacle_location.items()),
        targets=frozenset(targets),
        goal_receptacles=tuple(r for r in receptacles if receptacle_types.get(r) == goal.receptacle_type),
        lamps=frozenset(item for item in toggleable if object_types.get(item) == goal.lamp_type),
    )


def _function(facts: dict[str, set[tuple[str, ...]]], predicate: str, name: str) -> dict[str, str]:
    """A binary predicate as a mapping; ValueError when its first argument has two images."""
    mapping: dict[str, str] = {}
    for first, second in facts[predicate]:
        if mapping.setdefault(first, second) != second:
            raise ValueError(f"{name}: {predicate} gives {first!r} both {mapping[first]!r} and {second!r}")
    return mapping


def _members(facts: dict[str, set[tuple[str, ...]]], predicate: str) -> frozenset[str]:
    return frozenset(entity for (entity,) in facts[predicate])


def _group(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, list[str]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return {key: tuple(sorted(values)) for key, values in groups.items()}


def _display_names(facts: dict[str, set[tuple[str, ...]]], types: dict[str, str], name: str) -> dict[str, str]:
    """Names as ALFWorld gives them: the id's prefix, numbered so that the first id in order gets the highest number."""
    ids = sorted({entity for entries in facts.values() for entry in entries for entity in entry})
    prefixes = {}
    for entity in ids:
        prefix, separator, _ = entity.partition("_bar_")
        if separator:
            prefixes[entity] = prefix + "basin" if "basin" in entity else prefix
        elif types[entity] in ("object", "receptacle"):
            raise ValueError(f"{name}: id {entity!r} is not of the form Type_bar_…, from which its display name is made")
    numbers = Counter(prefixes.values())
    names = {}
    for entity, prefix in prefixes.items():
        names[entity] = f"{prefix} {numbers[prefix]}"
        numbers[prefix] -= 1
    return names
