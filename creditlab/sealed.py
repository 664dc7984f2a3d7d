"""Sealed folders: files together with their hashes, so that damage to any of them is noticed and named."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from creditlab import strict_json

FILES, SEAL = "files", "sha256"
"""Keys that a seal adds: the hash of every other file in the folder, and the hash of the record itself."""


def seal(folder: Path, name: str, facts: Mapping[str, Any]) -> None:
    """Writes `facts`, plain data, as the file `name` with the hashes of all other files, and flushes everything to disk."""
    files = {path.relative_to(folder).as_posix(): _file_hash(path) for path in sorted(folder.rglob("*")) if path.is_file()}
    record = {**facts, FILES: files}
    text = json.dumps({**record, SEAL: _record_hash(record)}, indent=1, allow_nan=False)
    (folder / name).write_text(text, encoding="utf-8")
    for path in sorted(folder.rglob("*")):
        sync(path)
    sync(folder)


def unseal(folder: Path, name: str) -> dict[str, Any]:
    """The facts of a sealed folder in which every file is as it was; raises ValueError naming the one that is not."""
    path = folder / name
    try:
        record = strict_json.parse(path.read_bytes())
    except (OSError, ValueError):
        raise ValueError(f"{path} is missing or not readable") from None
    if not isinstance(record, dict) or record.pop(SEAL, None) != _record_hash(record):
        raise ValueError(f"{path} is damaged")
    for file, digest in record.pop(FILES).items():
        if not _intact(folder / file, digest):
            raise ValueError(f"{folder / file} is missing or damaged")
    return record


def sync(path: Path) -> None:
    """Flushes a file or folder to disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _intact(path: Path, digest: str) -> bool:
    try:
        return path.is_file() and _file_hash(path) == digest
    except OSError:
        return False


def _file_hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _record_hash(record: Any) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()
