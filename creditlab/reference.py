"""`python -m creditlab.reference > docs/reference.md`: the option reference, generated from components and sections."""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from creditlab.cli import warn_failed_plugins
from creditlab.config import SECTION_CLASSES
from creditlab.hookspecs import GROUPS, PROJECT
from creditlab.plugins import Option, facts, options
from creditlab.registry import Component, Registry, registry
from creditlab.stopping import run_command
from creditlab.training.settings import RunSettings

TITLE = """# Option reference

Every key of a run with its type, its default and its meaning, and every component that comes with creditlab. The page is
generated: `python -m creditlab.reference > docs/reference.md` writes it anew, from the declarations in the code. Tuning and
preset files may set other values for one environment ([configuration.md](configuration.md#which-value-wins)); `--cfg job`
after a command shows what it comes to. A component's `convention` follows the run's unless it is set, and an option that
the convention presets reads `null` here. `python -m creditlab.plugins` lists the components of installed plug-ins as well."""
GROUP_TITLES = {
    "env": "Environments",
    "model": "Models",
    "engine": "Engines",
    "learner": "Learners",
    "tracking": "Tracking",
    "aux": "Auxiliary losses",
    "shaping": "Reward shaping",
    "match": "Match rules",
    "fold": "Folds",
    "weighting": "Weightings",
    "method": "Methods",
}
_CODE_OR_SPECIAL = re.compile(r"(`[^`]*`)|([*<])")


def reference(found: Registry | None = None) -> str:
    """The whole page, the same for every order of discovery; components of other packages are left out."""
    found = found or registry()
    blocks = [TITLE, *_sections()]
    for group in GROUPS:
        ours = [c for name in found.names(group) if (c := found.find(group, name)).package.startswith(f"{PROJECT}:")]
        if ours:
            blocks += [f"## {GROUP_TITLES[group]}", *(block for component in ours for block in _component(component))]
    return "\n\n".join(blocks) + "\n"


def _sections() -> Iterator[str]:
    """The keys that belong to no component: those at the top level, then section by section."""
    plain = {field.name for field in dataclasses.fields(RunSettings)} - set(SECTION_CLASSES)
    yield "## The run"
    yield _text(RunSettings.__doc__ or "")
    yield _table("", (option for option in options(RunSettings) if option.name in plain))
    for name, cls in SECTION_CLASSES.items():
        yield f"## Section `{name}`"
        yield _text(cls.__doc__ or "")
        yield _table(f"{name}.", options(cls))


def _component(component: Component) -> Iterator[str]:
    axis, name = component.axis, component.name
    yield f"### {axis}={name}"
    yield _text(component.cls.__doc__ or "")
    lines = [f"{label}: {', '.join(f'`{word}`' for word in text.split(', '))}" for label, text in facts(component).items()]
    if axis in ("method", "aux"):
        lines.append(f"page: [{name}](methods/{name}.md)")
    if lines:
        yield "; ".join(lines)
    found = list(options(component.cls))
    if found:
        yield _table(f"aux.{name}." if axis == "aux" else f"{axis}.", found)


def _table(prefix: str, found: Iterable[Option]) -> str:
    rows = [
        (f"`{prefix}{option.name}`", f"`{option.type}`", f"`{option.default}`", _text(option.meaning)) for option in found
    ]
    cells = [("key", "type", "default", "meaning"), ("---",) * 4, *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in cells)


def _text(text: str) -> str:
    """One line of Markdown that shows the text as it is written."""
    return _CODE_OR_SPECIAL.sub(lambda found: found[1] or f"\\{found[2]}", " ".join(text.split()))


def main(arguments: Sequence[str]) -> int:
    """Prints the page, whatever the arguments; returns the exit code."""
    warn_failed_plugins()  # the page lacks their components
    sys.stdout.write(reference())
    return 0


if __name__ == "__main__":
    run_command(main)
