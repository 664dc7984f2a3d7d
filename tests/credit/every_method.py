"""Every registered method, built as a run would build it, for tests that must hold for all of them."""

from __future__ import annotations

from creditlab.hookspecs import Method
from creditlab.registry import registry
from creditlab.testing.conformance import GROUP_SCOPE, METHOD_CHECKS, STATE_LOCAL, Check, MakeMethod

TASK_WIDE = ("ccpo", "g2po", "progpo")
"""Methods that normalise over all decisions of a task, whatever their states."""


def method(name: str, /, **options: object) -> Method:
    """A method with its defaults and the given options; a wrapper is put round GiGPO."""
    component = registry().find("method", name)
    if "base" in component.parts:
        return component.cls(base=registry().create("method", "gigpo"), **options)  # type: ignore[no-any-return]
    return registry().create("method", name, **options)  # type: ignore[no-any-return]


def names() -> list[str]:
    """Names of all methods."""
    return registry().names("method")


def scope(name: str) -> str:
    """Scope of a method with its defaults."""
    return str(getattr(method(name), "scope", "group"))


def checks() -> list[tuple[str, str, MakeMethod, Check]]:
    """(method, check, how to make the method, the check) for every check that applies to a method."""
    return [
        (name, label, lambda name=name: method(name), check)
        for name in names()
        for label, check in METHOD_CHECKS.items()
        if (scope(name) == "group" or label not in GROUP_SCOPE) and (name not in TASK_WIDE or label not in STATE_LOCAL)
    ]
