"""`python -m creditlab.plugins [axis] [name]`: lists every component with its package, axes and options."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import get_type_hints

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from creditlab.hookspecs import GROUPS
from creditlab.options import did_you_mean, option_docs, options_model, shown, type_name
from creditlab.plaintext import printable
from creditlab.registry import Component, Registry, registry
from creditlab.stopping import EXIT_MISTAKE, run_command, tell


def main(arguments: Sequence[str], console: Console | None = None, found: Registry | None = None) -> int:
    """Prints the components, of one axis or name where given, and the plug-ins that failed to load with their reasons."""
    parser = argparse.ArgumentParser(
        prog="python -m creditlab.plugins", description="Lists components with their package, axes and options."
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="an axis (match), a name (grpo) or both (method=grpo)")
    words = parser.parse_args(list(arguments)).words
    console = console or Console(highlight=False)
    found = found or registry()
    components = [found.find(axis, name) for axis in GROUPS for name in found.names(axis)]
    chosen = [c for c in components if all(word in _labels(c) for word in words)]
    if words and not chosen:
        known = sorted({label for c in components for label in _labels(c)})
        near = did_you_mean(words[0], known) if len(words) == 1 else ""
        broken = f"; failed to load: {', '.join(found.failed)}" if found.failed else ""
        tell(f"nothing is called {' '.join(words)!r}{near}; without a word all are listed{broken}", "creditlab.plugins")
        return EXIT_MISTAKE
    for component in chosen:
        _print(console, component)
    for name, reason in found.failed.items():
        console.print(Text.assemble((f"failed to load {name}: ", "bold red"), printable(reason)))
    return 0


def facts(component: Component) -> dict[str, str]:
    """What a component uses and takes for granted, by label; labels without content are left out."""
    scope = getattr(component.cls, "scope", "")
    found = {
        "axes": ", ".join(f"{axis}={default}" for axis, default in component.axes.items()),
        "parts": ", ".join(f"{name} ({axis}={choice})" for name, (axis, choice) in component.parts.items()),
        "needs": ", ".join(component.needs),
        "scope": (scope.__doc__ or "").rstrip(".").replace("`", "") if isinstance(scope, property) else str(scope),
    }
    return {label: text for label, text in found.items() if text}


@dataclass(frozen=True)
class Option:
    """An option as lists show it."""

    name: str
    type: str
    default: str
    meaning: str


def options(cls: type) -> Iterator[Option]:
    """The options of a component or section, in the order of their declaration."""
    hints, docs, defaults = (
        get_type_hints(cls, include_extras=True),
        option_docs(cls),
        options_model(cls)().model_dump(mode="json"),
    )
    for name in options_model(cls).model_fields:
        value = defaults[name]
        default = value if isinstance(value, str) and value else shown(value)
        yield Option(name, type_name(hints[name]), default, docs.get(name, ""))


def _labels(component: Component) -> tuple[str, str, str]:
    return component.axis, component.name, f"{component.axis}={component.name}"


def _print(console: Console, component: Component) -> None:
    """One component: what it is, where it comes from, what it uses, then each option with its meaning below it."""
    console.print(Text.assemble((f"{component.axis}={component.name}", "bold"), f"   from {component.package}"))
    _indented(console, 2, " ".join((component.cls.__doc__ or "").split()))
    for label, text in facts(component).items():
        _indented(console, 2, Text.assemble((f"{label}: ", "cyan"), text))
    for option in options(component.cls):
        _indented(console, 4, Text.assemble((option.name, "green"), f": {option.type} = {option.default}"))
        _indented(console, 8, option.meaning)
    console.print()


def _indented(console: Console, columns: int, text: str | Text) -> None:
    if text:
        console.print(Padding(text, (0, 0, 0, columns), expand=False), markup=False)


if __name__ == "__main__":
    run_command(main)
