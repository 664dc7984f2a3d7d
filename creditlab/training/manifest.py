"""The manifest of a run: what it was made with, so that its numbers can be traced and repeated."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from creditlab import __version__, strict_json
from creditlab.config import Job
from creditlab.credit.conventions import PRESETS, preset
from creditlab.environments.protocol import Panel
from creditlab.registry import ConfigError, part_names, registry
from creditlab.tracking.writing import put
from creditlab.training.sources import code_of, digest, plugins_of, version_of

PACKAGES = (
    *("torch", "transformers", "deepspeed", "numpy", "hydra-core", "omegaconf", "wandb", "alfworld", "textworld"),
    *("bm25s", "rapidfuzz", "spacy", "PyStemmer"),
)


MODIFIED = "-modified"
"""Mark of a revision whose checkout has changes; `sources` then tells one change from another."""
MADE_WITH = ("creditlab", "revision", "sources", "plugin_code", "python", "platform", "packages")


def manifest(job: Job, panel: Panel, environment: dict[str, Any], warm_start: dict[str, Any]) -> dict[str, Any]:
    """Versions, revision, code of plug-ins, panel, conventions, environment and warm start of a run, as plain data."""
    revision = _revision()
    return {
        "creditlab": __version__,
        "revision": revision,
        "sources": _sources() if revision and revision.endswith(MODIFIED) else None,
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: version_of(name) for name in PACKAGES},
        "plugins": sorted({c.package for c in registry().components.values()}),
        "plugin_code": {plugin: code_of(plugin) for plugin in plugins_of(job)},
        "failed_plugins": dict(registry().failed),
        "configuration_hash": job.hash,
        "convention": job.settings.convention,
        "conventions": _conventions(job.method),
        "panel": {"name": panel.name, "episodes": len(panel.tasks), "hash": panel.hash},
        "environment": environment,
        "warm_start": warm_start,
    }


def made_with(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What of a manifest may differ between the sittings of one run: versions, revision, code of plug-ins and machine."""
    return {key: facts.get(key) for key in MADE_WITH}


def write_json(path: Path, facts: Mapping[str, Any], then: str = "continue with resume=true") -> None:
    """Writes plain data, whole or not at all; `then` is what to do after a failure (`creditlab.tracking.writing`)."""
    put(path, json.dumps(facts, indent=2).encode(), then)


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of an earlier sitting; raises ConfigError where the file is damaged."""
    try:
        facts = strict_json.parse(path.read_bytes())
    except (OSError, ValueError):
        facts = None
    sections = ("panel", "environment", "warm_start")
    if (
        not isinstance(facts, dict)
        or not all(isinstance(facts.get(key), dict) for key in sections)
        or not isinstance(facts.get("sittings", []), list)
    ):
        raise ConfigError(
            f"{path} is damaged: put back a copy of it, or remove it to resume without a check that the games are the same"
        )
    return facts


def check_start(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ConfigError when the warm start, the KL reference of a resumed run, is not the one it began with."""
    if earlier and earlier.get("hash") != now["hash"]:
        raise ConfigError(
            f"this run cannot be resumed: its reference was warm start {earlier.get('hash')}, now it would be "
            f"{now['hash']}; resume it with the version it began with, or start again with overwrite=true"
        )


def identity(facts: Mapping[str, Any]) -> dict[str, Any]:
    """What says which tasks these are: where a hash does, not where they were read from and what was left out there."""
    hashed = any(name.endswith("_hash") for name in facts)
    return {name: value for name, value in facts.items() if not (hashed and name in ("source", "skipped"))}


def check_same(earlier: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises ConfigError when the tasks of a run are no longer those it began with."""
    now = json.loads(json.dumps(now))  # as it would be read back
    for key in ("panel", "environment"):
        changed = [name for name, value in identity(earlier[key]).items() if now[key].get(name) != value]
        if changed:
            name = changed[0]
            raise ConfigError(
                f"this run cannot be resumed: its {key} has changed, {name} was {earlier[key][name]} and is "
                f"{now[key].get(name)}; put back what it began with, or start again with overwrite=true"
            )


def _conventions(method: Any) -> dict[str, Any]:
    """What the fields that a convention presets came out as, for the method and its parts."""
    found: dict[str, Any] = {}
    for field in fields(method):
        if field.name in part_names(type(method)):
            nested = getattr(method, field.name)
            found |= {f"{field.name}.{k}": v for k, v in _conventions(nested).items()} if nested is not None else {}
        elif field.name in PRESETS:
            found[field.name] = preset(field.name, method.convention, getattr(method, field.name))
    return found


def _revision() -> str | None:
    """The git revision of the checkout the package runs from, marked when it has changes; None outside one."""
    folder = _checkout()
    if not (folder / ".git").exists():
        return None
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return head + (MODIFIED if _git(folder, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return None


def _sources() -> str | None:
    """The hash of creditlab's own sources in its checkout, with those of its plug-ins."""
    return digest(_checkout() / name for name in ("creditlab", "plugins"))


def _checkout() -> Path:
    return Path(__file__).resolve().parents[2]


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    return done.stdout.strip()
