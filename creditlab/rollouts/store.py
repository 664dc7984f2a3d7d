"""The store of rollouts: one Parquet file per update, readable by any Parquet reader; see `table` for the columns."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from creditlab.rollouts.records import RolloutBatch
from creditlab.rollouts.table import to_advantages, to_groups, to_table

SCHEMA_VERSION = 1
_HEADER = b"creditlab.rollouts"
"""Key of the file's metadata that holds the version, the batch's scalars and the user's metadata as JSON."""
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
    table, header = _read(path)
    return _batch(table, header)


def load_advantages(path: Path) -> NDArray[np.float64] | None:
    """The advantages [N] saved with a batch, in the order of its `Rows`; None when it was saved without."""
    table, header = _read(path)
    if not header["advantages"]:
        return None
    return to_advantages(table, _batch(table, header))


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

    def newest(self) -> Path | None:
        """The last stored file that can be read; None when there is none."""
        for _, path in reversed(self.files()):
            try:
                _read(path)
            except ValueError:
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


def _batch(table: pa.Table, header: Mapping[str, Any]) -> RolloutBatch:
    return RolloutBatch(to_groups(table), header["update"], header["seed"], header["temperature"])


def _write(table: pa.Table, path: Path) -> None:
    """Writes beside the target and renames, so that a reader never meets half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            pq.write_table(table, file, compression="zstd", use_dictionary=True, write_page_checksum=True)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _read(path: Path) -> tuple[pa.Table, dict[str, Any]]:
    """Table and header of a file of this version, or one ValueError that says what is wrong with it."""
    if not path.is_file():
        raise ValueError(f"{path}: no such rollout file; check the path")
    try:
        table = pq.read_table(path, page_checksum_verification=True, partitioning=None)
        metadata = table.schema.metadata or {}
        header: dict[str, Any] | None = json.loads(metadata[_HEADER]) if _HEADER in metadata else None
    except (pa.ArrowException, OSError, UnicodeError, json.JSONDecodeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{path} is not a readable Parquet file ({reason}); delete it or collect the update again"
        ) from error
    if header is None:
        raise ValueError(f"{path} is a Parquet file without rollouts of creditlab; check the path")
    if header["version"] != SCHEMA_VERSION:
        raise ValueError(
            f"{path} has rollout schema version {header['version']}, this creditlab reads version {SCHEMA_VERSION}; "
            f"read it with the creditlab that wrote it, or collect the update again"
        )
    # checksums guard the pages; the columns themselves are described outside of them
    if table.schema.remove_metadata() != to_table(RolloutBatch((), update=0, seed=0)).schema:
        raise ValueError(f"{path} is not a readable Parquet file (damaged columns); delete it or collect the update again")
    return table.combine_chunks(), header
