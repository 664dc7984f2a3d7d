"""The store of rollouts: one Parquet file per update, readable by any Parquet reader; see `table` for the columns."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from creditlab import strict_json
from creditlab.rollouts.records import RolloutBatch
from creditlab.rollouts.table import to_advantages, to_groups, to_table

SCHEMA_VERSION = 2
_HEADER = b"creditlab.rollouts"
"""Key of the file's metadata that holds the version, the batch's scalars and the user's metadata as JSON."""
_HEADER_TYPES = {"update": (int,), "seed": (int,), "temperature": (int, float), "advantages": (bool,), "metadata": (dict,)}
_SEAL = b"creditlab.sha256"
"""What stands before the hash of all other bytes of a file, between its columns and its footer, where no reader looks."""
_SEAL_LENGTH = len(_SEAL) + hashlib.sha256().digest_size
_LONGEST_REASON = 200
_FILE_NAME = re.compile(r"update-(\d+)(?:-rank(\d+))?\.parquet")


def save(
    batch: RolloutBatch,
    path: Path,
    *,
    advantages: NDArray[np.float64] | None = None,
    metadata: Mapping[str, str] | None = None,
) -> Path:
    """Writes a batch to `path`, whole or not at all, and returns the path.

    `advantages` holds one value per decision [N], in the order of `Rows.from_batch(batch)`. Raises ValueError for a wrong
    number of advantages, an array of another type than the record declares, or text that is not valid Unicode.
    """
    try:
        table = to_table(batch, advantages)
    except UnicodeEncodeError as error:
        raise ValueError(f"{path} cannot be written: {error.object!r} is not valid Unicode; clean the text first") from error
    header = {
        "version": SCHEMA_VERSION,
        "update": batch.update,
        "seed": batch.seed,
        "temperature": batch.temperature,
        "advantages": advantages is not None,
        "metadata": dict(metadata or {}),
    }
    _write(table.replace_schema_metadata({_HEADER: json.dumps(header).encode()}), path)
    return path


def load(path: Path) -> RolloutBatch:
    """Reads a batch back, equal to the one that was saved; raises ValueError naming a file that cannot be read."""
    return _batch(*_read(path), path)


def load_advantages(path: Path) -> NDArray[np.float64] | None:
    """The advantages [N] saved with a batch, in the order of its `Rows`; None when it was saved without."""
    table, header = _read(path)
    if not header["advantages"]:
        return None
    advantages = to_advantages(table, _batch(table, header, path))
    if np.isnan(advantages).any():
        raise _refusal(path, "decisions lack advantages")
    return advantages


def load_metadata(path: Path) -> dict[str, str]:
    """The metadata saved with a batch."""
    return dict(_read(path)[1]["metadata"])


@dataclass(frozen=True)
class RolloutStore:
    """The rollouts of a run: `update-000012.parquet`, with several ranks `update-000012-rank3.parquet`."""

    folder: Path
    rank: int | None = None
    """Rank of the writing process; None when there is only one."""

    def path(self, update: int) -> Path:
        """The file of an update."""
        suffix = "" if self.rank is None else f"-rank{self.rank}"
        return self.folder / f"update-{update:06d}{suffix}.parquet"

    def save(
        self,
        batch: RolloutBatch,
        *,
        advantages: NDArray[np.float64] | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> Path:
        """Writes the file of the batch's own update, replacing an earlier one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        return save(batch, self.path(batch.update), advantages=advantages, metadata=metadata)

    def files(self) -> list[tuple[int, Path]]:
        """Update and path of every stored file, by update, then rank."""
        matches = [(_FILE_NAME.fullmatch(path.name), path) for path in self.folder.glob("update-*.parquet")]
        found = [(int(match[1]), int(match[2] or 0), path) for match, path in matches if match]
        return [(update, path) for update, _, path in sorted(found)]

    def newest(self, report: Callable[[str], None] | None = None) -> Path | None:
        """The last stored file that can be read, or None; `report` is told of damaged ones that are passed by."""
        for update, path in reversed(self.files()):
            try:
                if (found := load(path).update) != update:
                    raise ValueError(f"{path} holds update {found}")
            except ValueError as error:
                if report:
                    report(f"{error}; looking for the file before it")
                continue
            return path
        return None

    def discard_after(self, update: int) -> None:
        """Removes the files of later updates and what interrupted writes left; to be called by one rank before it resumes."""
        for later, path in self.files():
            if later > update:
                path.unlink(missing_ok=True)
        for path in self.folder.glob(".update-*.tmp"):
            path.unlink(missing_ok=True)


def _batch(table: pa.Table, header: Mapping[str, Any], path: Path) -> RolloutBatch:
    try:
        return RolloutBatch(to_groups(table), header["update"], header["seed"], header["temperature"])
    except (ValueError, TypeError, KeyError, ArithmeticError, pa.ArrowException) as error:
        raise _refusal(path, f"its records contradict each other: {type(error).__name__}: {error}") from error


def _write(table: pa.Table, path: Path) -> None:
    """Writes beside the target and renames, so that a reader never meets half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer, compression="zstd", use_dictionary=True, write_page_checksum=True)
    parquet = memoryview(buffer.getvalue())
    columns, footer = parquet[: -_footer_length(parquet)], parquet[-_footer_length(parquet) :]
    try:
        with temporary.open("wb") as file:
            file.writelines((columns, _SEAL, _hash(columns, footer), footer))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Table and header of a file of this version, or one ValueError that says what is wrong with it."""
    try:
        content = memoryview(path.read_bytes())
    except FileNotFoundError:
        raise ValueError(f"{path}: no such rollout file; check the path") from None
    except OSError as error:
        raise _refusal(path, str(error.strerror)) from None
    _check_seal(content, path)  # what is not as it was written is shown to no parser
    try:
        table = pq.read_table(pa.BufferReader(content), partitioning=None)
        header = strict_json.parse((table.schema.metadata or {})[_HEADER])
        version = header["version"]
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
        raise _refusal(path, str(error)) from error
    if type(version) is not int:
        raise _refusal(path, f"version of its header is {version!r}")
    if version != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has rollout schema version {version}, this creditlab reads version {SCHEMA_VERSION}; "
            f"read it with the creditlab that wrote it, or collect the update again"
        )
    for key, types in _HEADER_TYPES.items():
        if type(header.get(key)) not in types:
            raise _refusal(path, f"{key} of its header is {header.get(key)!r}")
    if table.schema.remove_metadata() != to_table(RolloutBatch((), update=0, seed=0)).schema:
        raise _refusal(path, "its columns are not those of rollouts")
    return table.combine_chunks(), header


def _check_seal(content: memoryview, path: Path) -> None:
    """Raises ValueError unless a file holds what was written, byte for byte."""
    end = len(content) - _footer_length(content)
    seal = content[max(end - _SEAL_LENGTH, 0) : max(end, 0)]
    if seal[: len(_SEAL)] != _SEAL:
        raise _refusal(path, "it bears no seal")
    if seal[len(_SEAL) :] != _hash(content[: end - _SEAL_LENGTH], content[end:]):
        raise _refusal(path, "its content is not what was written")


def _footer_length(parquet: memoryview) -> int:
    """Bytes of a Parquet file's footer with its length and magic."""
    return int.from_bytes(parquet[-8:-4], "little") + 8


def _hash(*parts: memoryview) -> bytes:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


def _refusal(path: Path, reason: str) -> ValueError:
    short = " ".join(reason.split())[:_LONGEST_REASON]
    return ValueError(
        f"{path} is no rollout file of creditlab, or a damaged one ({short}); check the path, or delete it and collect the "
        "update again"
    )
