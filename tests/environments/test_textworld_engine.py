"""`env.engine=textworld`: the same episodes on the real engine, in workers that may die or hang."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pool_worker
import pytest

from creditlab.cli import compose_job
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.packing import installed, pack
from creditlab.environments.alfworld.textworld import RealEngine
from creditlab.environments.protocol import TwoPhaseEpisode
from creditlab.options import ConfigError
from creditlab.training.collect import Assignment, Timing, play

needs_the_real_engine = pytest.mark.skipif(
    not installed(), reason="the real engine is not installed: pip install 'creditlab[alfworld]'"
)


@pytest.fixture(scope="module")
def real() -> Iterator[ALFWorld]:
    made = ALFWorld(engine="textworld", workers=1, rooms=("bathroom",))
    yield made
    made.close()


@needs_the_real_engine
@pytest.mark.parametrize("grammar", ["0.4", "0.3"])
def test_an_episode_is_the_one_of_the_fast_engine(grammar: Any) -> None:
    options: dict[str, Any] = {"families": ("clean",), "rooms": ("bathroom",), "grammar": grammar, "horizon": 30}
    slow, fast = ALFWorld(engine="textworld", workers=1, **options), ALFWorld(**options)
    rng, task = np.random.default_rng(4), fast.train_tasks()[0]
    assert slow.train_tasks()[0] == task
    episode, twin = slow.episode(task), fast.episode(task)
    for wander in (5, 0):  # the second time on a worker that has played the game, and to the end
        expert, turn = fast.expert(task, np.random.default_rng(1)), 0
        seen = episode.start()
        assert seen == twin.start()
        while not seen.done and (turn < wander or not wander):
            command = expert.act(twin)
            if wander:
                admissible = [c for c in twin.engine.admissible if c != "help"]
                command = " Go TO  mars " if turn == 1 else admissible[int(rng.integers(len(admissible)))]
            seen = episode.step(command)
            assert seen == twin.step(command)
            turn += 1
    assert (seen.reward, seen.success, seen.score) == (10.0, True, 1.0)
    slow.close()


@needs_the_real_engine
def test_a_worker_is_held_from_start_to_close(real: ALFWorld) -> None:
    first, second = (real.episode(real.train_tasks()[0]) for _ in range(2))
    assert isinstance(first, TwoPhaseEpisode)
    with pytest.raises(ValueError, match=r"the episode is closed; start it first$"):
        first.step("look")
    first.start()
    [pid] = real._pool.pids
    first.start()  # again, on the worker that it had
    with pytest.raises(RuntimeError, match="all 1 workers are taken"):
        second.start()
    first.close()
    first.close()
    second.start()
    second.close()
    assert real._pool.pids == (pid,)


def planners(pid: int) -> int:
    """How many copies of the planner's library a process holds; every further engine would add one for good."""
    mapped = Path(f"/proc/{pid}/maps").read_text().splitlines()
    return len({line.split()[4] for line in mapped if "libdownward" in line})


@needs_the_real_engine
def test_one_engine_of_a_worker_plays_all_its_games(real: ALFWorld) -> None:
    pids = set()
    for task in real.train_tasks()[1:3]:
        episode = real.episode(task)
        assert episode.start() == real.rehearsal().episode(task).start()
        pids |= {*real._pool.pids}
        episode.close()
    [pid] = pids
    assert planners(pid) == 1


@needs_the_real_engine
def test_a_game_that_the_real_engine_cannot_read_costs_its_episodes_alone(real: ALFWorld) -> None:
    """An id that is declared twice is no matter for the fast engine; the planner ends the process that reads it."""
    task = real.train_tasks()[0]
    problem = task.payload.problem.replace("\nagent1 - agent", "\nagent1 - agent" * 2)
    assert problem != task.payload.problem
    twice = replace(task, payload=replace(task.payload, problem=problem))
    begun = real.rehearsal().episode(twice).start()
    nobody: Any = None  # no episode gets as far as a decision
    lost = play(real, nobody, [Assignment(f"lost-{slot}", twice, slot, ("x",)) for slot in range(2)], 1.0, Timing())
    for trajectory in lost:
        assert re.match(
            rf"task '{task.id}', last command '\(start\)': WorkerError: worker \d+ died \(exit code 1\); its last words: \w",
            trajectory.error or "",
        )
    episode = real.episode(task)
    assert episode.start() == begun
    episode.close()


def test_an_engine_that_cannot_start_is_given_up_after_two_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirty episodes on two workers: the first two rounds try, the others are told at once."""
    monkeypatch.setattr("creditlab.environments.alfworld.environment.installed", lambda: True)
    monkeypatch.setattr("creditlab.environments.alfworld.environment.WORKER", pool_worker.FAILS_TO_START)
    env = ALFWorld(engine="textworld", workers=2)
    nobody: Any = None  # no episode gets as far as a decision
    assignments = [Assignment(f"e{i}", env.train_tasks()[0], i, ("x",)) for i in range(30)]
    errors = [trajectory.error or "" for trajectory in play(env, nobody, assignments, 1.0, Timing())]
    env.close()
    assert all(error.endswith("its last words: RuntimeError: no engine here") for error in errors)
    assert ["workers in a row could not start" in error for error in errors] == [False] * 4 + [True] * 26


@needs_the_real_engine
def test_its_state_cannot_be_copied(real: ALFWorld) -> None:
    episode = real.episode(real.train_tasks()[0])
    for call in (episode.snapshot, lambda: episode.restore(None)):
        with pytest.raises(ValueError, match=r"^env\.engine=textworld cannot copy the state of an episode"):
            call()


@needs_the_real_engine
def test_the_planner_leaves_command_line_and_screen_alone(capfd: pytest.CaptureFixture[str]) -> None:
    arguments, screen, task = sys.argv, sys.stdout, ALFWorld(rooms=("bathroom",)).train_tasks()[0]
    kept = list(arguments)
    engine = RealEngine()
    engine.load(pack(task.payload))
    assert task.goal in engine.reset()
    assert sys.argv is arguments
    assert sys.argv == kept
    assert sys.stdout is screen
    assert capfd.readouterr().out == ""


@needs_the_real_engine
def test_the_manifest_names_the_engine_and_its_versions(real: ALFWorld) -> None:
    facts = real.describe()
    assert facts["engine"] == "textworld"
    assert set(facts["engine_versions"]) == {"alfworld", "textworld"}
    assert "engine_versions" not in real.rehearsal().describe()


@needs_the_real_engine
def test_demonstrations_and_runs_are_the_same_whatever_carries_them_out() -> None:
    set_up = {"workers": 3, "timeout": 5.0, "recycle": 7}
    assert set(ALFWorld.operational) == set(set_up)
    for engine in ("fast", "textworld"):
        assert ALFWorld(engine=engine, **set_up).rehearsal() == ALFWorld()
    overrides = [f"env.{key}={value}" for key, value in set_up.items()]
    real, default = (compose_job(["env.engine=textworld", *more]).hash for more in (overrides, []))
    assert real == default
    assert real != compose_job([]).hash


def test_the_width_is_the_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("creditlab.environments.alfworld.environment.installed", lambda: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(5)))
    monkeypatch.setattr("creditlab.limits.core_limit", lambda: None)
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert ALFWorld(engine="textworld").width == 5
    assert ALFWorld(engine="textworld", workers=3).width == 3
    assert ALFWorld(workers=3).width is None


@pytest.mark.parametrize("variable", ["LOCAL_WORLD_SIZE", "LOCAL_SIZE"], ids=["torchrun", "deepspeed"])
@pytest.mark.parametrize(
    ("cores", "limit", "ranks", "width"),
    [(8, None, 2, 4), (8, None, 3, 2), (2, None, 4, 1), (8, 3.5, 1, 3), (8, 3.5, 2, 1), (2, 6.0, 1, 2), (4, 0.5, 1, 1)],
)
def test_the_ranks_of_a_machine_share_the_cores_that_a_container_leaves_them(
    cores: int, limit: float | None, ranks: int, width: int, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("creditlab.environments.alfworld.environment.installed", lambda: True)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr("creditlab.limits.core_limit", lambda: limit)
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_SIZE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(ranks))
    assert ALFWorld(engine="textworld").width == width
    assert ALFWorld(engine="textworld", workers=8).width == 8  # what was asked for is what each rank gets


@pytest.mark.parametrize("package", ["alfworld", "textworld"])
def test_without_the_extra_there_is_one_clear_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)  # importing it raises ImportError
    with pytest.raises(ConfigError, match=r"^env.*engine=textworld.*: pip install 'creditlab\[alfworld\]'$"):
        compose_job(["env.engine=textworld"])
    compose_job([])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, r"^env\.workers must be at least 1, not 0$"),
        ({"recycle": 0}, r"^env\.recycle must be at least 1, not 0$"),
        ({"timeout": 0.0}, r"^env\.timeout must be above 0 and at most 1e\+07 seconds, not 0; "),
        ({"timeout": float("nan")}, r"^env\.timeout must be above 0 and at most 1e\+07 seconds, not nan; "),
        ({"timeout": 1e300}, r"^env\.timeout must be above 0 and at most 1e\+07 seconds, not 1e\+300; "),
    ],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ALFWorld(**options)
