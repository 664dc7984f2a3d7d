"""The rides are Gymnasium's, the driver drives the shortest way, and what needs a rubric is refused."""

from __future__ import annotations

from collections import Counter

import gymnasium
import numpy as np
import pytest
from creditlab_taxi import COMMANDS, STANDS, SameLeg, Taxi

from creditlab.cli import compose_job
from creditlab.hookspecs import State
from creditlab.options import ConfigError
from creditlab.testing import check_environment, move, rows_of, siblings, walk

TAXI = Taxi()
RIDES = [*TAXI.train_tasks(), *TAXI.panel(100, 0).tasks]


def test_conformance() -> None:
    check_environment(TAXI)


def test_every_start_of_gymnasium_is_a_task_and_a_third_of_them_is_held_out() -> None:
    assert (len(TAXI.train_tasks()), len({task.id for task in RIDES})) == (200, 300)
    starts = np.flatnonzero(gymnasium.make("Taxi-v4").unwrapped.initial_state_distrib)
    assert sorted(task.payload for task in RIDES) == starts.tolist()
    pairs = Counter(task.id.partition("-from")[0] for task in TAXI.panel(100, 0).tasks)
    assert len(pairs) == 12
    assert set(pairs.values()) == {8, 9}  # of 25 squares


@pytest.mark.parametrize("seed", range(20))
def test_a_ride_goes_as_in_gymnasium(seed: int) -> None:
    game, rng = gymnasium.make("Taxi-v4", max_episode_steps=-1), np.random.default_rng(seed)
    start, info = game.reset(seed=seed)
    ride = TAXI.episode(next(task for task in RIDES if task.payload == start))
    now, ended = ride.start(), False
    while not ended:
        assert now.view.actions == tuple(c for c, useful in zip(COMMANDS, info["action_mask"], strict=True) if useful)
        action = int(rng.integers(len(COMMANDS)))
        useful = bool(info["action_mask"][action])
        state, _, ended, _, info = game.step(action)
        now = ride.step(COMMANDS[action])
        assert (ride.snapshot(), now.done, now.effective) == (state, ended, useful)
        assert (now.success, now.reward, now.score == 1) == (ended, 10.0 * ended, ended)
    assert now.view.observation == ("you are in row {} column {} and the passenger waits at {}".format(*words(state))), (
        "who has been brought waits at the destination"
    )


def words(state: int) -> tuple[int, int, str]:
    """Row, column and stand; Gymnasium's manual: ((row · 5 + column) · 5 + passenger) · 4 + destination."""
    return state // 100 + 1, state // 20 % 5 + 1, STANDS[state // 4 % 5]


def test_a_passenger_aboard_is_half_of_the_score() -> None:
    ride = TAXI.episode(next(task for task in RIDES if task.id == "red-to-green-from-1-1"))
    assert ride.start().score == 0
    aboard = ride.step("Pick  up")
    assert (aboard.score, aboard.action_key) == (0.5, "pick up")
    assert aboard.view.observation == "you are in row 1 column 1 and the passenger is aboard"
    assert ride.step("drop off").score == 0, "left at the wrong stand"


def test_the_driver_drives_the_shortest_way() -> None:
    """Distances to the delivery by relaxation over the whole table, where the driver searches forwards."""
    table = gymnasium.make("Taxi-v4").unwrapped.P
    left = np.full(len(table), np.inf)
    for _ in range(len(table)):
        ways = [[1 + (0 if done else left[after]) for [(_, after, _, done)] in moves.values()] for moves in table.values()]
        left, before = np.min(ways, axis=1), left
        if np.array_equal(left, before):
            break
    for task in RIDES:
        ride, driver = TAXI.episode(task), TAXI.expert(task, np.random.default_rng(0))
        now, turns = ride.start(), 0
        while not now.done:
            now, turns = ride.step(driver.act(ride)), turns + 1
        assert turns == left[task.payload]
    assert max(left[task.payload] for task in RIDES) == 18


def test_same_leg_groups_by_state_first_and_by_leg_then() -> None:
    def at(place: str, leg: str) -> State:
        return State({"observation": f"{place}, {leg}", "graph": f"{place}, {leg}", "leg": leg})

    one = walk(move(at("A", "waits"), "go"), move(at("B", "waits"), "go"), move(at("B", "aboard"), "go"), end=at("C", "done"))
    other = walk(move(at("A", "waits"), "stay"), move(at("A", "waits"), "go"), end=at("B", "waits"))
    rows = rows_of(siblings("task", one, other))
    state, leg = SameLeg().levels(rows)
    assert (state.resolution, leg.resolution) == (1.0, 0.5)
    assert partition(state.ids[rows.state]) == [0, 1, 2, 0, 0]
    assert partition(leg.ids[rows.state]) == [0, 0, 1, 0, 0]


def partition(ids: np.ndarray) -> list[int]:
    """Ids renumbered in the order in which they appear."""
    return [list(dict.fromkeys(ids.tolist())).index(i) for i in ids.tolist()]


@pytest.mark.parametrize(
    "line", ["method=graphgpo", "method=gigpo match=same_leg", "method=grpo", "method=mcgpo match=same_leg"]
)
def test_methods_that_need_no_rubric_take_it(line: str) -> None:
    assert type(compose_job(["env=taxi", *line.split()]).env) is Taxi


@pytest.mark.parametrize(
    ("line", "part"),
    [
        ("method=mcgpo", "match=state_rubric"),
        ("method=grpo aux=pair", "match=state_rubric"),
        ("method=graphgpo match=rubric_only", "match=rubric_only"),
        ("method=graphgpo shaping=rubric_progress", "shaping=rubric_progress"),
    ],
)
def test_what_needs_a_rubric_is_refused(line: str, part: str) -> None:
    with pytest.raises(ConfigError, match=f"{part} needs a rubric, which env=taxi does not provide"):
        compose_job(["env=taxi", *line.split()])
