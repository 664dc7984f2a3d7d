"""Damaged checkpoints, warm starts, metrics and manifests: named, and what came before stands in."""

from __future__ import annotations

import json
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fuzzing import Rng, check_message, fuzz
from mutations import damaged, damaged_json, pick
from safetensors.numpy import load_file, save_file

from creditlab import strict_json
from creditlab.options import ConfigError
from creditlab.sealed import seal
from creditlab.tracking.jsonl import STEP, read, truncate
from creditlab.training.checkpoint import STATE_FILE, Checkpoint, CheckpointStore
from creditlab.training.demonstrations import FACTS_FILE, WarmStartCache
from creditlab.training.manifest import check_same, read_manifest, write_json
from creditlab.training.seeds import derive

RUN = "0123456789-s0"


def write(folder: Path, update: int) -> None:
    """Files like those of a small model."""
    rng = derive("checkpoint", update)
    (folder / "model").mkdir()
    weights = {f"layer.{i}": rng.standard_normal((8, 8)).astype(np.float32) for i in range(3)}
    save_file(weights, folder / "model" / "model.safetensors")
    moments = {f"{name}/exp_avg": value * update for name, value in weights.items()}
    save_file({"step": np.array(update, np.float32), **moments}, folder / "optimizer.safetensors")
    (folder / "model" / "config.json").write_text(json.dumps({"hidden_size": 8, "layers": 3, "vocabulary": update}))
    (folder / "model" / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {f"w{i}": i for i in range(50)}}}))


def progress(update: int) -> dict[str, Any]:
    return {"progress": {"update": update, "evaluations": [[0, 0.25], [update, 0.5]], "seconds": {"timing_s/gen": 1.5}}}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of two whole checkpoints."""
    store = CheckpointStore(tmp_path_factory.mktemp("whole"), 9, RUN)
    for update in (2, 4):
        store.save(update, progress(update), lambda folder, update=update: write(folder, update), None)
    return store.folder


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def same(one: dict[str, bytes], other: dict[str, bytes]) -> bool:
    """Whether files hold the same, however the JSON of their seal is laid out."""
    sealed = STATE_FILE if STATE_FILE in one else FACTS_FILE
    if one.keys() != other.keys() or any(one[name] != other[name] for name in one if name != sealed):
        return False
    try:
        return bool(strict_json.parse(one[sealed]) == strict_json.parse(other[sealed]))
    except ValueError:
        return False


def _bytes(folder: Path, name: str, rng: Rng) -> None:
    (folder / name).write_bytes(damaged((folder / name).read_bytes(), rng))


def _gone(folder: Path, name: str, rng: Rng) -> None:
    (folder / name).unlink()


def _folder(folder: Path, name: str, rng: Rng) -> None:
    (folder / name).unlink()
    (folder / name).mkdir()


def _dangling(folder: Path, name: str, rng: Rng) -> None:
    (folder / name).unlink()
    (folder / name).symlink_to("nowhere")


def _exchanged(folder: Path, name: str, rng: Rng) -> None:
    """The file of another place, or of the checkpoint before."""
    others = [p for p in folder.parent.rglob("*") if p.is_file() and p != folder / name]
    shutil.copyfile(pick(rng, sorted(others)), folder / name)


def _json(folder: Path, name: str, rng: Rng) -> None:
    path = folder / (name if name.endswith(".json") else STATE_FILE)
    path.write_bytes(damaged_json(json.loads(path.read_bytes()), rng).encode("utf-8", "surrogatepass"))


def _header(folder: Path, name: str, rng: Rng) -> None:
    """The header of a safetensors file says another length, or names other tensors."""
    path = folder / pick(rng, ("model/model.safetensors", "optimizer.safetensors"))
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    if rng.random() < 0.5:
        path.write_bytes(
            struct.pack("<Q", int(pick(rng, (0, length - 1, length + 1, 2**31, 2**63, 2**64 - 1)))) + content[8:]
        )
    else:
        text = damaged_json(json.loads(content[8 : 8 + length]), rng).encode("utf-8", "surrogatepass")
        path.write_bytes(struct.pack("<Q", len(text)) + text + content[8 + length :])


def _foreign(folder: Path, name: str, rng: Rng) -> None:
    """A whole checkpoint of another update, run or format in this one's place."""
    shutil.rmtree(folder)
    folder.mkdir()
    write(folder, 4)
    facts = {"format": 2, "run": RUN, "update": 4, **progress(4)}
    facts[pick(rng, ("format", "run", "update"))] = pick(rng, (None, 1, 3, "4", "other-s1", [4]))
    seal(folder, STATE_FILE, facts)


ACCIDENTS: tuple[Callable[[Path, str, Rng], None], ...] = (
    _bytes, _bytes, _bytes, _gone, _folder, _dangling, _exchanged, _json, _json, _header, _header, _foreign,
)  # fmt: skip


def test_checkpoints(whole: Path, tmp_path: Path) -> None:
    """The newest one is taken exactly when every byte of it is as it was written."""
    original, before = contents(whole / "update-000004"), contents(whole / "update-000002")

    def make(rng: Rng) -> tuple[Callable[[Path, str, Rng], None], str]:
        return pick(rng, ACCIDENTS), pick(rng, sorted(original))

    def check(given: tuple[Callable[[Path, str, Rng], None], str], rng: Rng) -> str:
        folder = tmp_path / "checkpoints"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        newest = folder / "update-000004"
        given[0](newest, given[1], rng)
        told: list[str] = []
        found = CheckpointStore(folder, 9, RUN).latest(told.append)
        assert isinstance(found, Checkpoint)
        if same(original, contents(newest)):
            assert (found.update, told) == (4, [])
            return "taken"
        assert (found.update, found.state["progress"]) == (2, progress(2)["progress"])
        assert contents(found.path) == before
        assert len(told) == 1
        check_message(ValueError(told[0]), [newest])
        changed = [name for name in original if contents(newest).get(name) != original[name]]
        assert STATE_FILE in changed or any(name in told[0] for name in changed), f"{changed} changed, told of {told[0]}"
        return "the one before"

    fuzz("checkpoints", 450, make, check)


def test_warm_starts(tmp_path: Path) -> None:
    cache = WarmStartCache(str(tmp_path), {"model": "small"})
    cache.path.mkdir()
    write(cache.path, 1)
    seal(cache.path, FACTS_FILE, {"parameters": 3 * 64, "vocabulary": 50})
    original = contents(cache.path)
    spare = tmp_path / "spare"
    shutil.copytree(cache.path, spare)

    def make(rng: Rng) -> tuple[Callable[[Path, str, Rng], None], str]:
        return pick(rng, (_bytes, _gone, _folder, _dangling, _exchanged, _header)), pick(rng, sorted(original))

    def check(given: tuple[Callable[[Path, str, Rng], None], str], rng: Rng) -> str:
        shutil.rmtree(cache.path)
        shutil.copytree(spare, cache.path)
        given[0](cache.path, given[1], rng)
        told: list[str] = []
        facts = cache.read(told.append)
        if same(original, contents(cache.path)):
            assert (facts, told) == ({"parameters": 3 * 64, "vocabulary": 50}, [])
            return "taken"
        assert facts is None
        check_message(ValueError(*told), [cache.path])
        assert told[0].endswith("; it is made again")
        return "made again"

    fuzz("warm starts", 120, make, check)


def lines(count: int = 6) -> list[dict[str, Any]]:
    return [{STEP: step, "val/success_rate": step / 7, "lost": None, "timing_s/gen": 1.25} for step in range(count)]


def test_metrics(tmp_path: Path) -> None:
    """What is read is a beginning of what was written, or the file and line are named."""
    path = tmp_path / "metrics.jsonl"
    content = "".join(f"{json.dumps(line)}\n" for line in lines()).encode()

    def make(rng: Rng) -> bytes:
        if rng.random() < 0.5:
            return damaged(content, rng)
        broken = [json.dumps(line) for line in lines()]
        place = int(rng.integers(len(broken)))
        broken[place] = damaged_json(lines()[place], rng)
        return "".join(f"{line}\n" for line in broken).encode("utf-8", "surrogatepass")

    def check(given: bytes, rng: Rng) -> str:
        path.write_bytes(given)
        try:
            records = read(path)
        except ValueError as error:
            check_message(error, [f"{path}, line "])
            return "refused"
        steps = [record[STEP] for record in records]
        assert steps == sorted(set(steps))
        assert all(type(value) is float for record in records for name, value in record.items() if name != STEP)
        truncate(path, 3)
        assert [record[STEP] for record in read(path)] == [step for step in steps if step <= 3]
        return "read"

    fuzz("metrics", 250, make, check)


FACTS = {
    "creditlab": "0.1.0",
    "panel": {"name": "alfworld-16", "episodes": 16, "hash": "abc"},
    "environment": {"environment": "alfworld", "families": ["pick"], "horizon": 15, "skipped": {"no valid JSON": 2}},
    "warm_start": {"hash": "w", "seconds": 3.5},
    "sittings": [{"creditlab": "0.1.0"}],
}


def test_manifests(tmp_path: Path) -> None:
    """Damaged ones are refused by name; in whole ones every change of the games is named by its key."""
    path = tmp_path / "manifest.json"
    write_json(path, FACTS)
    whole = path.read_bytes()

    def make(rng: Rng) -> bytes:
        return damaged(whole, rng) if rng.random() < 0.4 else damaged_json(FACTS, rng).encode("utf-8", "surrogatepass")

    def check(given: bytes, rng: Rng) -> str:
        path.write_bytes(given)
        try:
            facts = read_manifest(path)
        except ConfigError as error:
            check_message(error, [f"{path} is damaged: put back a copy"])
            return "refused"
        changed = [f"{part}, {key}" for part in ("panel", "environment") for key in facts[part]
                   if facts[part][key] != FACTS[part].get(key)]  # type: ignore[index]  # fmt: skip
        try:
            check_same(facts, FACTS)
        except ConfigError as error:
            check_message(error, ["its panel has changed, ", "its environment has changed, "])
            return "other games"
        assert not changed
        return "the same games"

    fuzz("manifests", 200, make, check)


def test_the_files_of_these_tests_are_safetensors(whole: Path) -> None:
    """Otherwise damage to their headers would be none."""
    assert load_file(whole / "update-000004" / "optimizer.safetensors")["step"] == 4
