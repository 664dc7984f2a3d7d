"""Reads PDDL text and names the one domain the engine knows: predicates, their argument types, object types."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

SExpr: TypeAlias = "str | list[SExpr]"

DOMAIN = "alfred"
TYPES = frozenset({"agent", "location", "receptacle", "object", "rtype", "otype"})
PREDICATES: dict[str, tuple[str, ...]] = {
    "atlocation": ("agent", "location"),
    "receptacleatlocation": ("receptacle", "location"),
    "objectatlocation": ("object", "location"),
    "openable": ("receptacle",),
    "opened": ("receptacle",),
    "inreceptacle": ("object", "receptacle"),
    "isreceptacleobject": ("object",),
    "inreceptacleobject": ("object", "object"),
    "isreceptacleobjectfull": ("object",),
    "wasinreceptacle": ("object", "receptacle"),
    "checked": ("receptacle",),
    "examined": ("location",),
    "receptacletype": ("receptacle", "rtype"),
    "cancontain": ("rtype", "otype"),
    "objecttype": ("object", "otype"),
    "holds": ("agent", "object"),
    "holdsany": ("agent",),
    "holdsanyreceptacleobject": ("agent",),
    "full": ("receptacle",),
    "isclean": ("object",),
    "cleanable": ("object",),
    "ishot": ("object",),
    "heatable": ("object",),
    "iscool": ("object",),
    "coolable": ("object",),
    "pickupable": ("object",),
    "moveable": ("object",),
    "toggleable": ("object",),
    "ison": ("object",),
    "istoggled": ("object",),
    "sliceable": ("object",),
    "issliced": ("object",),
}
"""Every predicate of the ALFRED domain, in lower case, with the types of its arguments."""


_DEEPEST = 50
"""Parentheses within each other from which a text is no problem; goals of the domain need about twelve."""
_LONGEST_SHOWN = 80
"""Characters of an expression that a message shows."""


class UnknownDomainError(ValueError):
    """The problem speaks of a domain, predicate, type or goal that the engine does not know."""


def read_expression(text: str, name: str) -> SExpr:
    """The one s-expression of a PDDL text, in lower case and without comments; ValueError names the problem `name`."""
    if ";" in text:
        text = re.sub(r";[^\n]*", "", text)
    root: list[SExpr] = []
    current, parents = root, []
    for token in text.lower().replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            child: list[SExpr] = []
            current.append(child)
            parents.append(current)
            if len(parents) > _DEEPEST:
                raise ValueError(f"{name}: PDDL syntax error: more than {_DEEPEST} parentheses within each other")
            current = child
        elif token == ")":
            if not parents:
                raise ValueError(f"{name}: PDDL syntax error: a closing parenthesis too many")
            current = parents.pop()
        else:
            current.append(token)
    if parents:
        raise ValueError(f"{name}: PDDL syntax error: {len(parents)} parentheses are never closed")
    if len(root) != 1:
        raise ValueError(f"{name}: PDDL syntax error: expected one (define …), found {len(root)} expressions")
    return root[0]


def read_typed_list(items: Sequence[SExpr], name: str, where: str) -> dict[str, str]:
    """A PDDL typed list `a b - t c - u` as name to type; ValueError for a missing, UnknownDomainError for an unknown type."""
    types: dict[str, str] = {}
    pending: list[str] = []
    nested = [item for item in items if not isinstance(item, str)]
    if nested:
        raise ValueError(f"{name}: PDDL syntax error in {where}: unexpected {show(nested[0])}")
    rest = iter([str(item) for item in items])
    for item in rest:
        if item != "-":
            pending.append(item)
            continue
        kind = next(rest, None)
        if kind is None or not pending:
            raise ValueError(f"{name}: PDDL syntax error in {where}: '-' must stand between names and a type")
        if kind not in TYPES:
            raise UnknownDomainError(f"{name}: unknown type {kind!r} in {where}; the {DOMAIN} domain has {sorted(TYPES)}")
        for entry in pending:
            if types.setdefault(entry, kind) != kind:
                raise ValueError(f"{name}: {entry!r} is declared both as {types[entry]} and as {kind} in {where}")
        pending.clear()
    if pending:
        raise ValueError(f"{name}: {pending[0]!r} has no type in {where}")
    return types


def check_atom(atom: SExpr, types: dict[str, str], name: str, where: str) -> tuple[str, ...]:
    """The atom as (predicate, arguments …) once its predicate, arity and argument types are those of the domain."""
    if not isinstance(atom, list) or not atom or list in map(type, atom):
        raise ValueError(f"{name}: PDDL syntax error in {where}: {show(atom)} is no atom")
    predicate, *arguments = parts = tuple(map(str, atom))
    expected = PREDICATES.get(predicate)
    kinds = tuple(map(types.get, arguments))
    # The domain itself marks agents and locations as `checked`; no rule reads that fact.
    if kinds == expected or (predicate == "checked" and len(kinds) == 1 and None not in kinds):
        return parts
    if expected is None:
        raise UnknownDomainError(f"{name}: unknown predicate {predicate!r} in {where}; the {DOMAIN} domain has none such")
    if len(kinds) != len(expected):
        raise ValueError(f"{name}: {show(atom)} in {where}: {predicate} takes {len(expected)} arguments")
    if None in kinds:
        raise ValueError(f"{name}: {show(atom)} in {where}: {arguments[kinds.index(None)]!r} is not declared")
    raise ValueError(f"{name}: {show(atom)} in {where}: the arguments are of types {kinds}, not {expected}")


def show(expression: SExpr) -> str:
    """The expression as PDDL text, for messages: cut where it is long."""
    text = _text(expression)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"


def _text(expression: SExpr) -> str:
    return expression if isinstance(expression, str) else f"({' '.join(map(_text, expression))})"
