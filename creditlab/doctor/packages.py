"""Packages: the versions that are installed, against those that the package's own metadata asks for."""

from __future__ import annotations

import json
import platform
import shlex
import shutil
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from creditlab.doctor.items import Item, Status
from creditlab.doctor.probe import UNFINISHED, Answer

PACKAGE = "creditlab"
ENABLES: Mapping[str, str] = {
    "alfworld": "env.engine=textworld, the games in the real ALFWorld engine; and alfworld-download",
    "webshop": "nouns tagged by spaCy in the reward of WebShop, as its server tags them, and stemming in its search",
    "launchers": "comparisons through Hydra's launchers (python -m creditlab.compare launcher=joblib, submitit or ray)",
    "dev": "the project's tests and checks (make test, make lint)",
}
"""What each extra is for."""
SEPARATE: Mapping[str, str] = {
    f"hydra-{name}-launcher": f"python -m creditlab.compare launcher={name}" for name in ("joblib", "submitit", "ray")
}
"""Packages of extras that each enable something of their own, whatever else of the extra is there."""
TOOLS: Mapping[str, Sequence[str]] = {"alfworld": ("g++", "make", "cmake")}
"""Programs that an extra needs while it is installed, because some of its packages are compiled."""


@dataclass(frozen=True)
class Need:
    """A package that creditlab asks for."""

    name: str
    range: str
    """Versions it may have, empty for any."""
    extra: str
    """The extra it belongs to, empty for the base."""
    version: str | None
    """The installed version."""
    fits: bool

    @property
    def requirement(self) -> str:
        """As pip takes it."""
        return f"{self.name}{self.range}"

    @property
    def shown(self) -> str:
        """Version and range in a few words."""
        wanted = f" ({self.range})" if self.range else ""
        return (
            f"{self.version or 'missing'}{wanted}"
            if self.fits
            else f"{self.version or 'missing'}, needs {self.range or 'any'}"
        )


def needs() -> list[Need]:
    """Everything that the metadata of creditlab asks for on this machine, sorted; raises ImportError without `packaging`."""
    from packaging.requirements import Requirement

    found = []
    extras = metadata.metadata(PACKAGE).get_all("Provides-Extra") or []
    for text in metadata.requires(PACKAGE) or []:
        wanted = Requirement(text)
        for extra in ("", *extras):
            if wanted.marker is not None and not wanted.marker.evaluate({"extra": extra}):
                continue
            installed = _version(wanted.name)
            fits = installed is not None and wanted.specifier.contains(installed, prereleases=True)
            bounds = sorted(map(str, wanted.specifier), key=lambda bound: (bound.startswith("<"), bound))
            found.append(Need(wanted.name, ",".join(bounds), extra, installed, fits))
            break
    return sorted(found, key=lambda need: (need.extra, need.name))


def modules_of(packages: Sequence[str]) -> dict[str, str]:
    """Package to the module that stands for it: the one of its name, or else the first."""
    provided: dict[str, list[str]] = {}
    for module, owners in metadata.packages_distributions().items():
        for owner in owners:
            provided.setdefault(_normal(owner), []).append(module)
    found = {}
    for package in packages:
        modules = sorted(m for m in provided.get(_normal(package), []) if m.isidentifier() and not m.startswith("_"))
        if modules:
            same = [m for m in modules if _normal(m) == _normal(package)]
            found[package] = (same or modules)[0]
    return found


def base_items(found: Sequence[Need], modules: Mapping[str, str], imported: Answer) -> list[Item]:
    """Python and the packages of the base: whether each has a version that was asked for, and can be imported."""
    items = [_python()]
    for need in found:
        if need.extra:
            continue
        reason = _import_error(need, modules, imported)
        status = Status.OK if need.fits and not reason else Status.BROKEN
        text = f"{need.shown}; cannot be imported: {reason}" if reason else need.shown
        again = "--force-reinstall" if need.fits else ""
        remedy = "" if status is Status.OK else _pip("install", again, *_constraints(), need.requirement)
        facts = {"version": need.version, "wanted": need.range, "fits": need.fits, "import_error": reason}
        items.append(Item("Base", need.name, status, text, remedy, facts))
    return items


def extra_items(found: Sequence[Need], modules: Mapping[str, str], imported: Mapping[str, Answer]) -> list[Item]:
    """The extras that the metadata declares: complete and importable, or what one would enable and how to get it."""
    items = []
    for extra in metadata.metadata(PACKAGE).get_all("Provides-Extra") or []:
        own = [need for need in found if need.extra == extra]
        lacking = [f"{need.name} {need.shown}" for need in own if not need.fits]
        errors = {need.name: _import_error(need, modules, imported[extra]) for need in own} if extra in imported else {}
        broken = [f"{name} cannot be imported: {reason}" for name, reason in errors.items() if reason]
        tools = {tool: shutil.which(tool) is not None for tool in TOOLS.get(extra, ())}
        purpose = ENABLES.get(extra, f"the packages {', '.join(need.name for need in own)}")
        if not lacking and not broken:
            status, text, remedy = Status.OK, ", ".join(f"{need.name} {need.version}" for need in own), ""
        else:
            nothing = all(need.version is None for need in own)
            optional = not broken and all(need.version is None and need.name in SEPARATE for need in own if not need.fits)
            status = Status.ABSENT if nothing or optional else Status.WARNING
            if optional and not nothing:
                purpose = ", ".join(SEPARATE[need.name] for need in own if not need.fits)
                purpose += f"; there are {', '.join(f'{need.name} {need.version}' for need in own if need.fits)}"
            text = f"{'not installed' if nothing else '; '.join(lacking + broken)}. It enables {purpose}"
            remedy = install_command(extra)
            missing = [tool for tool, there in tools.items() if not there]
            if tools:
                text += f". Its installation compiles with {', '.join(tools)}: "
                text += f"{', '.join(missing)} not found" if missing else "all found"
        facts = {"versions": {need.name: need.version for need in own}, "import_errors": errors, "tools": tools}
        items.append(Item("Extras", extra, status, text, remedy, facts))
    return items


def install_command(extra: str) -> str:
    """The command that installs an extra from where creditlab itself was installed from."""
    origin = _origin()
    place = unquote(urlsplit(str(origin.get("url", ""))).path)
    if origin.get("dir_info", {}).get("editable"):
        return _pip("install", *_constraints(), "--editable", f"{place}[{extra}]")
    if "dir_info" in origin and Path(place).is_dir():
        return _pip("install", *_constraints(), f"{place}[{extra}]")
    return _pip("install", f"{PACKAGE}[{extra}] @ {origin['url']}" if origin.get("url") else f"{PACKAGE}[{extra}]")


def _import_error(need: Need, modules: Mapping[str, str], imported: Answer) -> str | None:
    """Why an installed package cannot be imported."""
    module = modules.get(need.name)
    if need.version is None or module is None:
        return None
    if module not in imported.facts:
        return imported.ending and f"not tried, for an import before it {imported.ending}"
    reason: str | None = imported.facts[module]
    return f"its import {imported.ending}" if reason == UNFINISHED else reason


def _python() -> Item:
    from packaging.specifiers import SpecifierSet

    [wanted] = metadata.metadata(PACKAGE).get_all("Requires-Python") or [""]
    fits = SpecifierSet(wanted).contains(platform.python_version(), prereleases=True)
    text = f"{platform.python_version()} ({wanted})" if fits else f"{platform.python_version()}, needs {wanted}"
    status = Status.OK if fits else Status.BROKEN
    return Item("Base", "python", status, f"{text}, {sys.executable}", "", {"version": platform.python_version()})


def _origin() -> dict[str, Any]:
    """Where pip says that creditlab came from; empty for a package index."""
    text = metadata.distribution(PACKAGE).read_text("direct_url.json")
    origin: dict[str, Any] = json.loads(text) if text else {}
    return origin


def _constraints() -> tuple[str, ...]:
    """What tells pip the versions that were tested together, where creditlab comes from a folder that names them."""
    origin = _origin()
    file = Path(unquote(urlsplit(str(origin.get("url", ""))).path)) / "constraints.txt"
    return ("-c", str(file)) if "dir_info" in origin and file.is_file() else ()


def script_command(name: str, *words: str) -> str:
    """A command of a package in this installation, which need not be on the shell's path."""
    return shlex.join([str(Path(sysconfig.get_path("scripts")) / name), *words])


def _pip(*words: str) -> str:
    return shlex.join([sys.executable, "-m", "pip", *filter(None, words)])


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _normal(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")
