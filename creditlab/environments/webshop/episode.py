"""One running WebShop episode: a session of the shop, and what the policy reads of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from creditlab.environments.protocol import Task
from creditlab.environments.webshop.pages import RICH_SEPARATOR, SEPARATOR
from creditlab.environments.webshop.records import Goal, Score
from creditlab.environments.webshop.session import Page, Session, Shop, parse_action
from creditlab.environments.webshop.views import Tracker, after_instruction
from creditlab.rollouts import Transition, View

REWARD = 10.0
"""Reward of a purchase with the full score; every other reward is 0."""
SEARCH_PATTERN = "search[<your query>]"
"""How a search is listed among the actions."""


@dataclass(frozen=True)
class Reading:
    """How pages are put before the policy."""

    mode: Literal["text", "text_rich"]
    quoted: bool
    """Whether each part of a page stands in single quotes."""
    hidden: frozenset[str]
    """Labels that are not listed among the actions; they can be clicked all the same."""


class WebShopEpisode:
    """Plays one goal. The policy sees the page without the instruction, which it reads as its task."""

    def __init__(self, task: Task, goal: Goal, shop: Shop, tracker: Tracker, reading: Reading) -> None:
        self._task = task
        self._tracker = tracker
        self._reading = reading
        self.goal = goal
        self.session = Session(shop, goal)

    @property
    def task(self) -> Task:
        """The task that is played."""
        return self._task

    def start(self) -> Transition:
        """The first state; reward 0."""
        self._tracker.forget()
        return self._transition(self.session.reset())

    def step(self, action: str) -> Transition:
        """Plays one action; one that is malformed or names nothing to click changes nothing."""
        outcome = self.session.step(action)
        return self._transition(
            outcome.page, action_key=action_key(action), effective=outcome.effective, done=outcome.done, score=outcome.score
        )

    def snapshot(self) -> Any:
        """An opaque copy of the whole state, valid for episodes of the same task."""
        return self.session.snapshot(), self._tracker.snapshot()

    def restore(self, snapshot: Any) -> None:
        """Continues from a snapshot."""
        session, tracker = snapshot
        self.session.restore(session)
        self._tracker.restore(tracker)

    def _transition(
        self, page: Page, *, action_key: str = "", effective: bool = True, done: bool = False, score: Score | None = None
    ) -> Transition:
        reward = score.reward if score is not None else 0.0
        success = reward == 1.0
        text, separator = (page.text, SEPARATOR) if self._reading.mode == "text" else (self.session.rich(), RICH_SEPARATOR)
        shown = after_instruction(text, self.goal.instruction, separator)
        observation = separator.join(f"'{part}'" for part in shown.split(separator)) if self._reading.quoted else shown
        return Transition(
            view=View(observation, self._actions(page)),
            state=self._tracker.state(self.session, text, shown, score or self.session.preview(), solved=success),
            reward=REWARD if success else 0.0,
            done=done,
            success=success,
            score=reward,
            effective=effective,
            action_key=action_key,
        )

    def _actions(self, page: Page) -> tuple[str, ...]:
        shown = tuple(f"click[{label}]" for label in page.clickables if label not in self._reading.hidden)
        return (SEARCH_PATTERN, *shown) if page.has_search_bar else shown


def action_key(action: str) -> str:
    """The canonical form of an action: the argument is not case-sensitive, the name is."""
    name, argument = parse_action(action)
    return action if argument is None else f"{name}[{argument.lower()}]"
