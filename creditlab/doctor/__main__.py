"""`python -m creditlab.doctor [run_root=…] [json=-]`: what works and what is missing; exit code 0 when the base works."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from creditlab.doctor.items import Item, Status, unknown
from creditlab.doctor.machine import folder_item, machine_items, system
from creditlab.doctor.packages import PACKAGE, base_items, extra_items, install_command, modules_of, needs, script_command
from creditlab.doctor.probe import Answer, Probe
from creditlab.doctor.report import show, to_json, works
from creditlab.doctor.shop import shop_items
from creditlab.stopping import EXIT_MISTAKE, run_command, tell

USAGE = """\
python -m creditlab.doctor [run_root=<folder>] [json=-|<file>]

Says what is installed and works, what is missing, what it would enable and the command to get it.
Exit code 0 when the base works, 1 when something that the base needs is broken.
"""
EXIT_BROKEN = 1
PATIENCE = 120.0
"""Seconds that a package may take to be imported."""


def main(arguments: Sequence[str]) -> int:
    """Prints the report; returns the exit code."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(USAGE)
        return 0
    given = {key: value for key, _, value in (argument.partition("=") for argument in arguments)}
    unknown = [key for key, value in given.items() if key not in ("json", "run_root") or not value]
    if unknown:
        tell(f"cannot read {unknown[0]!r}; it takes run_root=<folder> and json=-|<file>", "creditlab.doctor")
        return EXIT_MISTAKE
    items = examine(given.get("run_root"))
    if given.get("json") == "-":
        sys.stdout.write(to_json(items) + "\n")
    elif "json" in given:
        try:
            Path(given["json"]).write_text(to_json(items) + "\n", encoding="utf-8")
        except OSError as error:
            tell(f"cannot write json={given['json']}: {error.strerror}", "creditlab.doctor")
            return EXIT_MISTAKE
    if given.get("json") != "-":
        show(items)
    return 0 if works(items) else EXIT_BROKEN


def examine(run_root: str | None = None, patience: float = PATIENCE) -> list[Item]:
    """Everything the doctor finds, the base first; `patience` is how many seconds an import may take."""
    try:
        found = needs()
    except (ImportError, metadata.PackageNotFoundError) as error:
        text = f"cannot be compared with what {PACKAGE} asks for: {type(error).__name__}: {error}"
        return [Item("Base", "packages", Status.BROKEN, text, f"{sys.executable} -m pip install {PACKAGE} packaging")]
    modules = modules_of([need.name for need in found])
    complete = sorted({n.extra for n in found if n.extra and all(o.version for o in found if o.extra == n.extra)})
    of_extra = {extra: [modules[n.name] for n in found if n.extra == extra and n.name in modules] for extra in complete}
    of_base = [modules[need.name] for need in found if not need.extra and need.name in modules]
    own, base = Probe("creditlab"), Probe("imports", *of_base)
    extras = {extra: Probe("imports", *names) for extra, names in of_extra.items()}
    said, imported = own.answer(patience), base.answer(patience)
    imported_extras = {extra: probe.answer(patience) for extra, probe in extras.items()}
    return [
        *_about(),
        *base_items(found, modules, imported),
        *_plugin_items(said),
        *_folder_items(said, run_root),
        *machine_items(imported.facts.get("gpu")),
        *extra_items(found, modules, imported_extras),
        *_game_items(said, "alfworld" in complete),
        *shop_items(said, "webshop" in complete),
        *_wandb_items(said),
    ]


def _about() -> list[Item]:
    version, place = metadata.version(PACKAGE), Path(__file__).resolve().parents[1]
    facts = {"version": version, "path": str(place)}
    return [Item("Base", PACKAGE, Status.OK, f"{version} in {place}, {system()}", "", facts)]


def _plugin_items(said: Answer) -> list[Item]:
    """The plug-ins that work, and those that do not; a broken one of somebody else leaves the base whole."""
    if "plugins" not in said.facts:
        return [unknown("Plug-ins", "plug-ins", "plugins", said)]
    plugins = said.facts["plugins"]
    items = [
        Item("Plug-ins", name, Status.OK, f"{count} component{'s' if count > 1 else ''}", "", {"components": count})
        for name, count in plugins["components"].items()
    ]
    for name, reason in plugins["failed"].items():
        status = Status.BROKEN if name.startswith(f"{PACKAGE}:") else Status.WARNING
        items.append(Item("Plug-ins", name, status, f"failed to load and is left out: {reason}", "", {"reason": reason}))
    return items


def _folder_items(said: Answer, run_root: str | None) -> list[Item]:
    if "folders" not in said.facts:
        return [unknown("Folders", "folders", "folders", said)]
    defaults = said.facts["folders"]
    return [
        folder_item("runs", Path(run_root or defaults["run_root"]).expanduser(), "run_root"),
        folder_item("warm starts", Path(defaults["warm_start.cache"]), "warm_start.cache"),
        folder_item("temporary", Path(tempfile.gettempdir()), "TMPDIR"),
    ]


def _game_items(said: Answer, downloader: bool) -> list[Item]:
    """The official games that are there; `downloader` says whether alfworld-download is."""
    if "games" not in said.facts:
        return [unknown("Games", "ALFWorld", "games", said, Status.WARNING)]
    games: Mapping[str, Any] = said.facts["games"]
    splits = {name: count for name, count in games["splits"].items() if count}
    if splits:
        text = f"{', '.join(f'{name} {count}' for name, count in splits.items())} games in {games['root']}"
        return [Item("Games", "ALFWorld", Status.OK, f"{text}; env.games=auto plays them", "", games)]
    text = f"no official games in {games['root']}; generated ones are played without. env.games=auto needs them"
    download = script_command("alfworld-download")
    remedy = download if downloader else f"{install_command('alfworld')} && {download}"
    return [Item("Games", "ALFWorld", Status.ABSENT, text, remedy, games)]


def _wandb_items(said: Answer) -> list[Item]:
    if "wandb" not in said.facts:
        return [unknown("Tracking", "W&B", "wandb", said, Status.WARNING)]
    facts: Mapping[str, Any] = said.facts["wandb"]
    text = f"key {'found' if facts['key'] else 'not found'}; a run is {', else '.join(facts['modes']) or 'not tracked there'}"
    login = script_command("wandb", "login")
    if facts["warnings"]:
        return [Item("Tracking", "W&B", Status.WARNING, f"{text}; {'; '.join(facts['warnings'])}", login, facts)]
    if not facts["key"]:
        return [Item("Tracking", "W&B", Status.ABSENT, f"{text}; wandb sync uploads it later", login, facts)]
    return [Item("Tracking", "W&B", Status.OK, text, "", facts)]


if __name__ == "__main__":
    run_command(main)
