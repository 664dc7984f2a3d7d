"""Questions that need imports, answered by a process of their own: `python -m creditlab.doctor.probe <question> …`."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

from creditlab.plaintext import clean

_MARK = "creditlab.doctor "
"""What starts a line of an answer; anything else on stdout comes from the packages that are imported."""
UNFINISHED = "unfinished"
"""In place of a reason: the process ended while it imported the module."""


@dataclass(frozen=True)
class Answer:
    """What a probe said before it ended."""

    facts: dict[str, Any]
    ending: str | None
    """Why it ended early; None where it answered to the end."""


class Probe:
    """A question being answered by another process, beside others."""

    def __init__(self, question: str, *arguments: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, question, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        )

    def answer(self, timeout: float) -> Answer:
        """Waits for the answer, at most `timeout` seconds; a process that takes longer is ended with all it has started."""
        ending = None
        try:
            said, complaints = self._process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            said, _ = self._process.communicate()
            ending = f"gave no answer within {timeout:g} s"
        else:
            code = self._process.returncode
            if code:
                ending = f"died of signal {-code}" if code < 0 else _last_line(complaints) or f"ended with code {code}"
        facts: dict[str, Any] = {}
        for line in said.splitlines():
            if line.startswith(_MARK):
                facts |= json.loads(line.removeprefix(_MARK))
        return Answer(facts, ending)


def ask_imports(*modules: str) -> None:
    """Imports modules one by one: module to null, or to the reason why it cannot be imported."""
    for module in modules:
        _tell(module, UNFINISHED)  # in case the process does not survive it
        try:
            importlib.import_module(module)
            _tell(module, None)
        except (Exception, SystemExit) as error:  # whatever it is, it is the answer
            _tell(module, _reason(error))
        if module == "torch" and "torch" in sys.modules:
            _tell("gpu", _gpu())


def ask_creditlab() -> None:
    """What the package itself says of its parts; one that fails is told as `<part> failed`."""
    for name, part in (("plugins", _plugins), ("folders", _folders), ("games", _games), ("shop", _shop), ("wandb", _wandb)):
        try:
            _tell(name, part())
        except (Exception, SystemExit) as error:  # the other parts can still be told
            _tell(f"{name} failed", _reason(error))


def _gpu() -> dict[str, Any]:
    import torch

    devices = []
    with contextlib.suppress(Exception):  # a driver that does not fit
        for index in range(torch.cuda.device_count() if torch.cuda.is_available() else 0):
            properties = torch.cuda.get_device_properties(index)
            devices.append({"name": properties.name, "bytes": properties.total_memory})
    return {"build": torch.version.cuda or torch.version.hip, "devices": devices}


def _plugins() -> dict[str, Any]:
    from creditlab.registry import registry

    found = registry()
    works = {component.package for component in found.components.values()}
    return {
        "components": {p: sum(c.package == p for c in found.components.values()) for p in sorted(works)},
        "failed": found.failed,
    }


def _folders() -> dict[str, str]:
    from creditlab.training.demonstrations import cache_root
    from creditlab.training.settings import RunSettings

    return {"run_root": RunSettings().run_root, "warm_start.cache": str(cache_root(None))}


def _games() -> dict[str, Any]:
    from creditlab.environments.alfworld.sources import SPLITS, count_games, data_root, find_games

    root = data_root()
    if not root.exists():
        return {"root": str(root), "splits": {}}
    places = {split: find_games("auto", "games", split) for split in SPLITS}
    return {"root": str(root), "splits": {split: count_games(path) for split, path in places.items() if path != root}}


def _shop() -> dict[str, Any]:
    from creditlab.environments.webshop.catalogue import DATA_VARIABLE, data_place, find_data
    from creditlab.environments.webshop.nouns import find_nouns

    place = data_place()
    root = place.parent if place.is_file() else place
    facts = {"root": str(root), "expected": bool(os.environ.get(DATA_VARIABLE)) or root.exists(), "nouns": find_nouns().name}
    try:
        files = find_data("auto")
    except ValueError as error:
        return {**facts, "files": [], "reason": str(error)}
    return {**facts, "files": [files.items, files.attributes, files.human], "reason": None}


def _wandb() -> dict[str, Any]:
    from creditlab.tracking.config import TrackingConfig
    from creditlab.tracking.wandb_listener import has_key, modes

    warnings: list[str] = []
    return {"modes": modes(TrackingConfig().wandb, warnings), "key": has_key(warnings), "warnings": sorted(set(warnings))}


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {clean(str(error))}"


def _tell(name: str, value: Any) -> None:
    sys.stdout.write(f"\n{_MARK}{json.dumps({name: value})}\n")
    sys.stdout.flush()


def _last_line(text: str) -> str:
    return clean(next((line for line in reversed(text.splitlines()) if line.strip()), ""))


if __name__ == "__main__":
    {"imports": ask_imports, "creditlab": ask_creditlab}[sys.argv[1]](*sys.argv[2:])
