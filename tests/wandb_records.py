"""Reads the file of an offline W&B run, with W&B's own protobuf; and keeps everybody's account out of a test."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
from wandb.proto import wandb_internal_pb2

BLOCK = 32768


def payloads(data: bytes) -> Iterator[bytes]:
    """The payloads of a .wandb file: a 7-byte file header, then LevelDB log records in blocks of 32 KiB."""
    position, parts = 7, b""
    while position + 7 <= len(data):
        if BLOCK - position % BLOCK < 7:
            position += BLOCK - position % BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", data[position : position + 7])
        parts += data[position + 7 : position + 7 + length]
        position += 7 + length
        if kind in (1, 4):  # a whole payload, or the last part of one
            yield parts
            parts = b""


def records(folder: Path) -> list[Any]:
    """All records of the offline runs in a run folder, in the order of their files."""
    return [record for file in files(folder) for record in records_of(file)]


def records_of(file: Path) -> list[Any]:
    """The records of one file."""
    return [wandb_internal_pb2.Record.FromString(payload) for payload in payloads(file.read_bytes())]


def values(items: Any) -> dict[str, Any]:
    """Key to decoded value of the items of a record."""
    return {item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in items}


def files(folder: Path) -> list[Path]:
    """The files of the offline runs in a run folder, oldest first."""
    found = (folder / "wandb").glob("offline-run-*/run-*.wandb")
    return sorted(found, key=lambda file: file.stat().st_mtime_ns)  # their names are alike within a second


def history(file: Path) -> list[dict[str, Any]]:
    """The rows of a file, without what W&B adds to them."""
    rows = [values(record.history.item) for record in records_of(file) if record.HasField("history")]
    return [{name: value for name, value in row.items() if "/" in name or name == "_step"} for row in rows]


def without_account(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Nobody's credentials or settings take part."""
    for name in ("WANDB_API_KEY", "WANDB_MODE", "WANDB_BASE_URL", "WANDB_DIR", "WANDB_RUN_ID", "WANDB_IDENTITY_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NETRC", str(folder / "netrc"))
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(folder / "config"))
    wandb.teardown()
