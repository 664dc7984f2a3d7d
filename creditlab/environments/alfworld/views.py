"""What has happened in an episode, read off executed commands and feedback alone, and the state views made of it.

The tracker knows no engine: it follows commands of either grammar (`move O to R`, `put O in/on R`) and ignores those that
were answered with "Nothing happens.". Views are keys, compared byte by byte: `observation` (the raw text), `graph`
(GraphGPO's augmented key), `exact` and `coarse` (MCGPO, Table 5).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from creditlab.environments.alfworld.families import CLEAN, COOL, HEAT, LOOK, TWO
from creditlab.environments.alfworld.rubric import (
    ACQUIRED,
    IN_HAND,
    LIGHT,
    PLACED,
    PROCESSED,
    TEMPLATES,
    full_values,
)
from creditlab.environments.rubric import GOAL_PROGRESS, channel, frontier
from creditlab.rollouts import State

NO_EFFECT = "Nothing happens."
MIDDLE = "the middle of a room"
_STATE_OF = {"clean": "clean", "heat": "hot", "cool": "cool", "slice": "sliced"}
"""Verb to the state it gives an object."""
_UNDOES = {"hot": "cool", "cool": "hot"}
_PROCESS = {CLEAN: "clean", HEAT: "hot", COOL: "cool"}
"""Family to the state it asks for."""
_SEPARATOR = {
    "take": " from ",
    "move": " to ",
    "put": " in/on ",
    "clean": " with ",
    "heat": " with ",
    "cool": " with ",
    "slice": " with ",
}
_SWITCH = re.compile(r"This (.+?) is (on|off)\.")


@dataclass(frozen=True, slots=True)
class TaskInfo:
    """What a task asks for, in the words of the texts (`mug`, `desk`, `desklamp`)."""

    family: str
    target: str
    receptacle: str | None
    """Kind of receptacle the target goes to; none for look-at tasks."""
    lamp: str | None
    """Kind of lamp to look under; look-at tasks only."""

    @property
    def required(self) -> int:
        """How many target objects are asked for."""
        return 2 if self.family == TWO else 1


class Tracker:
    """Follows one episode and gives the state after every command."""

    def __init__(
        self, task: TaskInfo, horizon: int, *, budget_bins: int = 5, frontier_excludes_satisfied: bool = True
    ) -> None:
        self.task = task
        self.horizon = horizon
        self._bins = budget_bins
        self._excludes_satisfied = frontier_excludes_satisfied
        self._template = TEMPLATES[task.family]
        self._full = full_values(task.family, task.required)
        self.turn = 0
        self.location = MIDDLE
        self.held: str | None = None
        self._states: dict[str, frozenset[str]] = {}
        self._origin: dict[str, str] = {}
        self._put: dict[str, str] = {}
        self._acquired: frozenset[str] = frozenset()
        self._lamps: frozenset[str] = frozenset()
        self._ever: frozenset[str] = frozenset()

    @property
    def status(self) -> str:
        """Place and held object, as shown to the policy."""
        return f"at {self.location} holding {self._held_text()}"

    @property
    def processed(self) -> frozenset[str]:
        """Target objects in the state that the task asks for."""
        wanted = _PROCESS.get(self.task.family)
        return frozenset(name for name, states in self._states.items() if wanted in states and self._is_target(name))

    @property
    def placed(self) -> frozenset[str]:
        """Target objects now in a receptacle of the goal's kind, as far as the agent put them there."""
        goal = self.task.receptacle
        return frozenset(name for name, place in self._put.items() if _kind(place) == goal and self._is_target(name))

    def start(self, intro: str, admissible: Iterable[str]) -> State:
        """The first state."""
        return self._state(intro, admissible, solved=False)

    def update(self, command: str, feedback: str, admissible: Iterable[str], *, success: bool = False) -> State:
        """The state after an executed command; a command without effect only uses up a turn."""
        self.turn += 1
        if feedback.strip() != NO_EFFECT:
            self._apply(" ".join(command.split()), feedback)
        return self._state(feedback, admissible, solved=success)

    def snapshot(self) -> Any:
        """An opaque copy of what has been tracked."""
        return (
            self.turn,
            self.location,
            self.held,
            dict(self._states),
            dict(self._origin),
            dict(self._put),
            self._acquired,
            self._lamps,
            self._ever,
        )

    def restore(self, snapshot: Any) -> None:
        """Continues from a snapshot of the same task."""
        self.turn, self.location, self.held, states, origin, put, self._acquired, self._lamps, self._ever = snapshot
        self._states, self._origin, self._put = dict(states), dict(origin), dict(put)

    def _apply(self, command: str, feedback: str) -> None:
        verb, _, rest = command.partition(" ")
        if verb == "go" and rest.startswith("to "):
            self.location = rest.removeprefix("to ")
        elif verb == "use" and rest:
            self._switch(rest, on="turn off" not in feedback.lower())
        elif verb == "examine":
            for lamp, state in _SWITCH.findall(feedback):
                self._switch(lamp, on=state == "on")
        elif verb in _SEPARATOR:
            thing, separator, place = rest.partition(_SEPARATOR[verb])
            if separator:
                self._handle(verb, thing, place)

    def _handle(self, verb: str, thing: str, place: str) -> None:
        """Follows a command on an object and a receptacle or tool."""
        if verb == "take":
            self.held = thing
            self._origin.setdefault(thing, place)
            self._put.pop(thing, None)
            if self._is_target(thing):
                self._acquired |= {thing}
        elif verb in ("move", "put"):
            self.held = None
            self._put[thing] = place
        else:
            state = _STATE_OF[verb]
            self._states[thing] = (self._states.get(thing, frozenset()) | {state}) - {_UNDOES.get(state)}

    def _switch(self, lamp: str, *, on: bool) -> None:
        self._lamps = self._lamps | {lamp} if on else self._lamps - {lamp}

    def _is_target(self, name: str) -> bool:
        return _kind(name) == self.task.target

    def _light(self) -> bool:
        """Whether the light that the task is about is on; any lamp where it is about none."""
        return any(self.task.lamp in (None, _kind(lamp)) for lamp in self._lamps)

    def _held_text(self) -> str:
        if self.held is None:
            return "nothing"
        return " ".join([*sorted(self._states.get(self.held, ())), self.held])

    def _moved_text(self) -> str:
        """Objects that lie elsewhere than where they were found; one that is back is not listed, the world being the same."""
        return ", ".join(
            f"{name}: {self._origin.get(name, 'unknown')} -> {place}"
            for name, place in sorted(self._put.items())
            if self._origin.get(name) != place
        )

    def _budget_bin(self) -> int:
        """Remaining turns over the horizon in equal bins 1 … n, closed on the right."""
        remaining = max(self.horizon - self.turn, 0)
        return max(-(-self._bins * remaining // self.horizon), 1)

    def _values(self, placed: frozenset[str], processed: frozenset[str], light: bool) -> dict[str, int]:
        """The present value of every channel (Table 15)."""
        required, in_hand = self.task.required, self.held is not None and self._is_target(self.held)
        if self.task.family == LOOK:
            progress = in_hand + light
        elif self.task.family in _PROCESS:
            progress = bool(processed) + bool(placed) + bool(processed & placed)
        else:
            progress = min(required, len(placed))
        return {
            ACQUIRED: min(required, len(self._acquired)),
            IN_HAND: int(in_hand),
            PROCESSED: int(bool(processed)),
            PLACED: min(required, len(placed)),
            LIGHT: int(light),
            GOAL_PROGRESS: progress,
        }

    def _state(self, observation: str, admissible: Iterable[str], *, solved: bool) -> State:
        placed, processed, light = self.placed, self.processed, self._light()
        values = self._values(placed, processed, light)
        rubric = {name: channel(values[name], full) for name, full in self._full.items()}
        self._ever |= {name for name in rubric if values[name] > 0}
        opened = frontier(self._template, rubric, self._ever, solved=solved, excludes_satisfied=self._excludes_satisfied)
        commands = ",".join(sorted(admissible))
        views = {
            "observation": observation,
            "graph": f"{observation}\n{self.status}\nmoved {self._moved_text()}\n{commands}",
            "exact": _fields(
                task=self.task.family,
                at=self.location,
                held=self.held or "nothing",
                acquired=_names(self._acquired),
                processed=_names(processed),
                placed=_names(placed),
                light="on" if light else "off",
            ),
            "coarse": _fields(
                task=self.task.family,
                at=self.location,
                holding="no" if self.held is None else "yes",
                processed="yes" if processed else "no",
                placed=str(len(placed)),
                light="on" if light else "off",
                budget=str(self._budget_bin()),
            ),
        }
        return State(views, rubric, opened)


def _kind(name: str) -> str:
    """`mug` of `mug 2`."""
    return name.rpartition(" ")[0] or name


def _names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names))


def _fields(**fields: str) -> str:
    return " | ".join(f"{name}={value}" for name, value in fields.items())
