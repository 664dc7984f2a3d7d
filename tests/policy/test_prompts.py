"""Prompts hold what they have to, and actions are read from responses by the field's rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from creditlab.policy.policy import encode_prompts, encode_target
from creditlab.policy.prompts import Context, Projection, project, render, response_for, stop_strings
from creditlab.policy.settings import PromptSettings
from creditlab.rollouts import View

LAYOUTS = ("compact", "full")
STYLES = ("action_only", "think_action")
COMMANDS = ("go to desk 1", "take mug 1 from shelf 2", "open drawer 3")
BARE = PromptSettings(layout="compact", style="action_only")
TAGGED = PromptSettings(layout="full", style="action_only")
THINKING = PromptSettings(layout="full", style="think_action")


def context(taken: int, status: str = "at shelf 2 holding nothing", actions: tuple[str, ...] = COMMANDS) -> Context:
    """A context after some decisions, whose observations and actions are numbered from 1."""
    history = [(f"seen {chr(96 + i)}.", f"did {chr(96 + i)}") for i in range(1, taken + 1)]
    return Context("You are a robot.", "put a mug in desk", View("here is a mug 1.", actions, status), history, 50)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(("history", "taken"), [(0, 4), (1, 4), (2, 4), (2, 1), (2, 0), (9, 4)])
def test_a_prompt_shows_the_last_k_pairs_in_order(layout: Any, style: Any, history: int, taken: int) -> None:
    prompt = render(PromptSettings(layout=layout, style=style, history=history, past_actions=0), context(taken))
    shown = range(max(0, taken - history) + 1, taken + 1)
    places = [prompt.find(text) for i in shown for text in (f"seen {chr(96 + i)}.", f"did {chr(96 + i)}")]
    assert -1 not in places
    assert places == sorted(places)
    for i in range(1, taken + 1 - len(shown)):
        assert f"seen {chr(96 + i)}." not in prompt
        assert f"did {chr(96 + i)}" not in prompt


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("history", "past", "pairs", "alone"), [(1, 2, "f", "de"), (2, 9, "ef", "abcd"), (0, 3, "", "def")])
def test_commands_before_the_pairs_are_listed_without_their_observations(
    layout: Any, history: int, past: int, pairs: str, alone: str
) -> None:
    prompt = render(PromptSettings(layout=layout, history=history, past_actions=past), context(6))
    assert [c for c in "abcdef" if f"seen {c}." in prompt] == list(pairs)
    assert [c for c in "abcdef" if f"did {c}" in prompt] == [*alone, *pairs]
    places = [prompt.find(f"did {c}") for c in (*alone, *pairs)]
    assert places == sorted(places)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("style", STYLES)
def test_a_prompt_holds_goal_observation_status_and_every_command(layout: Any, style: Any) -> None:
    prompt = render(PromptSettings(layout=layout, style=style, history=1), context(3))
    for part in ("put a mug in desk", "here is a mug 1.", "at shelf 2 holding nothing", *COMMANDS):
        assert part in prompt


@pytest.mark.parametrize("layout", LAYOUTS)
def test_what_a_context_lacks_leaves_no_trace(layout: Any) -> None:
    settings = PromptSettings(layout=layout, style="action_only", history=2)
    plain, full = render(settings, context(0, status="")), render(settings, context(0))
    assert "  " not in plain
    assert len(full) > len(plain)
    assert "holding" not in plain
    assert "None" not in render(settings, context(0, actions=()))


def test_the_full_prompt_names_role_steps_and_history_by_number() -> None:
    prompt = render(PromptSettings(layout="full", style="think_action", history=2), context(3))
    lines = prompt.splitlines()
    assert lines[0] == "You are a robot."
    assert any("3" in line and "50" in line and "steps" in line for line in lines)  # taken so far, and the horizon
    assert "[2] saw: 'seen b.', did: 'did b'" in lines
    assert "[3] saw: 'seen c.', did: 'did c'" in lines
    assert any(line.startswith("Step 4.") for line in lines)  # the decision now to be taken
    assert [line for line in lines if line.startswith("- ")] == [f"- {command}" for command in COMMANDS]


def test_the_first_full_prompt_speaks_of_no_history() -> None:
    prompt = render(PromptSettings(layout="full", style="action_only", history=2), context(0))
    assert "have taken" not in prompt
    assert "saw:" not in prompt
    assert "Step 1." in prompt


@pytest.mark.parametrize(("style", "asks"), [("think_action", True), ("action_only", False)])
def test_only_the_thinking_style_asks_for_thoughts(style: Any, asks: bool) -> None:
    prompt = render(PromptSettings(layout="full", style=style), context(0))
    assert ("<think>" in prompt) is asks
    assert "<action>" in prompt
    assert "</action>" in prompt


def test_the_compact_prompt_ends_with_the_goal() -> None:
    prompt = render(BARE, context(2))
    assert prompt.endswith("task put a mug in desk act")
    assert prompt.startswith("| task put a mug in desk ")


# (response, action, valid, parsed) under the thinking style; environments.md §3 of the field's reference environment
TAG_CASES = [
    ("<think>a</think><action>go to desk 1</action>", "go to desk 1", True, True),
    ("<think>a</think><action>  Go To DESK 1 \n</action>", "go to desk 1", True, True),  # lower case, stripped
    ("<THINK>a</THINK><ACTION>look</ACTION>", "look", True, True),
    ("<action>look</action><think>a</think>", "look", True, True),  # the order of the tags is free
    ("<think>a</think><action>one</action><action>two</action>", "one", True, True),  # the first pair
    ("<think>a</think><action>fly to the moon</action>", "fly to the moon", True, True),  # inadmissible is valid
    ("<action>look</action>", "look", False, True),  # no thoughts
    ("<think>a<action>look</action>", "look", False, True),  # half of the thinking tags
    ("a</think><action>look</action>", "look", False, True),
    ("<think>想</think><action>look</action>", "look", False, True),  # CJK, executed all the same
    ("<think>a</think><action>看</action>", "看", False, True),
    ("<think>é ü 한</think><action>look</action>", "look", True, True),  # other scripts are no CJK ideographs
    ("<think>a</think><action></action>", "", False, False),
    ("<think>a</think><action>   </action>", "", False, False),
    ("I would rather walk over to the desk and look around", "er to the desk and look around", False, False),
    ("look", "look", False, False),
    ("", "", False, False),
    ("<think>a</think><action>go to desk 1", "hink>a</think><action>go to desk 1"[-30:], False, False),  # never closed
    ("go to desk 1</action>", "go to desk 1</action>", False, False),  # never opened
    ("</action>look<action>", "</action>look<action>", False, False),  # reversed
    ("<think>a</think></action><action>look</action>", "look", True, True),  # the first pair, not the first tags
    ("<think>a</think><action>x<action>y</action>", "x<action>y", True, True),  # nested: up to the first end
]


@pytest.mark.parametrize(("response", "action", "valid", "parsed"), TAG_CASES)
def test_actions_are_read_from_the_first_pair_of_tags(response: str, action: str, valid: bool, parsed: bool) -> None:
    read = project(THINKING, response)
    assert (read.action, read.valid, read.parsed) == (action, valid, parsed)


@pytest.mark.parametrize(
    ("characters", "action"), [(30, slice(15, 45)), (20, slice(25, 45)), (0, slice(0)), (99, slice(0, 45))]
)
def test_without_tags_the_last_characters_are_executed(characters: int, action: slice) -> None:
    """Thirty on ALFWorld and twenty on WebShop in the field's projection; none in a later one."""
    response = "".join(chr(97 + i % 26) for i in range(45))
    settings = PromptSettings(layout="full", style="think_action", fallback_characters=characters)
    assert project(settings, response) == Projection(response[action], valid=False, parsed=False)
    assert project(THINKING, response).action == response[15:]


SHOP = ("search[<your query>]", "click[search]", "click[< prev]", "click[next >]")


@pytest.mark.parametrize("style", STYLES)
def test_a_command_with_a_blank_is_to_be_given_in_own_words(style: Any) -> None:
    """A query is the policy's own; commands without a blank are given as they are listed."""
    settings = PromptSettings(layout="full", style=style)
    *lines, last = render(settings, context(0, actions=SHOP)).splitlines()
    assert [line for line in lines if line.startswith("- ")] == [f"- {command}" for command in SHOP]
    assert "exactly one of the commands above, with words of your own in place of <your query>, between <action>" in last
    for listed in (SHOP[1:], COMMANDS):
        *_, plain = render(settings, context(0, actions=listed)).splitlines()
        assert "exactly one of the commands above between <action> and </action>" in plain


def test_every_kind_of_blank_is_named_once() -> None:
    actions = ("say <your words>", "write <your words> to <your friend>")
    *_, last = render(TAGGED, context(0, actions=actions)).splitlines()
    assert "in place of <your words> and <your friend>, between" in last


def test_the_plain_tagged_style_needs_no_thoughts() -> None:
    assert project(TAGGED, "<action>look</action>").valid
    assert not project(TAGGED, "look").valid


@pytest.mark.parametrize(
    ("response", "action", "valid", "parsed"),
    [
        ("go to desk 1", "go to desk 1", True, True),
        ("  Go to desk 1 ", "go to desk 1", True, True),
        ("fly", "fly", True, True),
        ("", "", False, False),
        ("   ", "", False, False),
        ("看", "看", False, True),
    ],
)
def test_the_bare_style_takes_the_whole_response(response: str, action: str, valid: bool, parsed: bool) -> None:
    read = project(BARE, response)
    assert (read.action, read.valid, read.parsed) == (action, valid, parsed)


def test_a_cut_response_is_executed_but_neither_valid_nor_parsed() -> None:
    read = project(BARE, "go to", complete=False)
    assert (read.action, read.valid, read.parsed) == ("go to", False, False)
    assert not project(THINKING, "<think>I was about to", complete=False).valid


@given(
    st.text("abcdefghijklmnopqrstuvwxyz0123456789 [],-'", min_size=1).filter(str.strip),
    st.sampled_from(LAYOUTS),
    st.sampled_from(STYLES),
)
def test_the_response_for_an_action_projects_to_it(action: str, layout: Any, style: Any) -> None:
    settings = PromptSettings(layout=layout, style=style)
    read = project(settings, response_for(settings, action))
    assert (read.action, read.valid, read.parsed) == (action.strip(), True, True)


@pytest.mark.parametrize(
    ("layout", "style"), [("full", "action_only"), ("full", "think_action"), ("compact", "think_action")]
)
def test_tagged_styles_stop_after_the_action(layout: Any, style: Any) -> None:
    settings = PromptSettings(layout=layout, style=style)
    assert stop_strings(settings) == ("</action>",)
    assert response_for(settings, "look").endswith(stop_strings(settings))


def test_the_bare_style_stops_at_the_end_of_the_sequence_alone() -> None:
    assert stop_strings(BARE) == ()


class Letters:
    """A tokenizer of single characters; with a chat template it wraps a message in angle quotes."""

    eos_token_id = 0
    all_special_tokens: ClassVar[tuple[str, ...]] = ()
    added_tokens_decoder: ClassVar[Mapping[int, Any]] = {}

    def __init__(self, chat: bool = False, capitals: bool = True) -> None:
        self.chat_template = "template" if chat else None
        self.capitals = capitals

    def __call__(self, texts: str | list[str], add_special_tokens: bool) -> dict[str, Any]:
        assert not add_special_tokens
        one = [ord(c) for c in texts] if isinstance(texts, str) else [[ord(c) for c in t] for t in texts]
        return {"input_ids": one}

    def decode(self, ids: Any, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(chr(i) for i in ids if i and (self.capitals or chr(i) != "<"))

    def apply_chat_template(
        self, messages: list[list[dict[str, str]]], tokenize: bool, add_generation_prompt: bool
    ) -> list[str]:
        assert not tokenize
        assert add_generation_prompt
        assert {m["role"] for chat in messages for m in chat} == {"user"}
        return [f"«{message['content']}»" for [message] in messages]


def text(ids: Any) -> str:
    return "".join(chr(i) for i in ids)


def test_a_prompt_that_is_too_long_loses_its_history_first_and_then_its_start() -> None:
    whole = render(TAGGED, context(3))
    bare = render(TAGGED, context(3), shorten=True)
    assert "did" not in bare.replace("you did", "")
    for limit, expected, cut in [(len(whole), whole, False), (len(whole) - 1, bare, True), (40, bare[-40:], True)]:
        settings = PromptSettings(layout="full", style="action_only", max_prompt_tokens=limit)
        [(ids, was_cut)] = encode_prompts(settings, Letters(), [context(3)])
        assert ids.dtype == np.int32
        assert (text(ids), was_cut) == (expected, cut)


@pytest.mark.parametrize(("spare", "cut"), [(0, False), (-1, True)])
def test_a_prompt_of_too_many_characters_loses_its_history_whatever_its_tokens(spare: int, cut: bool) -> None:
    """The field's rule on WebShop: beyond 13,000 characters the template without history is used."""
    whole, first = render(TAGGED, context(3)), render(TAGGED, context(0))
    settings = PromptSettings(
        layout="full", style="action_only", max_prompt_tokens=10_000, max_prompt_characters=len(whole) + spare
    )
    [(ids, was_cut)] = encode_prompts(settings, Letters(), [context(3)])
    assert (text(ids), was_cut) == (render(TAGGED, context(3), shorten=cut), cut)
    narrow = PromptSettings(layout="full", style="action_only", max_prompt_tokens=10_000, max_prompt_characters=9)
    assert [(text(ids), was_cut) for ids, was_cut in encode_prompts(narrow, Letters(), [context(0)])] == [(first, False)]


def test_a_chat_template_makes_each_prompt_one_user_message() -> None:
    settings = PromptSettings(layout="full", style="action_only", max_prompt_tokens=10_000)
    [(ids, _), (other, _)] = encode_prompts(settings, Letters(chat=True), [context(0), context(1)])
    assert text(ids) == f"«{render(settings, context(0))}»"
    assert text(other) == f"«{render(settings, context(1))}»"


def test_an_imitation_target_is_the_response_with_one_end_token() -> None:
    settings = PromptSettings(layout="full", style="action_only", max_response_tokens=100)
    assert encode_target(settings, Letters(), "look").tolist() == [*map(ord, "<action>look</action>"), 0]


def test_an_imitation_target_that_the_tokenizer_garbles_is_refused() -> None:
    settings = PromptSettings(layout="full", style="action_only", max_response_tokens=100)
    with pytest.raises(ValueError, match=r"prompt\.layout=full prompt\.style=action_only .*'look'"):
        encode_target(settings, Letters(capitals=False), "look")


def test_an_imitation_target_beyond_the_response_limit_is_refused() -> None:
    with pytest.raises(ValueError, match=r"'look' has 22 tokens: raise prompt\.max_response_tokens"):
        encode_target(PromptSettings(layout="full", style="action_only", max_response_tokens=21), Letters(), "look")
