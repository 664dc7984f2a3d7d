"""The Parquet store: what comes back is what went in, whole or not at all."""

from __future__ import annotations

import json
import os
import time
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from creditlab.rollouts import Channel, Group, RolloutBatch, Rows, State, Step, StopReason, Trajectory
from creditlab.rollouts.store import RolloutStore, _write, load, load_advantages, load_metadata, save


def assert_same(left: Any, right: Any) -> None:
    """Equality to the bit: types, array types and shapes, and NaN equal to itself."""
    assert type(left) is type(right)
    if isinstance(left, np.ndarray):
        assert left.dtype == right.dtype
        assert left.shape == right.shape
        assert left.tobytes() == right.tobytes()
    elif is_dataclass(left):
        for field in fields(left):
            assert_same(getattr(left, field.name), getattr(right, field.name))
    elif isinstance(left, dict):
        assert left.keys() == right.keys()
        for key in left:
            assert_same(left[key], right[key])
    elif isinstance(left, tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same(one, other)
    elif isinstance(left, float):
        assert np.float64(left).tobytes() == np.float64(right).tobytes()
    else:
        assert left == right


def make_step(turn: int, **changes: Any) -> Step:
    step = Step(
        turn=turn,
        prompt_ids=np.arange(5 + turn, dtype=np.int32),
        response_ids=np.array([7, turn], dtype=np.int32),
        logprobs=np.array([-0.1, -1 / 3], dtype=np.float32),
        response=f"<action>go to desk {turn}</action>",
        action=f"go to desk {turn}",
        action_key=f"go:desk {turn}",
        reward=0.1 * turn,
    )
    return replace(step, **changes)


def make_state(text: str) -> State:
    third = Channel(Fraction(1, 3), Fraction(1))
    return State({"observation": text, "graph": f"{text}|desk"}, {"goal_progress": third}, ("held", "placed"))


def make_trajectory(slot: int, turns: int, stop: StopReason = StopReason.TRUNCATED, **changes: Any) -> Trajectory:
    trajectory = Trajectory(
        id=f"t{slot}",
        slot=slot,
        steps=tuple(make_step(k) for k in range(turns)),
        states=tuple(make_state(f"state {k}") for k in range(turns + 1)),
        stop=stop,
        score=0.25,
    )
    return replace(trajectory, **changes)


def make_batch(*trajectories: Trajectory, update: int = 3) -> RolloutBatch:
    return RolloutBatch((Group("g0", "task 0", "pick", trajectories),), update=update, seed=1, temperature=0.4)


TEXT = st.text(max_size=8)
FLOAT = st.floats(allow_nan=True, allow_infinity=True)
CHANNEL = st.builds(Channel, st.fractions(), st.fractions())
STATE = st.builds(
    State,
    st.dictionaries(TEXT, TEXT, max_size=3),
    st.dictionaries(TEXT, CHANNEL, max_size=3),
    st.lists(TEXT, max_size=3).map(tuple),
)
TOKENS = hnp.arrays(np.int32, st.integers(0, 6))
LOGPROBS = hnp.arrays(np.float32, st.integers(0, 6))
FEATURES = st.dictionaries(TEXT, hnp.arrays(np.float32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)))
STEP = st.builds(
    Step,
    turn=st.integers(0, 2**40),
    prompt_ids=TOKENS,
    response_ids=TOKENS,
    logprobs=LOGPROBS,
    response=TEXT,
    action=TEXT,
    action_key=TEXT,
    reward=FLOAT,
    valid=st.booleans(),
    parsed=st.booleans(),
    effective=st.booleans(),
    cut=st.booleans(),
    features=FEATURES,
)
TRAJECTORY = st.builds(
    Trajectory,
    id=TEXT,
    slot=st.integers(0, 7),
    steps=st.lists(STEP, max_size=3).map(tuple),
    states=st.lists(STATE, max_size=4).map(tuple),
    stop=st.sampled_from(StopReason),
    score=FLOAT,
    error=st.none() | TEXT,
)
GROUP = st.builds(Group, TEXT, TEXT, TEXT, st.lists(TRAJECTORY, max_size=3).map(tuple))
BATCH = st.builds(
    RolloutBatch, st.lists(GROUP, max_size=3).map(tuple), st.integers(0, 10**9), st.integers(0, 2**80), st.floats(0, 10)
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(batch=BATCH)
def test_every_record_comes_back_exactly(batch: RolloutBatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("store") / "batch.parquet"
    assert_same(load(save(batch, path)), batch)


def test_empty_failed_and_partial_trajectories_come_back(tmp_path: Path) -> None:
    """Named beside the property, for these are the cases that a table of decisions would lose."""
    batch = RolloutBatch(
        groups=(
            Group("full", "a", "pick", (make_trajectory(0, 3, StopReason.SUCCESS), make_trajectory(1, 0))),
            Group("none", "b", "look", ()),
            Group(
                "failed",
                "b",
                "look",
                (
                    make_trajectory(0, 0, StopReason.ERROR, states=(), error="the environment did not start"),
                    make_trajectory(1, 2, StopReason.ERROR, states=(make_state("first"),), error=""),
                ),
            ),
        ),
        update=0,
        seed=2**70,
    )
    assert_same(load(save(batch, tmp_path / "b.parquet")), batch)


def test_loaded_arrays_are_writable(tmp_path: Path) -> None:
    """Torch refuses to share memory with arrays that are not."""
    step = load(save(make_batch(make_trajectory(0, 2)), tmp_path / "b.parquet")).trajectories[0].steps[1]
    assert step.prompt_ids.flags.writeable
    assert step.logprobs.flags.writeable


def test_advantages_follow_the_order_of_rows(tmp_path: Path) -> None:
    """Slots and turns stored out of order, and an error trajectory between them: one value per row, back in row order."""
    backwards = make_trajectory(0, 3)
    batch = make_batch(
        make_trajectory(2, 1),
        make_trajectory(1, 2, StopReason.ERROR, error="lost"),
        replace(backwards, steps=backwards.steps[::-1]),
    )
    rows = Rows.from_batch(batch)
    advantages = 10.0 * rows.slot + rows.turn
    path = save(batch, tmp_path / "b.parquet", advantages=advantages)
    np.testing.assert_array_equal(load_advantages(path), [0.0, 1.0, 2.0, 20.0])
    stored = [[step["advantage"] for step in row] for row in pq.read_table(path).column("steps").to_pylist()]
    assert stored == [[20.0], [None, None], [2.0, 1.0, 0.0]]
    assert_same(load(path), batch)


def test_advantages_are_optional_and_counted(tmp_path: Path) -> None:
    batch = make_batch(make_trajectory(0, 2))
    assert load_advantages(save(batch, tmp_path / "b.parquet")) is None
    with pytest.raises(ValueError, match="has 2 decisions"):
        save(batch, tmp_path / "b.parquet", advantages=np.zeros(3))
    none = make_batch(make_trajectory(0, 0))
    assert load_advantages(save(none, tmp_path / "none.parquet", advantages=np.zeros(0))).shape == (0,)


def test_metadata_comes_back(tmp_path: Path) -> None:
    metadata = {"method": "mcgpo", "panel": "ä1"}
    assert load_metadata(save(make_batch(), tmp_path / "b.parquet", metadata=metadata)) == metadata


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prompt_ids": np.zeros(2, np.int64)}, r"'t0', turn 1: prompt_ids is int64"),
        ({"logprobs": np.zeros(2, np.float64)}, r"'t0', turn 1: logprobs is float64"),
        ({"response_ids": np.zeros((1, 2), np.int32)}, r"turn 1: response_ids is int32 \(1, 2\)"),
        ({"features": {"hidden": np.zeros(2)}}, r"turn 1: feature 'hidden' is float64"),
        ({"response": "\ud800"}, "not valid Unicode"),
    ],
)
def test_what_cannot_come_back_exactly_is_refused(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    trajectory = make_trajectory(0, 2)
    broken = replace(trajectory, steps=(trajectory.steps[0], replace(trajectory.steps[1], **changes)))
    with pytest.raises(ValueError, match=message):
        save(make_batch(broken), tmp_path / "b.parquet")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_file_is_one_clear_error(tmp_path: Path) -> None:
    good = save(make_batch(make_trajectory(0, 5)), tmp_path / "good.parquet").read_bytes()
    for name, content in {"truncated": good[:-100], "empty": b"", "text": b"not a table\n" * 50}.items():
        path = tmp_path / f"{name}.parquet"
        path.write_bytes(content)
        with pytest.raises(
            ValueError, match=rf"{name}\.parquet is no rollout file of creditlab, or a damaged one .*delete it"
        ):
            load(path)


def test_no_changed_byte_goes_unnoticed(tmp_path: Path) -> None:
    """Wherever the damage lies, in columns, seal or footer, nothing of the file is read."""
    path = save(make_batch(make_trajectory(0, 2)), tmp_path / "b.parquet")
    good = path.read_bytes()
    for position in {*range(0, len(good), 29), *range(len(good) - 60, len(good))}:
        damaged = bytearray(good)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"b\.parquet is no rollout file of creditlab, or a damaged one"):
            load(path)


def test_records_that_contradict_each_other_are_refused(tmp_path: Path) -> None:
    """A whole file of the right columns, from whatever wrote it, whose records are none."""
    path = save(make_batch(make_trajectory(0, 2)), tmp_path / "b.parquet")
    table = pq.read_table(path)
    stop = table.schema.get_field_index("stop")
    _write(table.set_column(stop, "stop", pa.array(["elsewhere"], pa.large_string())), path)
    with pytest.raises(ValueError, match=r"b\.parquet .* \(its records contradict each other: .*'elsewhere'"):
        load(path)


@pytest.mark.parametrize(
    ("key", "value"), [("version", "2"), ("update", "3"), ("seed", None), ("advantages", 1), ("metadata", [])]
)
def test_a_header_of_other_types_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    path = save(make_batch(make_trajectory(0, 1)), tmp_path / "b.parquet")
    table = pq.read_table(path)
    header = {**json.loads(table.schema.metadata[b"creditlab.rollouts"]), key: value}
    _write(table.replace_schema_metadata({b"creditlab.rollouts": json.dumps(header)}), path)
    with pytest.raises(ValueError, match=rf"b\.parquet .* \({key} of its header is {value!r}".replace("[]", r"\[\]")):
        load(path)


def test_other_files_are_refused(tmp_path: Path) -> None:
    other = tmp_path / "other.parquet"
    pq.write_table(pa.table({"x": [1]}), other)
    with pytest.raises(ValueError, match=r"other\.parquet is no rollout file of creditlab, .* \(it bears no seal\)"):
        load(other)
    with pytest.raises(ValueError, match=r"missing\.parquet: no such rollout file"):
        load(tmp_path / "missing.parquet")


@pytest.mark.parametrize("version", [0, 3])
def test_another_schema_version_is_refused(tmp_path: Path, version: int) -> None:
    path = save(make_batch(make_trajectory(0, 1)), tmp_path / "b.parquet")
    table = pq.read_table(path)
    header = json.loads(table.schema.metadata[b"creditlab.rollouts"])
    header["version"] = version
    _write(table.replace_schema_metadata({b"creditlab.rollouts": json.dumps(header)}), path)
    with pytest.raises(ValueError, match=rf"b\.parquet has rollout schema version {version}, this creditlab reads version 2"):
        load(path)


def test_an_interrupted_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save(make_batch(make_trajectory(0, 1)), tmp_path / "b.parquet")
    before = path.read_bytes()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save(make_batch(make_trajectory(0, 4)), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_lists_its_files_and_finds_the_newest_readable(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path / "rollouts")
    assert store.files() == []
    assert store.newest() is None
    for update in (10, 2, 11):
        store.save(make_batch(make_trajectory(0, 1), update=update))
    (store.folder / "notes.txt").write_text("not a rollout")
    assert [(update, path.name) for update, path in store.files()] == [
        (2, "update-000002.parquet"),
        (10, "update-000010.parquet"),
        (11, "update-000011.parquet"),
    ]
    store.path(11).write_bytes(b"torn")
    told: list[str] = []
    assert store.newest(told.append) == store.newest() == store.path(10)
    assert len(told) == 1
    assert f"{store.path(11)} is no rollout file of creditlab, or a damaged one" in told[0]


def test_ranks_write_their_own_files(tmp_path: Path) -> None:
    for rank in (10, 2):
        RolloutStore(tmp_path, rank).save(make_batch(make_trajectory(0, 1), update=1))
    names = [path.name for _, path in RolloutStore(tmp_path).files()]
    assert names == ["update-000001-rank2.parquet", "update-000001-rank10.parquet"]


def test_resume_discards_later_updates(tmp_path: Path) -> None:
    store = RolloutStore(tmp_path)
    for update in (1, 2, 3):
        store.save(make_batch(make_trajectory(0, 1), update=update))
    RolloutStore(tmp_path, rank=1).save(make_batch(make_trajectory(0, 1), update=3))
    (tmp_path / ".update-000003.parquet.77.tmp").write_bytes(b"half")
    store.discard_after(2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["update-000001.parquet", "update-000002.parquet"]


def test_an_update_of_the_default_size_is_fast_and_small(tmp_path: Path) -> None:
    """64 trajectories of 15 turns, about 103 prompt tokens: under 100 ms of CPU, a sixth of the raw tokens and texts."""
    rng = np.random.default_rng(0)
    prompts = [rng.integers(0, 240, 103).astype(np.int32) for _ in range(40)]
    states = tuple(
        State(
            {name: f"{name}: you arrive at desk {k}. on it you see a pen, a mug and a book {k % 5}" for name in "abcd"},
            {channel: Channel(Fraction(k % 4, 3), Fraction(1)) for channel in "stuvwx"},
            ("s", "t"),
        )
        for k in range(16)
    )
    trajectories = [make_trajectory(slot, 15, id=f"t{slot}", states=states) for slot in range(64)]
    batch = make_batch(
        *(
            replace(t, steps=tuple(replace(s, prompt_ids=prompts[(t.slot + s.turn) % 40]) for s in t.steps))
            for t in trajectories
        )
    )
    path = tmp_path / "b.parquet"
    seconds = []
    for _ in range(5):
        start = time.process_time()
        save(batch, path)
        seconds.append(time.process_time() - start)
    assert min(seconds) < 0.1
    assert path.stat().st_size < 64 * 15 * (103 * 4 + 2 * 60) / 6
