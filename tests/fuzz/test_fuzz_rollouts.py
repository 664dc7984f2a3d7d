"""Damaged rollout files: refused by name before anything is parsed, and the file before stands in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzzing import Rng, check_message, fuzz
from mutations import ODD_VALUES, damaged, damaged_json, misspelt, pick

from creditlab.rollouts import RolloutBatch, Rows
from creditlab.rollouts.store import RolloutStore, _write, load, load_advantages, load_metadata
from creditlab.testing import random_groups
from creditlab.training.seeds import derive

HEADER = b"creditlab.rollouts"


def batch(update: int) -> RolloutBatch:
    return RolloutBatch(random_groups(derive("fuzzed", update), groups=2, slots=4), update, seed=0)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> RolloutStore:
    """Updates 1 and 2, whole."""
    made = RolloutStore(tmp_path_factory.mktemp("rollouts"))
    for update in (1, 2):
        rows = Rows.from_batch(batch(update))
        made.save(batch(update), advantages=np.arange(len(rows), dtype=np.float64), metadata={"method": "grpo"})
    return made


def restored(store: RolloutStore, content: bytes) -> Path:
    path = store.path(2)
    path.write_bytes(content)
    return path


def refused(path: Path) -> None:
    for read in (load, load_advantages, load_metadata):
        with pytest.raises(ValueError, match="rollout") as caught:
            read(path)
        check_message(caught.value, [path])


def test_changed_bytes(store: RolloutStore) -> None:
    whole, other = store.path(2).read_bytes(), store.path(1).read_bytes()

    def make(rng: Rng) -> bytes:
        match int(rng.integers(8)):
            case 0:  # the beginning of one file and the end of another
                middle = int(rng.integers(len(whole)))
                return whole[:middle] + other[middle:]
            case 1:  # in the footer, which describes all the rest
                footer = int.from_bytes(whole[-8:-4], "little") + 8
                return whole[:-footer] + damaged(whole[-footer:], rng)
            case 2:
                return whole[:-8] + int(rng.integers(1 << 32)).to_bytes(4, "little") + b"PAR1"
            case 3 if rng.random() < 0.2:
                return whole
        return damaged(whole, rng)

    def check(content: bytes, rng: Rng) -> str:
        path = restored(store, content)
        told: list[str] = []
        if content == whole:
            assert load(path).update == 2
            assert store.newest(told.append) == path
            return "read"
        if content == other:
            assert load(path).update == 1
        else:
            refused(path)
        assert store.newest(told.append) == store.path(1)
        assert [message.startswith(str(path)) for message in told] == [True]
        return "refused"

    fuzz("bytes of rollout files", 550, make, check)
    restored(store, whole)


def _other_column(table: pa.Table, rng: Rng) -> pa.Table:
    """One column away, renamed, exchanged or of another type."""
    index = int(rng.integers(table.num_columns))
    name = table.column_names[index]
    match int(rng.integers(5)):
        case 0:
            return table.drop_columns([name])
        case 1:
            return table.rename_columns([misspelt(n, rng) if n == name else n for n in table.column_names])
        case 2:
            return table.set_column(index, name, table.column(int(rng.integers(table.num_columns))))
        case 3:
            return table.append_column(name, table.column(index))
    return table.set_column(index, name, pa.nulls(len(table), table.schema.field(index).type))


def _other_value(table: pa.Table, rng: Rng) -> pa.Table:
    """One value that no run writes."""
    rows = table.to_pylist()
    row = pick(rng, rows)
    target = row
    if rng.random() < 0.7 and row["steps"]:
        target = pick(rng, row["steps"])
    elif row["states"]:
        state = pick(rng, row["states"])
        target = pick(rng, [state, *state["rubric"]])
    key = pick(rng, sorted(target))
    texts = ("", "elsewhere", "1/0", "-1/3", "x" * 4000, "nan", None)
    kinds: dict[type, tuple[Any, ...]] = {
        int: (-1, 10**9, None, 0),
        float: (float("nan"), float("inf"), None, -1.0),
        bool: (None, True, False),
        str: texts,
        list: ([], None),
    }
    target[key] = pick(rng, kinds.get(type(target[key]), texts))
    try:
        return pa.Table.from_pylist(rows, schema=table.schema)
    except (pa.ArrowException, TypeError, OverflowError):
        return table.slice(1)


def _other_rows(table: pa.Table, rng: Rng) -> pa.Table:
    """Rows away, twice, or in another order."""
    return table.take(pa.array(rng.integers(0, len(table), int(rng.integers(0, 2 * len(table))))))


def _other_header(table: pa.Table, rng: Rng) -> pa.Table:
    header = json.loads(table.schema.metadata[HEADER])
    if rng.random() < 0.5:
        header[pick(rng, sorted(header))] = pick(rng, ODD_VALUES)
        text = json.dumps(header)
    else:
        text = damaged_json(header, rng)
    return table.replace_schema_metadata({HEADER: text.encode("utf-8", "surrogatepass")})


CHANGES: tuple[Callable[[pa.Table, Rng], pa.Table], ...] = (
    _other_column,
    _other_value,
    _other_value,
    _other_rows,
    _other_header,
)


def test_whole_files_of_nonsense(store: RolloutStore) -> None:
    """Sealed by another hand: what cannot be a batch is refused by name, what can be comes as it stands there."""
    whole = store.path(2).read_bytes()
    table = pq.read_table(store.path(2))

    def make(rng: Rng) -> pa.Table:
        return pick(rng, CHANGES)(table, rng)

    def check(given: pa.Table, rng: Rng) -> str:
        path = store.path(2)
        _write(given, path)
        try:
            found = load(path)
            advantages = load_advantages(path)
        except ValueError as error:
            check_message(error, [path])
            return "refused"
        stored = [row["trajectory_id"] for row in given.to_pylist() if row["trajectory_id"] is not None]
        assert sorted(t.id for t in found.trajectories) == sorted(stored)
        try:
            rows = Rows.from_batch(found)
        except ValueError as error:  # of a batch that could be read, but not be right
            check_message(
                error, ["trajectory", "group", "turn", "slot", "channel", "state", *(t.id for t in found.trajectories)]
            )
            return "no rows"
        assert advantages is None or (advantages.shape == (len(rows),) and not np.isnan(advantages).any())
        return "read"

    fuzz("tables of rollout files", 240, make, check)
    restored(store, whole)
