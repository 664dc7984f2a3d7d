"""The columns of rows: texts and rubrics as numbers, made when they are asked for and only then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.registry import registry
from creditlab.rollouts import Channel, Group, Rows, State, Step, StopReason, Trajectory
from creditlab.rollouts.columns import OnDemand

VIEWS = ("observation", "graph", "exact")
TEXTS = st.sampled_from(["", "hall", "Hall", "hall ", "küche"])
CHANNELS = st.builds(Channel, st.fractions(0, 3, max_denominator=4), st.sampled_from([Fraction(3), Fraction(0)]))
STATES = st.builds(
    State,
    st.fixed_dictionaries(dict.fromkeys(VIEWS, TEXTS)),
    st.fixed_dictionaries({}, optional=dict.fromkeys(("goal_progress", "target_acquired"), CHANNELS)),
    st.sampled_from([(), ("goal_progress",), ("target_acquired",)]),
)


def step(turn: int, action: str = "look") -> Step:
    ids, logprobs = np.zeros(1, np.int32), np.zeros(1, np.float32)
    return Step(turn, ids, ids, logprobs, "", action, action, 0.0, True, True)


def group(*states: State) -> Group:
    """Two siblings that see the same states."""
    steps = tuple(step(turn, f"go {turn % 2}") for turn in range(len(states) - 1))
    siblings = [Trajectory(f"g/{slot}", slot, steps, states, StopReason.TRUNCATED, 0.0) for slot in range(2)]
    return Group("g", "task", "walk", tuple(siblings))


class Watched(Mapping[str, str]):
    """Views that note which of them is read."""

    def __init__(self, read: set[str]) -> None:
        self.read = read

    def __getitem__(self, name: str) -> str:
        self.read.add(name)
        return f"somewhere in {name}"

    def __contains__(self, name: object) -> bool:
        return name in VIEWS

    def __iter__(self) -> Iterator[str]:
        return iter(VIEWS)

    def __len__(self) -> int:
        return len(VIEWS)


@pytest.mark.parametrize(
    ("method", "views"), [("grpo", set()), ("rloo", set()), ("gigpo", {"observation"}), ("graphgpo", {"graph"})]
)
def test_a_method_interns_the_views_that_it_reads_and_no_other(method: str, views: set[str]) -> None:
    read: set[str] = set()
    made = replace(State({}), views=Watched(read))
    rows = Rows.from_groups([group(made, made, made)])
    assert read == set()
    registry().create("method", method)(rows)
    assert read == views


@settings(max_examples=200)
@given(st.lists(STATES, min_size=1, max_size=6))
def test_ids_are_equal_exactly_where_the_texts_are_and_lead_back_to_them(states: list[State]) -> None:
    rows = Rows.from_groups([group(*states)])
    for view in VIEWS:
        texts = [state.views[view] for state in states] * 2
        assert [rows.texts[view][number] for number in rows.view(view)] == texts
        assert sorted(set(rows.view(view).tolist())) == list(range(len(set(texts))))
        assert rows.view(view) is rows.views[view]
    actions = [one.action_key for one in group(*states).trajectories[0].steps] * 2
    assert [rows.texts["action"][number] for number in rows.action] == actions


@settings(max_examples=200)
@given(st.lists(STATES, min_size=1, max_size=6))
def test_columns_of_rubrics_say_what_the_channels_say(states: list[State]) -> None:
    rows = Rows.from_groups([group(*states)])
    keys = [({name: channel.value for name, channel in state.rubric.items()}, state.frontier) for state in states] * 2
    same = np.equal.outer(rows.rubric, rows.rubric)
    assert same.tolist() == [[a == b for b in keys] for a in keys]
    for index, state in enumerate(states * 2):
        shares = [channel.value / channel.full for channel in state.rubric.values() if channel.full]
        assert rows.progress[index] == pytest.approx(float(sum(shares) / len(shares)) if shares else 0.0, abs=1e-15)
        goal = state.rubric.get("goal_progress", Channel(Fraction(0), Fraction(1)))
        numerator, denominator = rows.goal_progress
        assert Fraction(int(numerator[index]), int(denominator[index])) == goal.value
        assert rows.goal_share[index] == (float(goal.value / goal.full) if goal.full else 0.0)


def test_columns_are_locked_whenever_they_were_made() -> None:
    rows = Rows.from_groups([group(State({"graph": "a"}), State({"graph": "b"}))])
    of_rubrics = (rows.rubric, rows.progress, rows.goal_share, *rows.goal_progress)
    for column in (rows.view("graph"), rows.trained_decisions, *of_rubrics):
        with pytest.raises(ValueError, match="read-only"):
            column[0] = 1


def test_shaped_rewards_share_the_columns_that_were_made() -> None:
    rows = Rows.from_groups([group(State({"graph": "a"}), State({"graph": "b"}))])
    shaped = rows.with_rewards(np.ones(len(rows)))
    assert shaped.view("graph") is rows.view("graph")
    assert shaped.rubric is rows.rubric


def test_a_value_is_made_once_and_names_stand_before_any_is() -> None:
    made: list[str] = []
    values = OnDemand("ab", lambda name: made.append(name) or [name])  # type: ignore[func-returns-value]
    assert (list(values), len(values), "a" in values, "c" in values) == (["a", "b"], 2, True, False)
    assert values["b"] is values["b"]
    assert made == ["b"]
    with pytest.raises(KeyError):
        values["c"]
