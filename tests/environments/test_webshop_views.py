"""Rubric, frontier and state views of WebShop, on a shop whose scores can be counted on fingers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from webshop_shop import goal, shop

from creditlab.environments.protocol import Task
from creditlab.environments.webshop.episode import Reading, WebShopEpisode, action_key
from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.views import Tracker, after_instruction, match_bin
from creditlab.rollouts import State, Transition

OPEN_RED_MUG = ("search[mug]", "click[b000000001]")
INDEX_STATUS = dict.fromkeys(
    ("search_issued", "product_opened", "type_match", "attribute_match", "option_match", "price_ok", "goal_progress"), 0
)


def episode(
    wanted: Goal, *, mode: str = "text", quoted: bool = False, hidden: tuple[str, ...] = (), keeps_satisfied: bool = False
) -> WebShopEpisode:
    tracker = Tracker(wanted, frontier_excludes_satisfied=not keeps_satisfied)
    task = Task("goal", wanted.category, wanted.instruction, payload=wanted)
    return WebShopEpisode(task, wanted, shop(), tracker, Reading(mode, quoted, frozenset(hidden)))  # type: ignore[arg-type]


def play(wanted: Goal, *actions: str, **how: bool) -> Transition:
    running = episode(wanted, **how)  # type: ignore[arg-type]
    now = running.start()
    for action in actions:
        now = running.step(action)
    return now


def values(state: State) -> dict[str, Fraction | int]:
    return {name: channel.value for name, channel in state.rubric.items()}


def test_before_the_search_only_the_search_is_enabled() -> None:
    state = play(goal()).state
    assert values(state) == INDEX_STATUS
    assert state.frontier == ("search_issued",)


def test_after_the_search_a_product_may_be_opened() -> None:
    state = play(goal(), "search[mug]").state
    assert values(state) == {**INDEX_STATUS, "search_issued": 1}
    assert state.frontier == ("product_opened",)


def test_an_open_product_is_scored_as_if_it_were_bought_now() -> None:
    """Type 1, both attributes, none of one option, price kept: 3 of 4 hits."""
    state = play(goal(), *OPEN_RED_MUG).state
    assert values(state) == {
        "search_issued": 1,
        "product_opened": 1,
        "type_match": 1,
        "attribute_match": 1,
        "option_match": 0,
        "price_ok": 1,
        "goal_progress": Fraction(3, 4),
    }
    assert state.frontier == ("option_match", "task_success"), "progress, which waits for the option, is above zero"
    chosen = play(goal(), *OPEN_RED_MUG, "click[red]").state
    assert values(chosen)["option_match"] == values(chosen)["goal_progress"] == 1
    assert chosen.frontier == ("task_success",)


def test_the_plain_mug_shares_one_attribute_and_costs_too_much() -> None:
    """Title nouns tall, mug against plain, mug: type 1; 1 of 2 attributes, no option, too dear: 1 of 4 hits."""
    state = play(goal(), "search[mug]", "click[b000000002]").state
    found = values(state)
    assert (found["type_match"], found["attribute_match"], found["option_match"], found["price_ok"]) == (
        1,
        Fraction(1, 2),
        0,
        0,
    )
    assert found["goal_progress"] == Fraction(1, 4)


def test_another_kind_of_product_has_no_type() -> None:
    """No noun in common: the type is 0, and with it everything."""
    found = values(play(goal(), "search[lamp]", "click[b000000003]").state)
    assert found["type_match"] == found["goal_progress"] == 0
    assert found["attribute_match"] == Fraction(1, 2)


def test_a_goal_without_options_waits_for_none() -> None:
    state = play(goal(options=()), *OPEN_RED_MUG).state
    assert values(state)["option_match"] == 0
    assert values(state)["goal_progress"] == 1
    assert state.frontier == ("task_success",)


def test_what_was_once_reached_stays_reached() -> None:
    """Back on the search page nothing holds any more, but the search has once been issued, which opens O."""
    state = play(goal(), *OPEN_RED_MUG, "click[back to search]").state
    assert values(state) == INDEX_STATUS
    assert state.frontier == ("product_opened", "search_issued")


def test_the_frontier_may_keep_what_is_satisfied() -> None:
    state = play(goal(), *OPEN_RED_MUG, "click[red]", keeps_satisfied=True).state
    assert set(state.frontier) == {*state.rubric, "task_success"}


def test_buying_pays_ten_for_the_full_score_alone() -> None:
    bought = play(goal(), *OPEN_RED_MUG, "click[red]", "click[buy now]")
    assert (bought.reward, bought.done, bought.success, bought.score) == (10.0, True, True, 1.0)
    assert bought.state.rubric["goal_progress"].satisfied
    assert bought.state.frontier == ()
    partly = play(goal(), *OPEN_RED_MUG, "click[buy now]")
    assert (partly.reward, partly.done, partly.success, partly.score) == (0.0, True, False, 0.75)
    assert values(partly.state)["goal_progress"] == Fraction(3, 4)


def test_the_exact_view_holds_page_query_product_and_options() -> None:
    assert play(goal()).state.views["exact"] == "page=index | query=none | product=none | options=none"
    state = play(goal(), "search[Red  mug]", "click[B000000001]", "click[small]", "click[red]", "click[features]").state
    expected = "page=features | query=red  mug | product=B000000001 | options=color: red, size: small"
    assert state.views["exact"] == expected


def test_the_coarse_view_holds_flags_and_bins() -> None:
    state = play(goal(), "search[mug]", "click[b000000002]").state
    expected = "page=item | searched=yes | product open=yes | type=1 | attributes=low | options=0 | price=no"
    assert state.views["coarse"] == expected
    wanted = goal(attributes=("heavy duty", "dishwasher safe", "gold rim"))
    assert "attributes=high" in play(wanted, *OPEN_RED_MUG).state.views["coarse"]  # 2 of 3


@pytest.mark.parametrize(("share", "name"), [("0", "0"), ("1/100", "low"), ("1/2", "low"), ("51/100", "high"), ("1", "1")])
def test_match_bins_are_closed_on_the_right(share: str, name: str) -> None:
    assert match_bin(Fraction(share)) == name


def test_the_graph_view_is_the_page_after_the_instruction() -> None:
    now = play(goal(), "search[mug]")
    assert now.state.views["observation"].startswith(
        f"Instruction: [SEP] {goal().instruction} [SEP] Back to Search [SEP] Page 1"
    )
    assert now.state.views["graph"] == now.view.observation
    assert now.view.observation.startswith(
        "Back to Search [SEP] Page 1 (Total results: 3) [SEP] Next > [SEP] B000000001 [SEP]"
    )


def test_what_follows_the_instruction() -> None:
    assert after_instruction("a [SEP] i [SEP] b [SEP] c", "i", " [SEP] ") == "b [SEP] c"
    assert after_instruction("a [SEP] ib [SEP] b", "i", " [SEP] ") == "a [SEP] ib [SEP] b", "the done page does not show it"


def test_the_field_quotes_every_part() -> None:
    now = play(goal(), quoted=True)
    assert now.view.observation == "'Search'"
    assert now.state.views["graph"] == "Search"


def test_actions_are_the_search_and_what_can_be_clicked() -> None:
    assert play(goal()).view.actions == ("search[<your query>]", "click[search]")
    item = play(goal(), *OPEN_RED_MUG).view.actions
    assert item[:2] == ("click[back to search]", "click[< prev]")
    assert set(item[2:]) == {
        *(f"click[{label}]" for label in ("description", "features", "reviews", "buy now", "red", "blue", "small"))
    }
    hidden = episode(goal(), hidden=("description", "search"))
    assert hidden.start().view.actions == ("search[<your query>]",)
    hidden.step("search[mug]")
    assert "click[description]" not in hidden.step("click[b000000001]").view.actions
    assert hidden.step("click[description]").effective, "what is not listed can be clicked all the same"


def test_text_rich_shows_what_is_chosen() -> None:
    running = episode(goal(), mode="text_rich")
    running.start()
    for action in (*OPEN_RED_MUG, "click[red]"):
        now = running.step(action)
    assert "[clicked button] red [clicked button_]" in now.view.observation
    assert goal().instruction not in now.view.observation


def test_an_action_without_effect_says_so() -> None:
    for action in ("click[nothing]", "search[]", "Search[mug]", "", "buy now", "click[search]"):
        now = play(goal(), action)
        assert (now.effective, now.reward, now.done) == (False, 0.0, False)
        assert now.state.views["exact"].startswith("page=index")


def test_action_keys_are_canonical() -> None:
    assert action_key("click[B000000001]") == "click[b000000001]"
    assert action_key("Click[B000000001]") == "Click[b000000001]", "the name is case-sensitive"
    assert action_key("nonsense") == "nonsense"


def test_a_snapshot_holds_everything() -> None:
    running = episode(goal())
    running.start()
    for action in OPEN_RED_MUG:
        running.step(action)
    saved = running.snapshot()
    first = [running.step(a) for a in ("click[red]", "click[back to search]", "search[mug]")]
    running.restore(saved)
    assert [running.step(a) for a in ("click[red]", "click[back to search]", "search[mug]")] == first
