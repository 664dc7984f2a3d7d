"""Checkpoints are whole or absent, verified when read, and the newest and the best are kept."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from creditlab.training.checkpoint import STATE_FILE, CheckpointStore


def write(folder: Path) -> None:
    (folder / "model").mkdir()
    (folder / "model" / "weights").write_bytes(b"weights")
    (folder / "optimizer").write_bytes(b"moments")


def filled(folder: Path, *updates: int, keep: int = 9, best: int | None = None) -> CheckpointStore:
    store = CheckpointStore(folder / "checkpoints", keep, "mine-s0")
    for update in updates:
        store.save(update, {"position": update}, write, best)
    return store


def names(store: CheckpointStore) -> list[str]:
    return sorted(p.name for p in store.folder.iterdir())


def test_what_is_saved_comes_back(tmp_path: Path) -> None:
    store = filled(tmp_path, 3, 12)
    assert names(store) == ["update-000003", "update-000012"]
    told: list[str] = []
    newest = store.latest(told.append)
    assert newest is not None
    assert (newest.update, newest.state["position"], newest.path) == (12, 12, store.path(12))
    assert (newest.path / "model" / "weights").read_bytes() == b"weights"
    assert told == []


def test_without_checkpoints_there_is_none(tmp_path: Path) -> None:
    assert CheckpointStore(tmp_path / "none", 2).latest(lambda _: None) is None


DAMAGES = {
    "weights": "model/weights is missing or damaged",
    "cut": "model/weights is missing or damaged",
    "missing": "model/weights is missing or damaged",
    "unreadable": "model/weights is missing or damaged",
    "state cut": "state.json is missing or not readable",
    "no state": "state.json is missing or not readable",
    "no JSON object": "state.json is damaged",
    "position": "state.json is damaged",
    "format": "has format 99, not 2",
    "swapped": "is that of update 2",
    "foreign": "belongs to another run (mine-s1, this one is mine-s0)",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_is_named_and_the_one_before_it_taken(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = filled(tmp_path, 2, 4)
    newest = store.path(4)
    weights, state = newest / "model" / "weights", newest / STATE_FILE
    match damage:
        case "weights":
            weights.write_bytes(b"weightz")
        case "cut":
            weights.write_bytes(b"weigh")
        case "missing":
            weights.unlink()
        case "unreadable":
            weights.unlink()
            weights.mkdir()
        case "state cut":
            state.write_text(state.read_text()[:-20])
        case "no state":
            state.unlink()
        case "no JSON object":
            state.write_text("[]")
        case "position":
            state.write_text(state.read_text().replace('"position": 4', '"position": 5'))
        case "format":
            with monkeypatch.context() as patch:
                patch.setattr("creditlab.training.checkpoint.FORMAT", 99)
                store.save(4, {}, write, None)
        case "swapped":
            shutil.rmtree(newest)
            shutil.copytree(store.path(2), newest)
        case "foreign":
            CheckpointStore(store.folder, 9, "mine-s1").save(4, {}, write, None)
    told: list[str] = []
    found = store.latest(told.append)
    assert found is not None
    assert found.update == 2
    assert len(told) == 1
    assert str(newest) in told[0]
    assert f"{DAMAGES[damage]}; looking for the checkpoint before it" in told[0]


def test_what_is_removed_is_out_of_sight_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is killed while it removes a checkpoint leaves no half of one that could be taken for whole."""
    store = filled(tmp_path, 2, 4)
    monkeypatch.setattr("creditlab.training.checkpoint.shutil.rmtree", lambda *given, **options: None)
    store.discard_after(2)
    assert store.updates() == [2]
    assert names(store) == [".removed-000004", "update-000002"]


def test_an_interrupted_write_leaves_no_checkpoint_and_is_cleared_away(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)

    def fail(folder: Path) -> None:
        write(folder)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.save(4, {}, fail, None)
    assert store.updates() == [2]
    assert names(store) == ["update-000002"]
    for leftover in (".writing-000004", ".removed-000003"):  # of a process that was killed
        (store.folder / leftover).mkdir()
    store.discard_after(2)
    assert names(store) == ["update-000002"]


def test_a_write_replaces_an_earlier_one_of_its_update(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    store.save(2, {"position": "again"}, write, None)
    found = store.latest(lambda _: None)
    assert found is not None
    assert found.state["position"] == "again"
    assert names(store) == ["update-000002"]


def test_resuming_discards_what_came_later(tmp_path: Path) -> None:
    store = filled(tmp_path, 2, 4, 6)
    store.discard_after(4)
    assert store.updates() == [2, 4]


@pytest.mark.parametrize(
    ("keep", "best", "expected"), [(1, None, [8]), (2, None, [6, 8]), (1, 4, [4, 8]), (2, 8, [6, 8]), (2, 3, [6, 8])]
)
def test_the_newest_and_the_best_are_kept(keep: int, best: int | None, expected: list[int], tmp_path: Path) -> None:
    store = filled(tmp_path, 2, 4, 6, 8, keep=keep, best=best)
    assert store.updates() == expected


def test_other_folders_are_left_alone(tmp_path: Path) -> None:
    store = filled(tmp_path, 2)
    (store.folder / "update-notes").mkdir()
    (store.folder / "mine").mkdir()
    store.discard_after(0)
    store.save(3, {}, write, None)
    assert names(store) == ["mine", "update-000003", "update-notes"]
