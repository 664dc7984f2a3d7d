"""Recognises which of the six ALFWorld task families a PDDL goal belongs to."""

from __future__ import annotations

from dataclasses import dataclass

from creditlab.environments.alfworld.families import CLEAN, COOL, FAMILIES, HEAT, LOOK, PICK, TWO
from creditlab.environments.alfworld.pddl import SExpr, UnknownDomainError, check_atom, read_typed_list, show

Literal = tuple[str, ...]


@dataclass(frozen=True)
class Process:
    """A state change an object may undergo: the command's verb, the fact it makes true, what it needs."""

    verb: str
    flag: str
    ability: str
    """Predicate of the objects that can undergo it."""
    appliance: str
    """Type of the receptacle it happens at."""


PROCESSES: dict[str, Process] = {
    CLEAN: Process("clean", "isclean", "cleanable", "sinkbasin"),
    HEAT: Process("heat", "ishot", "heatable", "microwave"),
    COOL: Process("cool", "iscool", "coolable", "fridge"),
}
"""The process each processing family asks for."""


@dataclass(frozen=True)
class Goal:
    """What a game asks for; types in lower case without their `type` suffix."""

    family: str
    target_type: str
    receptacle_type: str | None = None
    """None for look_at_obj_in_light."""
    lamp_type: str | None = None
    """Set for look_at_obj_in_light only."""

    @property
    def process(self) -> Process | None:
        """The state change the target needs before it is placed."""
        return PROCESSES.get(self.family)

    @property
    def required(self) -> int:
        """How many targets the goal needs: 2 for pick_two_obj_and_place, else 1."""
        return 2 if self.family == TWO else 1


def bare_type(name: str) -> str:
    """A PDDL type constant without its suffix: `mugtype` gives `mug`."""
    return name.removesuffix("type")


def recognise_goal(expression: SExpr, types: dict[str, str], name: str) -> Goal:
    """The goal of one of the six families; UnknownDomainError for any other formula, naming the problem `name`."""
    literals = frozenset(_conjuncts(expression, {}, dict(types), [], name))
    object_types = {item[1]: item[2] for item in literals if item[0] == "objecttype"}
    lamp = next((item[1] for item in literals if item[0] == "istoggled"), "")
    target = next((variable for variable in sorted(object_types) if variable != lamp), "")
    target_type, lamp_type = object_types.get(target, ""), object_types.get(lamp, "")
    if literals == _look(lamp, lamp_type, target, target_type):
        return Goal(LOOK, bare_type(target_type), lamp_type=bare_type(lamp_type))
    receptacle_type = next((item[2] for item in literals if item[0] == "receptacletype"), "")
    for family in FAMILIES:
        if family != LOOK and literals == _place(family, target_type, receptacle_type):
            return Goal(family, bare_type(target_type), bare_type(receptacle_type))
    raise UnknownDomainError(f"{name}: the goal belongs to none of the families {FAMILIES}: {show(expression)}")


def _look(lamp: str, lamp_type: str, target: str, target_type: str) -> frozenset[Literal]:
    return frozenset(
        {
            ("objecttype", lamp, lamp_type),
            ("toggleable", lamp),
            ("istoggled", lamp),
            ("inreceptacle", lamp, "?receptacle1"),
            ("receptacleatlocation", "?receptacle1", "?location1"),
            ("atlocation", "?agent", "?location1"),
            ("objecttype", target, target_type),
            ("holds", "?agent", target),
        }
    )


def _place(family: str, object_type: str, receptacle_type: str) -> frozenset[Literal]:
    literals: set[Literal] = {
        ("inreceptacle", "?object1", "?receptacle1"),
        ("objecttype", "?object1", object_type),
        ("receptacletype", "?receptacle1", receptacle_type),
    }
    if family == TWO:
        literals |= {
            ("inreceptacle", "?object2", "?receptacle1"),
            ("objecttype", "?object2", object_type),
            ("!=", "?object1", "?object2"),
        }
    elif family != PICK:
        literals |= {(PROCESSES[family].ability, "?object1"), (PROCESSES[family].flag, "?object1")}
    return frozenset(literals)


def _conjuncts(node: SExpr, scope: dict[str, str], types: dict[str, str], order: list[str], name: str) -> list[Literal]:
    """The literals of a formula built from `and`, `exists` and `not (=)`, its variables renamed by type and order.

    `scope` maps the variables in sight to their new names; `types` holds the types of constants and new names; `order`
    lists the new names given so far. All variables of type agent share one name, since a game has one agent.
    """
    match node:
        case ["and", *parts]:
            return [literal for part in parts for literal in _conjuncts(part, scope, types, order, name)]
        case ["exists", list(variables), body]:
            scope = dict(scope)
            for variable, kind in read_typed_list(variables, name, "the goal").items():
                fresh = "?agent" if kind == "agent" else f"?{kind}{1 + sum(types[other] == kind for other in order)}"
                order.append(fresh)
                scope[variable] = fresh
                types[fresh] = kind
            return _conjuncts(body, scope, types, order, name)
        case ["not", ["=", str(left), str(right)]] if left in scope and right in scope:
            return [("!=", *sorted((scope[left], scope[right])))]
        case [str(head), *arguments] if head not in {"not", "or", "forall", "imply", "when", "="}:
            renamed: list[SExpr] = [head, *(scope.get(arg, arg) if isinstance(arg, str) else arg for arg in arguments)]
            return [check_atom(renamed, types, name, "the goal")]
    raise UnknownDomainError(f"{name}: the goal uses a form that no task family has: {show(node)}")
