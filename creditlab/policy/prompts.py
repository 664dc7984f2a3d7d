"""Prompts and projection: what the policy reads before a decision, and how an action is read from its answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from creditlab.policy.settings import PromptSettings
from creditlab.rollouts import View

CJK = re.compile("[\u4e00-\u9fff]")
STOP_STRING = "</action>"
BLANK = re.compile("<your [^<>]+>")
"""What a listed command leaves to the policy's own words: `search[<your query>]`."""


@dataclass(frozen=True, slots=True)
class Context:
    """What a prompt is made of, beside its settings."""

    role: str
    goal: str
    view: View
    history: Sequence[tuple[str, str]]
    """All (observation, action) pairs so far, oldest first."""
    horizon: int


@dataclass(frozen=True, slots=True)
class Projection:
    """An action read from a response."""

    action: str
    valid: bool
    """Whether the response had the demanded format."""
    parsed: bool
    """Whether an action was found where it belongs."""


def render(settings: PromptSettings, context: Context, shorten: bool = False) -> str:
    """The prompt before a decision; `shorten` leaves out everything past."""
    taken = len(context.history)
    shown = 0 if shorten else min(settings.history, taken)
    listed = 0 if shorten else min(settings.past_actions, taken - shown)
    pairs = context.history[taken - shown :]
    earlier = [action for _, action in context.history[taken - shown - listed : taken - shown]]
    if settings.layout == "compact":
        return _compact(context, pairs, earlier)
    return _full(settings, context, pairs, earlier)


def project(settings: PromptSettings, response: str, complete: bool = True) -> Projection:
    """Reads the action from a response; `complete` is False when the response was cut at its length limit.

    Tagged styles take the text between the first `<action>` and the first `</action>`, lower-cased and stripped. The bare
    style of the compact layout takes the whole response. Only format counts for `valid`, never admissibility.
    """
    text = response.lower()
    if settings.layout == "compact" and settings.style == "action_only":
        action = text.strip()
        return Projection(action, bool(action) and complete and not CJK.search(text), bool(action) and complete)
    start = text.find("<action>")
    end = text.find(STOP_STRING, start) if start >= 0 else -1
    if end < 0:
        fallback = text[max(0, len(text) - settings.fallback_characters) :].strip()
        return Projection(fallback, valid=False, parsed=False)
    action = text[start + len("<action>") : end].strip()
    thought = settings.style == "action_only" or ("<think>" in text and "</think>" in text)
    return Projection(action, bool(action) and thought and not CJK.search(text), bool(action))


def response_for(settings: PromptSettings, action: str) -> str:
    """The response that projects to an action, as imitation targets need it."""
    if settings.layout == "compact" and settings.style == "action_only":
        return action
    thought = "<think>The next step towards the goal is clear.</think>\n" if settings.style == "think_action" else ""
    return f"{thought}<action>{action}</action>"


def stop_strings(settings: PromptSettings) -> tuple[str, ...]:
    """Strings that end a response beside the end-of-sequence token."""
    return () if settings.layout == "compact" and settings.style == "action_only" else (STOP_STRING,)


def _compact(context: Context, pairs: Sequence[tuple[str, str]], earlier: Sequence[str]) -> str:
    """Labelled fields; the goal stands first and again last, next to the place where the answer starts."""
    view = context.view
    did = f"| > {' '.join(earlier)} " if earlier else ""
    past = "".join(f"| {observation} > {action} " for observation, action in pairs)
    actions = f"| can {' '.join(view.actions)} " if view.actions else ""
    status = f" {view.status}" if view.status else ""
    return f"| task {context.goal} {did}{past}{actions}| now {view.observation}{status} | task {context.goal} act"


def _full(settings: PromptSettings, context: Context, pairs: Sequence[tuple[str, str]], earlier: Sequence[str]) -> str:
    """An instruction in sentences, with numbered history."""
    taken = len(context.history)
    lines = [context.role, f"Your goal: {context.goal}"]
    if taken:
        lines.append(f"You have taken {taken} of at most {context.horizon} steps.")
    if earlier:
        lines.append(f"Your earlier commands: {', '.join(earlier)}.")
    if pairs:
        first = taken - len(pairs) + 1
        lines.append(f"The last {len(pairs)} observations and what you did:")
        lines += [f"[{first + i}] saw: {o!r}, did: {a!r}" for i, (o, a) in enumerate(pairs)]
    lines.append(f"Step {taken + 1}. You now see: {context.view.observation}")
    if context.view.status:
        lines.append(f"Status: {context.view.status}")
    lines.append("Commands you can give now:\n" + "\n".join(f"- {a}" for a in context.view.actions))
    command = f"exactly one of the commands above{_blanks(context.view.actions)} between <action> and </action>"
    if settings.style == "think_action":
        lines.append(f"First reason about the situation between <think> and </think>. Then give {command}.")
    else:
        lines.append(f"Answer with {command} and nothing else.")
    return "\n".join(lines)


def _blanks(actions: Sequence[str]) -> str:
    """What the policy has to put in place of the blanks in the listed commands; empty where there are none."""
    blanks = dict.fromkeys(blank for action in actions for blank in BLANK.findall(action))
    return f", with words of your own in place of {' and '.join(blanks)}," if blanks else ""
