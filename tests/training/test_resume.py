"""A run that stops and goes on equals one that never stopped; nothing that is worth keeping is lost on the way."""

from __future__ import annotations

import importlib
import os
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corridor import Corridor, CrashError, quick_job
from past_runs import (
    events,
    model_bytes,
    records,
    run_of_four_updates,
    store_of,
    watch_endings,
    without_figures,
)

from creditlab.config import Job
from creditlab.registry import Component, ConfigError, registry
from creditlab.tracking import Summary
from creditlab.training.manifest import read_manifest
from creditlab.training.session import train
from creditlab.training.sources import changed_code


@pytest.fixture(autouse=True)
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    without_figures(monkeypatch)


@pytest.fixture
def endings(monkeypatch: pytest.MonkeyPatch) -> list[Summary]:
    return watch_endings(monkeypatch)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Job:
    return run_of_four_updates(tmp_path_factory.mktemp("finished"))


def resumed(job: Job, updates: int, resume: Any = True) -> Job:
    training = replace(job.settings.training, updates=updates)
    return replace(job, settings=replace(job.settings, resume=resume, training=training))


def test_two_updates_and_two_more_equal_four_bit_for_bit(finished: Job, tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=2", "checkpoint.rollouts_every=1")
    assert train(job) == 0
    assert train(resumed(job, 4)) == 0
    assert records(job) == records(finished)
    assert model_bytes(job, 4) == model_bytes(finished, 4)
    first, second = (j.folder / "checkpoints" / "update-000004" / "optimizer.safetensors" for j in (job, finished))
    assert first.read_bytes() == second.read_bytes()


def test_a_damaged_newest_checkpoint_is_told_of_and_the_one_before_it_used(finished: Job, tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=4", "checkpoint.rollouts_every=1")
    assert train(job) == 0
    weights = job.folder / "checkpoints" / "update-000004" / "model" / "model.safetensors"
    data = weights.read_bytes()
    weights.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    leftover = job.folder / "checkpoints" / ".writing-000004"
    leftover.mkdir()
    assert train(resumed(job, 4)) == 0
    assert any("update-000004/model/model.safetensors is missing or damaged" in event for event in events(job))
    assert not leftover.exists()
    assert records(job) == records(finished)  # neither gap nor repeat
    assert model_bytes(job, 4) == model_bytes(finished, 4)
    assert [p.name for p in sorted((job.folder / "rollouts").glob("*.parquet"))] == [
        f"update-{update:06d}.parquet" for update in (1, 2, 3, 4)
    ]


MINE = """
from dataclasses import dataclass
from typing import ClassVar
from creditlab.credit.diagnostics import credit_diagnostics, task_group_sizes
from creditlab.credit.episode import EpisodeOptions
from creditlab.hookspecs import Credit
@dataclass(frozen=True)
class Mine(EpisodeOptions):
    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "mine"
    def __call__(self, rows):
        advantages = self.episode_term(rows)
        return Credit(advantages, diagnostics=credit_diagnostics(rows, advantages, task_group_sizes(rows)))
"""


def test_a_run_that_goes_on_with_other_code_of_a_plug_in_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "own_method.py"
    source.write_text(MINE)
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("own_method").Mine
    monkeypatch.setitem(registry().components, ("method", "mine"), Component("method", "mine", cls, "no-such-package:own"))
    job = quick_job(tmp_path, "training.updates=1", method=cls(convention="paper"))
    assert train(job) == 0
    first = read_manifest(job.folder / "manifest.json")
    assert first["plugin_code"].keys() == {"no-such-package:own"}
    assert train(resumed(job, 2)) == 0
    assert not [event for event in events(job) if "plug-in" in event]
    source.write_text(MINE.replace("self.episode_term(rows)", "2 * self.episode_term(rows)"))
    assert train(resumed(job, 3)) == 0
    [told] = [event for event in events(job) if "plug-in" in event]
    assert told.startswith("the code of the plug-in no-such-package:own has changed since this run was last at work (")
    last = read_manifest(job.folder / "manifest.json")
    codes = [made["plugin_code"]["no-such-package:own"]["sha256"] for made in (*last["sittings"], last)]
    assert codes[0] == codes[1] == first["plugin_code"]["no-such-package:own"]["sha256"] != codes[2]
    assert len(records(job)) == 4


def test_a_run_from_before_code_was_recorded_goes_on_without_a_word() -> None:
    now = {"plugin_code": {"a:a": {"version": "1.0", "sha256": "one"}}}
    assert changed_code({}, now) == []
    assert changed_code(now, {}) == []
    assert changed_code({"plugin_code": {"a:a": {"version": "1.0", "sha256": None}}}, {"plugin_code": {}}) == []


def test_damaged_metrics_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=2")
    assert train(job) == 0
    path = job.folder / "metrics.jsonl"
    first, *rest = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([b'{"step": nonsense\n', *rest]))
    with pytest.raises(ConfigError, match="line 1: not a record of metrics; repair or remove the line"):
        train(resumed(job, 3))
    assert store_of(job).updates()[-1] == 2
    path.write_bytes(b"".join([first, *rest]))
    assert train(resumed(job, 3)) == 0


def test_without_any_whole_checkpoint_nothing_is_thrown_away(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=2")
    assert train(job) == 0
    (store_of(job).path(2) / "state.json").unlink()
    for resume in (True, "auto"):
        with pytest.raises(ConfigError, match=r"no checkpoint in .* can be read; start the run again with overwrite=true"):
            train(resumed(job, 4, resume))
    assert len(records(job)) == 3


def test_an_existing_run_is_neither_continued_nor_replaced_unasked(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=1")
    assert train(job) == 0
    before = records(job)
    with pytest.raises(ConfigError, match="already holds this run: continue it with resume=true, replace it with overwrite"):
        train(job)
    assert records(job) == before
    assert train(replace(job, settings=replace(job.settings, overwrite=True))) == 0
    assert records(job) == before  # the same run again
    both = replace(job, settings=replace(job.settings, overwrite=True, resume=True))
    with pytest.raises(ConfigError, match="give only one of them"):
        train(both)


def test_resuming_a_run_that_is_not_there_is_refused_or_starts_it(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=1")
    with pytest.raises(ConfigError, match=r"resume=true: there is no run in .*; start it with resume=false or resume=auto"):
        train(resumed(job, 1))
    assert train(resumed(job, 1, "auto")) == 0
    assert train(resumed(job, 2, "auto")) == 0
    assert [line["step"] for line in records(job)] == [0, 1, 2]


def test_a_run_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    job = quick_job(tmp_path, f"run_root={tmp_path / 'file' / 'runs'}")
    with pytest.raises(ConfigError, match=r"cannot write the run folder .*: Not a directory; choose another run_root="):
        train(job)


def test_a_run_that_never_began_stands_in_nobodys_way(tmp_path: Path, endings: list[Summary]) -> None:
    """The warm start fails, then it is interrupted; the third try needs no word about the folder."""
    for error, raised in ((CrashError("expert broke"), ValueError), (KeyboardInterrupt(), KeyboardInterrupt)):

        class Broken(Corridor):
            def expert(self, task: Any, rng: Any, error: BaseException = error) -> Any:
                raise error

        broken = quick_job(tmp_path, "training.updates=1", env=Broken())
        with pytest.raises(raised):
            train(broken)
        assert broken.folder.exists()
    assert [e.status for e in endings] == ["failed", "interrupted"]
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True
    job = quick_job(tmp_path, "training.updates=1")
    assert train(job) == 0
    assert [line["step"] for line in records(job)] == [0, 1]


def test_games_that_have_changed_cannot_be_resumed(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=1")
    assert train(job) == 0
    with pytest.raises(ConfigError, match=r"cannot be resumed: its environment has changed, starts was \[0, 0, 0, 0, 0\]"):
        train(resumed(replace(job, env=Corridor(starts=(0, 1))), 2))


# interruption


def signalling(at: Callable[[int], bool], signum: int = signal.SIGINT) -> Corridor:
    """Sends this process a signal at the first command of certain episodes."""
    sent: Counter[int] = Counter()

    def send(episode: int, moment: str) -> bool:
        if moment == "step" and at(episode) and not sent[episode]:
            sent[episode] += 1
            os.kill(os.getpid(), signum)
        return False

    return Corridor(fault=send)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_update_is_finished_and_saved(signum: int, finished: Job, tmp_path: Path,
                                                     endings: list[Summary]) -> None:  # fmt: skip
    handlers = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)]
    third = 4 + 6 + 8 + 8 + 6  # demonstrations, evaluation, two updates, evaluation
    job = quick_job(
        tmp_path, "training.updates=4", "checkpoint.rollouts_every=1", env=signalling(lambda e: e == third, signum)
    )
    assert train(job) == 130
    assert endings[0].status == "interrupted"
    assert "resume=true" in endings[0].message
    assert store_of(job).updates()[-1] == 3
    assert [line["step"] for line in records(job)] == [0, 1, 2, 3]
    assert train(resumed(job, 4)) == 0
    assert records(job) == records(finished)
    assert model_bytes(job, 4) == model_bytes(finished, 4)
    assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)] == handlers


def test_a_second_interruption_ends_the_run_at_once(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=4", env=signalling(lambda episode: episode in (18, 19)))
    with pytest.raises(KeyboardInterrupt):
        train(job)
    assert endings[0].status == "interrupted"
    assert [line["step"] for line in records(job)] == [0, 1]


def test_an_interruption_in_the_last_update_finishes_the_run(tmp_path: Path) -> None:
    job = quick_job(tmp_path, "training.updates=1", env=signalling(lambda episode: episode == 12))
    assert train(job) == 0


def test_a_finished_run_says_so_and_stays_as_it_is(tmp_path: Path, endings: list[Summary]) -> None:
    job = quick_job(tmp_path, "training.updates=1")
    assert train(job) == 0
    before, weights = records(job), model_bytes(job, 1)
    assert train(resumed(job, 1, resume="auto")) == 0
    assert ("finished", "it was finished already; overwrite=true runs it again") in [(e.status, e.message) for e in endings]
    assert (records(job), model_bytes(job, 1)) == (before, weights)
