"""`python -m creditlab.plugins [axis] [name]`: lists every component with its package, axes and options."""

from __future__ import annotations

import sys
from typing import get_type_hints

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from creditlab.hookspecs import GROUPS
from creditlab.options import option_docs, options_model, type_name
from creditlab.registry import Component, Registry, registry

EXIT_MISTAKE = 2


def main(arguments: list[str], console: Console | None = None) -> int:
    """Prints the components, of one axis or name where given, and the plug-ins that failed to load with their reasons."""
    console = console or Console()
    found = registry()
    chosen = [c for axis in GROUPS for c in _sorted(found, axis) if _matches(c, arguments)]
    if arguments and not chosen:
        names = ", ".join(f"{c.axis}={c.name}" for axis in GROUPS for c in _sorted(found, axis))
        sys.stderr.write(f"creditlab.plugins: nothing is called {' '.join(arguments)!r}; there are: {names}\n")
        return EXIT_MISTAKE
    for component in chosen:
        _print(console, component)
    for name, reason in found.failed.items():
        console.print(f"[bold red]failed to load[/] {escape(name)}: {escape(reason)}")
    return 0


def _sorted(found: Registry, axis: str) -> list[Component]:
    return [found.find(axis, name) for name in found.names(axis)]


def _matches(component: Component, words: list[str]) -> bool:
    return all(word in (component.axis, component.name, f"{component.axis}={component.name}") for word in words)


def _print(console: Console, component: Component) -> None:
    summary = (component.cls.__doc__ or "").strip().splitlines()[0]
    console.print(f"[bold]{component.axis}={component.name}[/]  [dim]{escape(component.package)}[/]")
    console.print(f"  {escape(summary)}")
    facts = {
        "axes": ", ".join(f"{a}={v}" for a, v in component.axes.items()),
        "parts": ", ".join(f"{k}: {g}={v}" for k, (g, v) in component.parts.items()),
        "needs": ", ".join(component.needs),
        "scope": getattr(component.cls, "scope", ""),
    }
    for label, text in facts.items():
        if text:
            console.print(f"  [cyan]{label}[/] {escape(str(text))}")
    options = component.defaults()
    if options:
        console.print(_table(component, options))
    console.print()


def _table(component: Component, options: dict[str, object]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 2), header_style="cyan")
    for heading in ("option", "type", "default", "meaning"):
        table.add_column(heading, overflow="fold")
    hints, docs = get_type_hints(component.cls, include_extras=True), option_docs(component.cls)
    for name in options_model(component.cls).model_fields:
        default = "null" if options[name] is None else str(options[name])
        table.add_row(name, escape(type_name(hints[name])), escape(default), escape(docs.get(name, "")))
    return table


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
