"""Which code made a run: that of the plug-ins that its components come from, and creditlab's own."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import ModuleType
from typing import Any

from creditlab.config import Job, all_parts
from creditlab.hookspecs import PROJECT
from creditlab.registry import registry

_SHOWN = 10
"""Letters of a hash in a message."""


def plugins_of(job: Job) -> tuple[str, ...]:
    """The plug-ins beside creditlab's own that components of a run come from, sorted.

    Creditlab's own, in its distribution, are covered by its version and revision.
    """
    package = {component.cls: component.package for component in registry().components.values()}
    found = {package[type(part)] for part in all_parts(job) if type(part) in package}
    return tuple(sorted(name for name in found if not name.startswith(f"{PROJECT}:")))


def code_of(plugin: str) -> dict[str, str | None]:
    """The version of a plug-in's distribution and the SHA-256 of its sources; None where there is none."""
    distribution, colon, _ = plugin.partition(":")
    modules = {component.cls.__module__ for component in registry().components.values() if component.package == plugin}
    module = registry().plugins.get_plugin(plugin)
    if isinstance(module, ModuleType):
        modules.add(module.__name__)
    roots = {root for name in modules if (root := _root(name))}
    return {"version": version_of(distribution) if colon else None, "sha256": digest(roots)}


def digest(roots: Iterable[Path]) -> str | None:
    """SHA-256 over the names and contents of Python files, given themselves or by their folders, in the order of the names.

    None where there are none or one cannot be read.
    """
    files = {
        path.relative_to(root.parent).as_posix(): path
        for root in roots
        for path in (root.rglob("*.py") if root.is_dir() else [root])
        if path.suffix == ".py"
    }
    found = hashlib.sha256()
    try:
        for name in sorted(files):
            content = files[name].read_bytes()
            found.update(f"{name}\0{len(content)}\0".encode() + content)
    except OSError:
        return None
    return found.hexdigest() if files else None


def known_code(made: object) -> dict[str, str]:
    """What a manifest, or a sitting in it, knows the code of each plug-in by: its hash, else its version.

    Older manifests know of none.
    """
    plugins = made.get("plugin_code") if isinstance(made, Mapping) else None
    if not isinstance(plugins, Mapping):
        return {}
    marks = {name: code.get("sha256") or code.get("version") for name, code in plugins.items() if isinstance(code, Mapping)}
    return {name: str(mark) for name, mark in marks.items() if mark}


def changed_code(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What to tell of plug-ins whose code is not that of the run's last sitting; what either does not know is no change."""
    before, after = known_code(earlier), known_code(now)
    return [
        f"the code of the plug-in {name} has changed since this run was last at work ({before[name][:_SHOWN]}, now "
        f"{after[name][:_SHOWN]}): its next updates are made with the new code; overwrite=true makes the whole run with it"
        for name in sorted(before.keys() & after.keys())
        if before[name] != after[name]
    ]


def version_of(distribution: str) -> str | None:
    """The installed version of a distribution; None where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None


def _root(module: str) -> Path | None:
    """The file of a loaded module, or the folder of the outermost package that it lies in; None for one without a file."""
    steps = module.split(".")
    for depth in range(1, len(steps) + 1):  # a namespace package has no file: what lies beside this one is none of its own
        file = getattr(sys.modules.get(".".join(steps[:depth])), "__file__", None)
        if file:
            path = Path(file)
            return path.parent if path.stem == "__init__" else path
    return None
