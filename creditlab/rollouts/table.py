"""A batch of rollouts as an Arrow table and back: one row per trajectory, decisions and states as nested lists.

Trajectories without decisions, failed ones and the T+1-th state need no special place. Rubric values are exact fractions,
written as `n/d`. A group without trajectories is a row whose trajectory fields are null.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from creditlab.rollouts.records import Channel, Group, RolloutBatch, State, Step, StopReason, Trajectory


def to_table(batch: RolloutBatch, advantages: NDArray[np.float64] | None = None) -> pa.Table:
    """The groups of a batch as a table; `advantages` [N] follow the order of `Rows.from_batch(batch)`.

    Raises ValueError for a wrong number of advantages, and for an array of another type than the record declares.
    """
    rows = [(i, g, t) for i, g in enumerate(batch.groups) for t in (g.trajectories or (None,))]
    trajectories = [t for _, _, t in rows]
    steps = [s for t in batch.trajectories for s in t.steps]
    states = [s for t in batch.trajectories for s in t.states]
    credited = [None] * len(steps) if advantages is None else _by_step(batch, advantages)
    _check_arrays(batch)
    return pa.table(
        {
            "group": pa.array([i for i, _, _ in rows], pa.int64()),
            "group_id": _texts(g.id for _, g, _ in rows),
            "task_id": _texts(g.task_id for _, g, _ in rows),
            "family": _texts(g.family for _, g, _ in rows),
            "trajectory_id": _texts(t.id if t else None for t in trajectories),
            "slot": pa.array([t.slot if t else None for t in trajectories], pa.int64()),
            "stop": _texts(t.stop.value if t else None for t in trajectories),
            "score": pa.array([t.score if t else None for t in trajectories], pa.float64()),
            "error": _texts(t.error if t else None for t in trajectories),
            "steps": _lists([len(t.steps) if t else 0 for t in trajectories], _steps(steps, credited)),
            "states": _lists([len(t.states) if t else 0 for t in trajectories], _states(states)),
        }
    )


def to_groups(table: pa.Table) -> tuple[Group, ...]:
    """The groups of a table, equal to those it was made from; raises ValueError where a value is missing or impossible."""
    _check_present(table)
    steps, states = _read_steps(_flat(table, "steps")), _read_states(_flat(table, "states"))
    spans = zip(_spans(_column(table, "steps")), _spans(_column(table, "states")), strict=True)
    heads: dict[int, tuple[str, str, str]] = {}
    members: dict[int, list[Trajectory]] = {}
    for row, (own_steps, own_states) in zip(table.drop_columns(["steps", "states"]).to_pylist(), spans, strict=True):
        heads[row["group"]] = row["group_id"], row["task_id"], row["family"]
        trajectories = members.setdefault(row["group"], [])
        if row["trajectory_id"] is not None:
            trajectories.append(
                Trajectory(
                    id=row["trajectory_id"],
                    slot=row["slot"],
                    steps=tuple(steps[own_steps]),
                    states=tuple(states[own_states]),
                    stop=StopReason(row["stop"]),
                    score=row["score"],
                    error=row["error"],
                )
            )
    return tuple(Group(*head, tuple(members[index])) for index, head in heads.items())


def _check_present(table: pa.Table) -> None:
    """Raises ValueError naming a column that lacks a value; only a group without trajectories lacks those of its row."""
    played = pc.is_valid(_column(table, "trajectory_id"))
    for name in table.column_names:
        column = _column(table, name)
        optional = name in ("trajectory_id", "error")
        of_group = name in ("group", "group_id", "task_id", "family", "steps", "states")
        if not optional:
            _check_array(column if of_group else column.filter(played), name)


def _check_array(array: pa.Array, name: str) -> None:
    if array.null_count:
        raise ValueError(f"{name} lacks {array.null_count} values")
    if pa.types.is_struct(array.type):
        for field in array.type:
            if field.name != "advantage":
                _check_array(_child(array, field.name), f"{name}.{field.name}")
    elif pa.types.is_large_list(array.type):
        _check_array(array.flatten(), name)


def to_advantages(table: pa.Table, batch: RolloutBatch) -> NDArray[np.float64]:
    """The advantages [N] of a table, in the order of `Rows.from_batch(batch)`."""
    values = _child(_flat(table, "steps"), "advantage").to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64)[_decisions(batch)]


def _decisions(batch: RolloutBatch) -> NDArray[np.int64]:
    """Position among all stored steps of every decision, in the order of `Rows`: slots and turns sorted, errors left out."""
    starts = [0, *accumulate(len(t.steps) for t in batch.trajectories)]
    place = [{step.turn: k for k, step in enumerate(t.steps)} for t in batch.trajectories]
    return np.array([starts[index] + place[index][step.turn] for index, step in batch.decisions()], dtype=np.int64)


def _by_step(batch: RolloutBatch, advantages: NDArray[np.float64]) -> list[float | None]:
    """One advantage per stored step; None for the steps of error trajectories."""
    positions = _decisions(batch)
    if np.shape(advantages) != (len(positions),):
        raise ValueError(
            f"update {batch.update} has {len(positions)} decisions outside error trajectories, got advantages of shape "
            f"{np.shape(advantages)}; pass one per row of Rows.from_batch"
        )
    values: list[float | None] = [None] * sum(len(t.steps) for t in batch.trajectories)
    for position, value in zip(positions, advantages, strict=True):
        values[position] = float(value)
    return values


def _steps(steps: Sequence[Step], advantages: Sequence[float | None]) -> pa.StructArray:
    features = [(name, value) for s in steps for name, value in s.features.items()]
    return _struct(
        turn=pa.array([s.turn for s in steps], pa.int64()),
        prompt_ids=_numbers([s.prompt_ids for s in steps], np.int32),
        response_ids=_numbers([s.response_ids for s in steps], np.int32),
        logprobs=_numbers([s.logprobs for s in steps], np.float32),
        response=_texts(s.response for s in steps),
        action=_texts(s.action for s in steps),
        action_key=_texts(s.action_key for s in steps),
        reward=pa.array([s.reward for s in steps], pa.float64()),
        valid=pa.array([s.valid for s in steps], pa.bool_()),
        parsed=pa.array([s.parsed for s in steps], pa.bool_()),
        effective=pa.array([s.effective for s in steps], pa.bool_()),
        cut=pa.array([s.cut for s in steps], pa.bool_()),
        advantage=pa.array(advantages, pa.float64()),
        features=_lists(
            [len(s.features) for s in steps],
            _struct(
                name=_texts(name for name, _ in features),
                shape=pa.array([list(value.shape) for _, value in features], pa.large_list(pa.int64())),
                values=_numbers([value.ravel() for _, value in features], np.float32),
            ),
        ),
    )


def _states(states: Sequence[State]) -> pa.StructArray:
    views = [view for s in states for view in s.views.items()]
    channels = [channel for s in states for channel in s.rubric.items()]
    return _struct(
        views=_lists(
            [len(s.views) for s in states],
            _struct(name=_texts(name for name, _ in views), text=_texts(text for _, text in views)),
        ),
        rubric=_lists(
            [len(s.rubric) for s in states],
            _struct(
                name=_texts(name for name, _ in channels),
                value=_texts(f"{c.value.numerator}/{c.value.denominator}" for _, c in channels),
                full=_texts(f"{c.full.numerator}/{c.full.denominator}" for _, c in channels),
            ),
        ),
        frontier=_lists([len(s.frontier) for s in states], _texts(name for s in states for name in s.frontier)),
    )


def _texts(values: Iterable[str | None]) -> pa.Array:
    return pa.array(list(values), pa.large_string())


def _struct(**columns: pa.Array) -> pa.StructArray:
    return pa.StructArray.from_arrays(list(columns.values()), names=list(columns))


def _lists(lengths: Sequence[int], values: pa.Array) -> pa.LargeListArray:
    # 64-bit offsets: the tokens and features of a large update pass 2^31 values
    return pa.LargeListArray.from_arrays(pa.array([0, *accumulate(lengths)], pa.int64()), values)


def _numbers(arrays: Sequence[NDArray[Any]], kind: type[np.generic]) -> pa.LargeListArray:
    flat = np.concatenate(arrays) if arrays else np.zeros(0, kind)
    return _lists([len(a) for a in arrays], pa.array(flat, pa.from_numpy_dtype(kind)))


def _check_arrays(batch: RolloutBatch) -> None:
    """Raises ValueError where an array could not come back as it is: the store casts nothing."""
    vectors = {"prompt_ids": np.int32, "response_ids": np.int32, "logprobs": np.float32}
    for trajectory in batch.trajectories:
        for step in trajectory.steps:
            where = f"trajectory {trajectory.id!r}, turn {step.turn}"
            for name, kind in vectors.items():
                value: NDArray[Any] = getattr(step, name)
                if value.dtype != kind or value.ndim != 1:
                    raise ValueError(
                        f"{where}: {name} is {value.dtype} {value.shape}; record it as {np.dtype(kind)} [tokens]"
                    )
            for name, value in step.features.items():
                if value.dtype != np.float32:
                    raise ValueError(f"{where}: feature {name!r} is {value.dtype}; record it as float32")


def _read_steps(array: pa.Array) -> list[Step]:
    fields = ["turn", "response", "action", "action_key", "reward", "valid", "parsed", "effective", "cut"]
    plain = zip(*(_child(array, name).to_pylist() for name in fields), strict=True)
    vectors = zip(*(_slices(_child(array, name)) for name in ("prompt_ids", "response_ids", "logprobs")), strict=True)
    stored = _child(array, "features")
    names, shapes = (_child(stored.flatten(), name).to_pylist() for name in ("name", "shape"))
    values = _slices(_child(stored.flatten(), "values"))
    features = [{names[i]: values[i].reshape(shapes[i]) for i in range(span.start, span.stop)} for span in _spans(stored)]
    return [
        Step(**dict(zip(fields, scalars, strict=True)), prompt_ids=p, response_ids=r, logprobs=lp, features=f)
        for scalars, (p, r, lp), f in zip(plain, vectors, features, strict=True)
    ]


def _read_states(array: pa.Array) -> list[State]:
    fractions: dict[str, Fraction] = {}

    def exact(text: str) -> Fraction:
        return fractions.setdefault(text, Fraction(text))

    return [
        State(
            {view["name"]: view["text"] for view in state["views"]},
            {c["name"]: Channel(exact(c["value"]), exact(c["full"])) for c in state["rubric"]},
            tuple(state["frontier"]),
        )
        for state in array.to_pylist()
    ]


def _column(table: pa.Table, name: str) -> pa.Array:
    return table.column(name).combine_chunks()


def _flat(table: pa.Table, name: str) -> pa.Array:
    """The elements of a list column, all rows in a row."""
    return _column(table, name).flatten()


def _child(array: pa.Array, name: str) -> pa.Array:
    return pc.struct_field(array, name)


def _spans(lists: pa.Array) -> list[slice]:
    """Where the elements of every list stand among the flattened ones."""
    ends = np.cumsum(lists.value_lengths().to_numpy(zero_copy_only=False)).tolist()
    return [slice(first, last) for first, last in zip([0, *ends[:-1]], ends, strict=False)]


def _slices(lists: pa.Array) -> list[NDArray[Any]]:
    """The lists as views of one writable array."""
    flat = np.array(lists.flatten().to_numpy(zero_copy_only=False))
    return [flat[span] for span in _spans(lists)]
