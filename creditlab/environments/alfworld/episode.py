"""One running ALFWorld episode: engine and tracker side by side; `remote.py` plays on the real engine."""

from __future__ import annotations

from typing import Any

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.engine import Engine
from creditlab.environments.alfworld.problem import Game
from creditlab.environments.alfworld.views import TaskInfo, Tracker
from creditlab.environments.protocol import Task
from creditlab.rollouts import Transition, View

REWARD = 10.0
"""Reward of a solved task; every other reward is 0."""
_BANNER = "-= Welcome"
_TASK = "Your task is to: "


def policy_text(intro: str) -> str:
    """The intro without banner and task sentence; the policy reads the task as its goal."""
    return "\n\n".join(part for part in intro.split("\n\n") if not part.startswith((_BANNER, _TASK)))


def canonical(action: str) -> str:
    """The form in which a command is executed and compared: lower case, single spaces."""
    return " ".join(action.lower().split())


def task_info(game: Game) -> TaskInfo:
    """What the game asks for, in the words of the texts."""
    return TaskInfo(game.family, game.target_type, game.receptacle_type, game.lamp_type)


class PlayedGame:
    """What episodes of any engine share: from commands and their feedback to states and what the policy reads."""

    def __init__(self, task: Task, tracker: Tracker, hidden: frozenset[str]) -> None:
        self._task = task
        self._tracker = tracker
        self._hidden = hidden
        self._fresh = tracker.snapshot()

    @property
    def task(self) -> Task:
        """The task that is played."""
        return self._task

    @property
    def location(self) -> str:
        """Name of the receptacle last gone to, or the middle of the room."""
        return self._tracker.location

    def first(self, intro: str, admissible: tuple[str, ...]) -> Transition:
        """The first state; reward 0."""
        self._tracker.restore(self._fresh)
        state = self._tracker.start(intro, admissible)
        return Transition(self._view(policy_text(intro), admissible), state)

    def after(self, command: str, feedback: str, admissible: tuple[str, ...], *, won: bool, effective: bool) -> Transition:
        """The state after a command in its canonical form."""
        state = self._tracker.update(command, feedback, admissible, success=won)
        return Transition(
            view=self._view(feedback, admissible),
            state=state,
            reward=REWARD if won else 0.0,
            done=won,
            success=won,
            score=float(won),
            effective=effective,
            action_key=command,
        )

    def _view(self, observation: str, admissible: tuple[str, ...]) -> View:
        shown = tuple(command for command in admissible if command.partition(" ")[0] not in self._hidden)
        return View(observation, shown, self._tracker.status)


class AlfworldEpisode(PlayedGame):
    """Plays one game. A command is executed in its canonical form; the policy sees the commands that are not hidden."""

    def __init__(self, task: Task, game: Game, tracker: Tracker, hidden: frozenset[str], grammar: GrammarName) -> None:
        super().__init__(task, tracker, hidden)
        self.game = game
        self.engine = Engine(game, grammar)

    def start(self) -> Transition:
        """The first state; reward 0."""
        intro = self.engine.reset()
        return self.first(intro, self.engine.admissible)

    def step(self, action: str) -> Transition:
        """Plays one command; one that is not admissible changes nothing but the turn."""
        command, engine = canonical(action), self.engine
        feedback = engine.step(command)
        return self.after(command, feedback, engine.admissible, won=engine.won, effective=engine.effective)

    def snapshot(self) -> Any:
        """An opaque copy of the whole state, valid for episodes of the same task."""
        return self.engine.snapshot(), self._tracker.snapshot()

    def restore(self, snapshot: Any) -> None:
        """Continues from a snapshot."""
        engine, tracker = snapshot
        self.engine.restore(engine)
        self._tracker.restore(tracker)
