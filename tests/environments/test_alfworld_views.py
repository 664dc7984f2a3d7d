"""State views, rubric and frontier, against cases worked out by hand from the definitions (MCGPO, Tables 5, 15 and 17)."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditlab.environments.alfworld.families import CLEAN, COOL, FAMILIES, HEAT, LOOK, PICK, TWO
from creditlab.environments.alfworld.rubric import TEMPLATES
from creditlab.environments.alfworld.views import TaskInfo, Tracker
from creditlab.rollouts import State

ROOM = ("go to desk 1", "go to shelf 1", "help", "inventory", "look")
INTRO = "You are in the middle of a room."
OK = "You did it."
"""Feedback that is not the no-effect message; the tracker reads commands."""


def tracker(family: str = PICK, horizon: int = 50, **options: object) -> Tracker:
    goal = None if family == LOOK else "shelf"
    lamp = "desklamp" if family == LOOK else None
    return Tracker(TaskInfo(family, "mug", goal, lamp), horizon, **options)  # type: ignore[arg-type]


def play(follower: Tracker, *commands: str, feedback: str = OK) -> State:
    state = follower.start(INTRO, ROOM)
    for command in commands:
        state = follower.update(command, feedback, ROOM)
    return state


def values(state: State) -> dict[str, int]:
    assert all(channel.value.denominator == 1 for channel in state.rubric.values())
    return {name: int(channel.value) for name, channel in state.rubric.items()}


def full(state: State) -> dict[str, int]:
    return {name: int(channel.full) for name, channel in state.rubric.items()}


def field(view: str, name: str) -> str:
    return dict(part.split("=") for part in view.split(" | "))[name]


# -- the rubric, one worked episode per family ------------------------------------------------------------------------


def test_pick_and_place_rubric_and_frontier() -> None:
    follower = tracker(PICK)
    state = follower.start(INTRO, ROOM)
    assert full(state) == {"target_acquired": 1, "target_in_hand": 1, "target_placed": 1, "goal_progress": 1}
    assert set(values(state).values()) == {0}
    assert state.frontier == ("target_acquired",)
    state = follower.update("take mug 2 from desk 1", OK, ROOM)
    assert values(state) == {"target_acquired": 1, "target_in_hand": 1, "target_placed": 0, "goal_progress": 0}
    assert state.frontier == ("target_placed",)
    follower.update("go to shelf 1", OK, ROOM)
    state = follower.update("move mug 2 to shelf 1", OK, ROOM, success=True)
    assert values(state) == {"target_acquired": 1, "target_in_hand": 0, "target_placed": 1, "goal_progress": 1}
    assert state.frontier == ("target_in_hand",)


def test_pick_two_counts_both_objects_and_goes_down_when_one_is_taken_back() -> None:
    follower = tracker(TWO)
    state = play(follower, "take mug 1 from desk 1", "move mug 1 to shelf 1")
    assert full(state) == {"target_acquired": 2, "target_in_hand": 1, "target_placed": 2, "goal_progress": 2}
    assert values(state) == {"target_acquired": 1, "target_in_hand": 0, "target_placed": 1, "goal_progress": 1}
    assert state.frontier == ("goal_progress", "target_acquired", "target_in_hand", "target_placed", "task_success")
    state = follower.update("take mug 1 from shelf 1", OK, ROOM)
    assert values(state) == {"target_acquired": 1, "target_in_hand": 1, "target_placed": 0, "goal_progress": 0}
    assert state.frontier == ("target_acquired", "target_placed")
    for command in ("move mug 1 to shelf 1", "take mug 3 from desk 1", "move mug 3 to shelf 2"):
        state = follower.update(command, OK, ROOM)
    assert values(state) == {"target_acquired": 2, "target_in_hand": 0, "target_placed": 2, "goal_progress": 2}
    assert state.frontier == ("target_in_hand", "task_success"), "two shelves: placed twice, yet not solved"


@pytest.mark.parametrize(
    ("family", "process"),
    [(CLEAN, "clean mug 2 with sinkbasin 1"), (HEAT, "heat mug 2 with microwave 1"), (COOL, "cool mug 2 with fridge 1")],
)
def test_process_and_place_rubric_and_frontier(family: str, process: str) -> None:
    follower = tracker(family)
    state = play(follower, "take mug 2 from desk 1")
    assert full(state) == {
        "target_acquired": 1,
        "target_in_hand": 1,
        "target_processed": 1,
        "target_placed": 1,
        "goal_progress": 3,
    }
    assert state.frontier == ("target_processed",), "placing waits for processing now"
    state = follower.update(process, OK, ROOM)
    assert values(state)["goal_progress"] == 1
    assert state.frontier == ("target_placed", "task_success"), "G is above 0, which opens S; G itself waits for L"
    state = follower.update("move mug 2 to shelf 1", OK, ROOM, success=True)
    assert values(state) == {
        "target_acquired": 1,
        "target_in_hand": 0,
        "target_processed": 1,
        "target_placed": 1,
        "goal_progress": 3,
    }
    assert state.frontier == ("target_in_hand",)


def test_goal_progress_needs_the_same_object_processed_and_placed() -> None:
    state = play(
        tracker(CLEAN),
        "take mug 1 from desk 1",
        "clean mug 1 with sinkbasin 1",
        "move mug 1 to desk 1",
        "take mug 2 from desk 1",
        "move mug 2 to shelf 1",
    )
    assert values(state)["goal_progress"] == 2  # 1[P] + 1[L] + 0
    assert "goal_progress" in state.frontier
    assert "task_success" in state.frontier


def test_a_processed_object_stays_processed_when_it_is_put_down_or_returned() -> None:
    state = play(tracker(CLEAN), "take mug 1 from shelf 1", "clean mug 1 with sinkbasin 1", "move mug 1 to shelf 1")
    assert values(state)["target_processed"] == 1
    assert values(state)["target_placed"] == 1
    assert values(state)["goal_progress"] == 3


def test_only_the_process_that_is_asked_for_counts_and_heat_undoes_cool() -> None:
    follower = tracker(COOL)
    state = play(follower, "take mug 1 from desk 1", "clean mug 1 with sinkbasin 1")
    assert values(state)["target_processed"] == 0
    assert values(follower.update("cool mug 1 with fridge 1", OK, ROOM))["target_processed"] == 1
    assert values(follower.update("heat mug 1 with microwave 1", OK, ROOM))["target_processed"] == 0


def test_look_rubric_and_frontier() -> None:
    follower = tracker(LOOK)
    state = follower.start(INTRO, ROOM)
    assert full(state) == {"target_acquired": 1, "target_in_hand": 1, "light_on": 1, "goal_progress": 2}
    assert state.frontier == ("light_on", "target_acquired")
    state = follower.update("use desklamp 1", "You turn on the desklamp 1.", ROOM)
    assert values(state)["light_on"] == 1
    assert values(state)["goal_progress"] == 1
    assert state.frontier == ("target_acquired",)
    state = follower.update("take mug 1 from desk 1", OK, ROOM)
    assert values(state)["goal_progress"] == 2
    assert state.frontier == ("task_success",), "held and lit, but not beside the lamp"
    assert follower.update("go to desk 1", OK, ROOM, success=True).frontier == ()


def test_the_light_follows_feedback_that_says_off_and_only_lamps_of_the_goal() -> None:
    follower = tracker(LOOK)
    assert values(play(follower, "use floorlamp 1"))["light_on"] == 0
    assert values(follower.update("use desklamp 1", OK, ROOM))["light_on"] == 1
    assert values(follower.update("use desklamp 1", "You turn off the desklamp 1.", ROOM))["light_on"] == 0
    assert values(follower.update("examine desklamp 1", "This desklamp 1 is on.", ROOM))["light_on"] == 1
    assert values(follower.update("examine desklamp 1", "This desklamp 1 is off.", ROOM))["light_on"] == 0


def test_objects_of_another_kind_change_no_channel() -> None:
    state = play(tracker(PICK), "take bowl 1 from desk 1", "move bowl 1 to shelf 1", "take mug rack 1 from desk 1")
    assert set(values(state).values()) == {0}


def test_the_enabled_reading_of_the_frontier_keeps_satisfied_criteria() -> None:
    state = play(tracker(PICK, frontier_excludes_satisfied=False), "take mug 1 from desk 1")
    assert state.frontier == ("target_acquired", "target_in_hand", "target_placed")


def test_templates_are_those_of_the_paper() -> None:
    a, h, p, low = "target_acquired", "target_in_hand", "target_processed", "target_placed"
    b, g, s = "light_on", "goal_progress", "task_success"
    for family in FAMILIES:
        assert (a, h) in TEMPLATES[family].ever
    for family in (PICK, TWO):
        assert set(TEMPLATES[family].ever) == {(a, h), (a, low)}
        assert set(TEMPLATES[family].current) == {(low, g), (g, s)}
    for family in (CLEAN, HEAT, COOL):
        assert set(TEMPLATES[family].ever) == {(a, h), (a, p), (a, low)}
        assert set(TEMPLATES[family].current) == {(p, low), (p, g), (low, g), (g, s)}
    assert set(TEMPLATES[LOOK].ever) == {(a, h)}
    assert set(TEMPLATES[LOOK].current) == {(h, g), (b, g), (h, s), (b, s), (g, s)}


def test_statuses_are_exact_rationals() -> None:
    channels = play(tracker(TWO), "take mug 1 from desk 1").rubric
    assert channels["target_acquired"].value == Fraction(1)
    assert channels["target_acquired"].full == Fraction(2)
    assert not channels["target_acquired"].satisfied


# -- the views --------------------------------------------------------------------------------------------------------


def test_observation_is_the_raw_text() -> None:
    follower = tracker()
    assert follower.start(INTRO, ROOM).views["observation"] == INTRO
    assert follower.update("look", "You see  nothing.", ROOM).views["observation"] == "You see  nothing."


def test_graph_view_holds_text_place_held_object_moves_and_sorted_commands() -> None:
    follower = tracker(CLEAN)
    play(follower, "go to desk 1", "take bowl 2 from desk 1", "move bowl 2 to shelf 1", "take mug 1 from desk 1")
    state = follower.update("clean mug 1 with sinkbasin 1", "You clean the mug 1.", ("look", "go to shelf 1", "inventory"))
    assert state.views["graph"] == (
        "You clean the mug 1.\nat desk 1 holding clean mug 1\nmoved bowl 2: desk 1 -> shelf 1\ngo to shelf 1,inventory,look"
    )


def test_an_object_that_is_back_where_it_was_found_is_not_moved() -> None:
    away = play(tracker(), "take bowl 1 from desk 1", "move bowl 1 to shelf 1")
    back = play(tracker(), "take bowl 1 from desk 1", "move bowl 1 to desk 1")
    untouched = play(tracker(), "look", "look")
    assert back.views["graph"] == untouched.views["graph"] != away.views["graph"]


def test_exact_view_has_the_fields_of_table_5_and_no_budget() -> None:
    state = play(tracker(CLEAN), "go to desk 1", "take mug 2 from desk 1", "clean mug 2 with sinkbasin 1")
    assert state.views["exact"] == (
        "task=pick_clean_then_place_in_recep | at=desk 1 | held=mug 2"
        " | acquired=mug 2 | processed=mug 2 | placed= | light=off"
    )


def test_coarse_view_has_the_fields_of_table_5_with_the_budget_bin() -> None:
    state = play(tracker(CLEAN), "go to desk 1", "take mug 2 from desk 1", "clean mug 2 with sinkbasin 1")
    assert state.views["coarse"] == (
        "task=pick_clean_then_place_in_recep | at=desk 1 | holding=yes | processed=yes | placed=0 | light=off | budget=5"
    )


def test_budget_bins_take_ten_turns_each_at_horizon_50() -> None:
    follower = tracker(horizon=50)
    bins = [field(follower.start(INTRO, ROOM).views["coarse"], "budget")]
    bins += [field(follower.update("look", OK, ROOM).views["coarse"], "budget") for _ in range(49)]
    assert bins == ["5"] * 10 + ["4"] * 10 + ["3"] * 10 + ["2"] * 10 + ["1"] * 10


def test_budget_bins_are_closed_on_the_right_where_they_do_not_divide_the_horizon() -> None:
    follower = tracker(horizon=7, budget_bins=2)
    bins = [field(follower.start(INTRO, ROOM).views["coarse"], "budget")]
    bins += [field(follower.update("look", OK, ROOM).views["coarse"], "budget") for _ in range(6)]
    assert bins == ["2", "2", "2", "2", "1", "1", "1"]  # remaining 7 … 4 lie above one half, 3 … 1 do not


def test_figure_9_equal_places_with_different_progress_are_different_contexts() -> None:
    """Two toilet rolls for a drawer; both stand at countertop 1, empty-handed, nothing placed, in one budget bin."""
    task = TaskInfo(TWO, "toiletpaper", "drawer", None)
    fresh, moved = Tracker(task, 50), Tracker(task, 50)
    fresh.start(INTRO, ROOM)
    moved.start(INTRO, ROOM)
    first = fresh.update("go to countertop 1", OK, ROOM)
    for command in ("go to toilet 1", "take toiletpaper 1 from toilet 1", "go to countertop 1"):
        moved.update(command, OK, ROOM)
    second = moved.update("move toiletpaper 1 to countertop 1", OK, ROOM)
    assert first.views["coarse"] == second.views["coarse"]
    assert first.rubric != second.rubric
    assert values(second) == {"target_acquired": 1, "target_in_hand": 0, "target_placed": 0, "goal_progress": 0}


# -- following commands -----------------------------------------------------------------------------------------------


def test_a_command_without_effect_changes_nothing_but_the_turn() -> None:
    follower = tracker()
    before = play(follower, "go to desk 1")
    after = follower.update("take mug 1 from desk 1", "Nothing happens.", ROOM)
    assert follower.turn == 2
    assert after.rubric == before.rubric
    assert after.views["exact"] == before.views["exact"]
    assert follower.status == "at desk 1 holding nothing"


def test_the_older_grammar_gives_the_same_state() -> None:
    new = play(tracker(), "take mug 1 from desk 1", "move mug 1 to shelf 1")
    old = play(tracker(), "take mug 1 from desk 1", "put mug 1 in/on shelf 1")
    assert old == new


def test_status_names_place_and_held_object() -> None:
    follower = tracker(HEAT)
    follower.start(INTRO, ROOM)
    assert follower.status == "at the middle of a room holding nothing"
    for command in ("go to desk 1", "take mug 2 from desk 1", "heat mug 2 with microwave 1"):
        follower.update(command, OK, ROOM)
    assert follower.status == "at desk 1 holding hot mug 2"


def test_a_snapshot_is_independent_of_what_follows() -> None:
    follower = tracker(CLEAN)
    play(follower, "take mug 1 from desk 1", "clean mug 1 with sinkbasin 1")
    snapshot = follower.snapshot()
    expected = follower.update("move mug 1 to shelf 1", OK, ROOM)
    follower.update("take mug 1 from shelf 1", OK, ROOM)
    for _ in range(2):
        follower.restore(snapshot)
        assert follower.update("move mug 1 to shelf 1", OK, ROOM) == expected


VERBS = ["go", "take", "move", "put", "use", "heat", "cool", "clean", "slice", "examine"]
WORDS = st.sampled_from(
    [*VERBS, "to", "from", "in/on", "with", "mug 1", "mug 2", "shelf 1", "desklamp 1", "This", "is", "on.", "off."]
)
TEXTS = st.one_of(st.text(), st.lists(WORDS, max_size=9).map(" ".join), st.just("Nothing happens."))


@given(family=st.sampled_from(FAMILIES), steps=st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=12))
def test_tracking_never_fails_and_keeps_channels_in_range(family: str, steps: list[tuple[str, str, bool]]) -> None:
    follower = tracker(family, horizon=5)
    previous = follower.start(INTRO, ROOM)
    for command, feedback, success in steps:
        state = follower.update(command, feedback, ROOM, success=success)
        assert state.rubric["target_acquired"].value >= previous.rubric["target_acquired"].value
        for name, channel in state.rubric.items():
            assert 0 <= channel.value <= channel.full, name
        assert set(state.frontier) <= set(TEMPLATES[family].criteria)
        assert list(state.frontier) == sorted(state.frontier)
        assert field(state.views["coarse"].rpartition(" | ")[2], "budget") in {"1", "2", "3", "4", "5"}
        previous = state
