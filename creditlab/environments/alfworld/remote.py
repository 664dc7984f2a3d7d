"""An ALFWorld episode on the real engine, which a worker process plays."""

from __future__ import annotations

from typing import Any

from creditlab.environments.alfworld.commands import GrammarName
from creditlab.environments.alfworld.episode import PlayedGame, canonical
from creditlab.environments.alfworld.gametext import GameText
from creditlab.environments.alfworld.views import Tracker
from creditlab.environments.pool import Worker, WorkerPool
from creditlab.environments.protocol import Task
from creditlab.rollouts import Transition

WORKER = "creditlab.environments.alfworld.worker"
"""The module that the pool's workers run."""


class RemoteEpisode(PlayedGame):
    """Plays one game in a worker, which it holds from `begin(None)` to `close`; a `TwoPhaseEpisode`.

    A worker that fails raises `WorkerError`, and the episode can only be closed or started anew.
    """

    def __init__(self, task: Task, tracker: Tracker, hidden: frozenset[str], grammar: GrammarName, pool: WorkerPool) -> None:
        super().__init__(task, tracker, hidden)
        self._grammar: GrammarName = grammar
        self._pool = pool
        self._worker: Worker | None = None
        self._command: str | None = None

    def begin(self, action: str | None) -> None:
        """Asks the worker for the first state (None) or to play a command; does not wait."""
        if action is None:
            self.close()  # a new beginning forgets whatever went on before
            self._worker, self._command = self._pool.acquire(), None
            game: GameText = self.task.payload
            self._held().send({"task": game.task, "problem": game.problem, "grammar": self._grammar})
        else:
            self._command = canonical(action)
            self._held().send({"command": self._command})

    def result(self) -> Transition:
        """Waits for what `begin` asked for."""
        answer = self._held().receive()
        feedback, admissible = answer["feedback"], tuple(answer["admissible"])
        if self._command is None:
            return self.first(feedback, admissible)
        return self.after(self._command, feedback, admissible, won=answer["won"], effective=answer["effective"])

    def close(self) -> None:
        """Gives the worker back."""
        if self._worker is not None:
            self._pool.release(self._worker)
            self._worker = None

    def start(self) -> Transition:
        """The first state; reward 0."""
        self.begin(None)
        return self.result()

    def step(self, action: str) -> Transition:
        """Plays one command; one that is not admissible changes nothing but the turn."""
        self.begin(action)
        return self.result()

    def snapshot(self) -> Any:
        """Raises ValueError: the real engine cannot be copied."""
        raise ValueError("env.engine=textworld cannot copy the state of an episode; use env.engine=fast")

    def restore(self, snapshot: Any) -> None:
        """Raises ValueError: the real engine cannot be set to a state."""
        self.snapshot()

    def _held(self) -> Worker:
        if self._worker is None:
            raise ValueError(f"task {self.task.id!r}: the episode is closed; start it first")
        return self._worker
