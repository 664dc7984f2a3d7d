"""Plays an ALFRED problem with the texts, admissible commands and goal test of ALFWorld's own engine.

The state is one immutable value, so a snapshot is free and a command yields the next state. The admissible commands are
built once per state, and a command is executed exactly when it is among them, compared as a string.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from creditlab.environments.alfworld.commands import (
    GRAMMARS,
    NOTHING_HAPPENS,
    WELCOME,
    Command,
    GrammarName,
    indefinite,
    listing,
)
from creditlab.environments.alfworld.goal import PROCESSES, Process
from creditlab.environments.alfworld.problem import FLAGS, Game

_PROCESSES = tuple(PROCESSES.values())
_EFFECTS = {process.verb: process.flag for process in _PROCESSES}
_UNDOES = {"ishot": "iscool", "iscool": "ishot"}
_KNIVES = frozenset({"knife", "butterknife"})


class State(NamedTuple):
    """Everything that changes in a game; immutable, comparable and hashable."""

    location: str
    held: str | None
    contents: tuple[tuple[str, ...], ...]
    """The objects in each receptacle, sorted; aligned with `Game.receptacles`."""
    opened: frozenset[str]
    flags: frozenset[tuple[str, str]]
    """Pairs (flag, object)."""
    places: frozenset[tuple[str, str]]
    """Pairs (object, location)."""
    taken: frozenset[tuple[str, str]]
    """Pairs (object, receptacle) it was taken from and not put back to; `look` lists such objects as lying beside."""


class Engine:
    """One episode of a game; starts in the initial state."""

    def __init__(self, game: Game, grammar: GrammarName = "0.4") -> None:
        self.game = game
        self._state: State
        self._won: bool
        self._effective: bool
        self._last: Command | None
        self._commands: dict[str, Command] | None
        self._sorted: tuple[str, ...] | None
        self.grammar = GRAMMARS[grammar]
        self._going = {
            f"go to {game.names[receptacle]}": Command("go", receptacle=receptacle) for receptacle in game.receptacles
        }
        self.reset()

    def reset(self) -> str:
        """Returns to the initial state; the introduction with the task sentence."""
        game = self.game
        self._enter(
            State(
                location=game.start,
                held=game.initial_held,
                contents=game.initial_contents,
                opened=game.initial_opened,
                flags=game.initial_flags,
                places=game.initial_places,
                taken=frozenset(),
            )
        )
        self._effective, self._last = True, None
        if game.receptacles_at(game.start):
            scene = self._look()
        else:
            everything = indefinite([game.names[receptacle] for receptacle in game.receptacles])
            scene = f"You are in the middle of a room. Looking quickly around you, you see {everything}."
        return f"{WELCOME}\n\n{scene}\n\nYour task is to: {game.task}."

    def step(self, command: str) -> str:
        """Executes a command and returns its feedback; an inadmissible one changes nothing."""
        parsed = self._available().get(command.strip())
        self._effective, self._last = parsed is not None, parsed
        if parsed is None:
            return NOTHING_HAPPENS
        return self._execute(parsed)

    @property
    def admissible(self) -> tuple[str, ...]:
        """The commands that would be executed now, sorted, with look, inventory and, where the grammar has it, help."""
        if self._sorted is None:
            self._sorted = tuple(sorted(self._available()))
        return self._sorted

    @property
    def won(self) -> bool:
        """Whether the goal holds in the present state."""
        return self._won

    @property
    def effective(self) -> bool:
        """Whether the last command was admissible; True at the start and after `restore`."""
        return self._effective

    @property
    def last(self) -> Command | None:
        """The last command taken apart; None at the start, after `restore` and when nothing happened."""
        return self._last

    @property
    def location(self) -> str:
        """Where the agent is."""
        return self._state.location

    @property
    def held(self) -> str | None:
        """The object in hand."""
        return self._state.held

    @property
    def here(self) -> tuple[str, ...]:
        """The receptacles within reach, sorted."""
        return self.game.receptacles_at(self._state.location)

    def contents(self, receptacle: str) -> tuple[str, ...]:
        """The objects in or on a receptacle, sorted, whether it is open or not."""
        return self._state.contents[self.game.index[receptacle]]

    def is_open(self, receptacle: str) -> bool:
        """Whether the inside can be reached: it is open, or needs no opening."""
        return receptacle in self._state.opened or receptacle not in self.game.openable

    def happens_at(self, process: Process, receptacle: str) -> bool:
        """Whether a held object can be cleaned, heated or cooled at a receptacle."""
        kind = self.game.receptacle_types.get(receptacle)
        return kind in self.grammar.cleans if process.verb == "clean" else kind == process.appliance

    @property
    def flags(self) -> Mapping[str, frozenset[str]]:
        """The objects that are isclean, ishot, iscool, istoggled, issliced."""
        groups: dict[str, set[str]] = {flag: set() for flag in FLAGS}
        for flag, item in self._state.flags:
            groups[flag].add(item)
        return {flag: frozenset(items) for flag, items in groups.items()}

    def has(self, item: str, flag: str) -> bool:
        """Whether one of `problem.FLAGS` holds for an object."""
        return (flag, item) in self._state.flags

    def snapshot(self) -> State:
        """The present state, an immutable value."""
        return self._state

    def restore(self, snapshot: State) -> None:
        """Continues from a snapshot taken in an episode of the same game."""
        if len(snapshot.contents) != len(self.game.receptacles):
            raise ValueError(f"{self.game.name}: the snapshot belongs to another game")
        self._enter(snapshot)
        self._effective, self._last = True, None

    def _enter(self, state: State) -> None:
        self._state = state
        self._commands = self._sorted = None
        self._won = self._satisfied()

    def _satisfied(self) -> bool:
        game, state = self.game, self._state
        process = game.goal.process
        if game.lamp_type is not None:
            return state.held in game.targets and any(
                ("istoggled", item) in state.flags
                for receptacle in self.here
                for item in self.contents(receptacle)
                if item in game.lamps
            )
        for receptacle in game.goal_receptacles:
            contents = state.contents[game.index[receptacle]]
            if game.targets.isdisjoint(contents):
                continue
            placed = [item for item in contents if item in game.targets]
            if process is not None:
                placed = [item for item in placed if (process.flag, item) in state.flags]
            if len(placed) >= game.required:
                return True
        return False

    def _available(self) -> dict[str, Command]:
        """The admissible commands, text to command."""
        if self._commands is None:
            self._commands = self._build_commands()
        return self._commands

    def _build_commands(self) -> dict[str, Command]:
        game, state, names = self.game, self._state, self.game.names
        commands = {"look": Command("look"), "inventory": Command("inventory")}
        if self.grammar.help is not None:
            commands["help"] = Command("help")
        commands.update(self._going)
        held = state.held
        for receptacle in self.here:
            place = names[receptacle]
            del commands[f"go to {place}"]
            commands[f"examine {place}"] = Command("examine", receptacle=receptacle)
            if receptacle in game.openable:
                verb = "close" if receptacle in state.opened else "open"
                commands[f"{verb} {place}"] = Command(verb, receptacle=receptacle)
            contents = self.contents(receptacle)
            # Using a lamp needs no open receptacle; taking and placing do.
            for item in contents:
                if item in game.toggleable:
                    commands[f"use {names[item]}"] = Command("use", item)
            if not self.is_open(receptacle):
                continue
            if held is None:
                for item in contents:
                    if item in game.pickupable:
                        commands[f"take {names[item]} from {place}"] = Command("take", item, receptacle)
            elif game.fits(held, receptacle):
                text = self.grammar.move.format(item=names[held], receptacle=place)
                commands[text] = Command("move", held, receptacle)
        if held is not None:
            commands[f"examine {names[held]}"] = Command("examine", held)
            self._add_processes(commands, held)
            self._add_slices(commands, held)
        return commands

    def _add_processes(self, commands: dict[str, Command], held: str) -> None:
        abilities = {"clean": self.game.cleanable, "heat": self.game.heatable, "cool": self.game.coolable}
        for receptacle in self.here:
            for process in _PROCESSES:
                if self.happens_at(process, receptacle) and held in abilities[process.verb]:
                    text = f"{process.verb} {self.game.names[held]} with {self.game.names[receptacle]}"
                    commands[text] = Command(process.verb, held, receptacle)

    def _add_slices(self, commands: dict[str, Command], held: str) -> None:
        game, state = self.game, self._state
        if game.object_types.get(held) not in _KNIVES:
            return
        for item in game.sliceable:
            if (item, state.location) in state.places:
                commands[f"slice {game.names[item]} with {game.names[held]}"] = Command("slice", item, tool=held)

    def _execute(self, command: Command) -> str:
        names, state = self.game.names, self._state
        match command:
            case Command("look"):
                return self._look()
            case Command("help"):
                return self.grammar.help or NOTHING_HAPPENS
            case Command("inventory"):
                return "You are not carrying anything." if state.held is None else f"You are carrying: a {names[state.held]}."
            case Command("examine", str(item)):
                return self._describe(item)
            case Command("examine", None, str(receptacle)):
                return self._inside(receptacle)
            case Command("go", None, str(receptacle)):
                location = self.game.receptacle_location[receptacle]
                self._enter(state._replace(location=location))
                arrived = self.grammar.arrived.format(receptacle=names[receptacle], location=names[location])
                return f"{arrived} {self._inside(receptacle)}"
            case Command("open", None, str(receptacle)):
                self._enter(state._replace(opened=state.opened | {receptacle}))
                return f"You open the {names[receptacle]}. {self._inside(receptacle)}"
            case Command("close", None, str(receptacle)):
                self._enter(state._replace(opened=state.opened - {receptacle}))
                return f"You close the {names[receptacle]}."
            case Command("take", str(item), str(receptacle)):
                return self._take(item, receptacle)
            case Command("move", str(item), str(receptacle)):
                return self._move(item, receptacle)
            case Command("use", str(item)):
                self._set_flag("istoggled", item)
                return f"You turn on the {names[item]}."
            case Command("slice", str(item), tool=str(knife)):
                self._set_flag("issliced", item)
                return f"You sliced the {names[item]} with the {names[knife]}."
            case Command(verb, str(item), str(receptacle)):
                self._set_flag(_EFFECTS[verb], item)
                return f"You {verb} the {names[item]} using the {names[receptacle]}."
        raise AssertionError(f"unreachable: {command}")

    def _take(self, item: str, receptacle: str) -> str:
        state = self._state
        remaining = tuple(other for other in self.contents(receptacle) if other != item)
        self._enter(
            state._replace(
                held=item,
                contents=self._with_contents(receptacle, remaining),
                places=state.places - {(item, state.location)},
                taken=state.taken | {(item, receptacle)},
            )
        )
        return f"You pick up the {self.game.names[item]} from the {self.game.names[receptacle]}."

    def _move(self, item: str, receptacle: str) -> str:
        state = self._state
        # An object that starts in two receptacles may come back to one it never left.
        content = tuple(sorted({*self.contents(receptacle), item}))
        self._enter(
            state._replace(
                held=None,
                contents=self._with_contents(receptacle, content),
                places=state.places | {(item, state.location)},
                taken=state.taken - {(item, receptacle)},
            )
        )
        return self.grammar.moved.format(item=self.game.names[item], receptacle=self.game.names[receptacle])

    def _with_contents(self, receptacle: str, content: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
        position = self.game.index[receptacle]
        return (*self._state.contents[:position], content, *self._state.contents[position + 1 :])

    def _set_flag(self, flag: str, item: str) -> None:
        flags = self._state.flags | {(flag, item)}
        if flag in _UNDOES:
            flags -= {(_UNDOES[flag], item)}
        self._enter(self._state._replace(flags=flags))

    def _inside(self, receptacle: str) -> str:
        name, content = self.game.names[receptacle], indefinite([self.game.names[o] for o in self.contents(receptacle)])
        if receptacle not in self.game.openable:
            return f"On the {name}, you see {content}."
        if receptacle in self._state.opened:
            return f"The {name} is open. In it, you see {content}."
        return f"The {name} is closed."

    def _look(self) -> str:
        names, here, state = self.game.names, self.here, self._state
        if not here:
            return "You are in the middle of a room. Looking quickly around you, you see nothing."
        # An object is listed once for every receptacle here that it was taken from.
        beside = [
            names[item]
            for item in sorted(item for item, place in state.places if place == state.location)
            for receptacle in here
            if (item, receptacle) in state.taken
        ]
        return f"You are facing the {listing([names[r] for r in here])}. Next to it, you see {indefinite(beside)}."

    def _describe(self, item: str) -> str:
        game, name, flags = self.game, self.game.names[item], self._state.flags
        if item in game.containers:
            content = indefinite([game.names[inner] for inner in game.container_contents.get(item, ())])
            return f"This is a normal {name}. In it, you see {content}."
        clean, hot, cool, sliced = ((flag, item) in flags for flag in ("isclean", "ishot", "iscool", "issliced"))
        words = [word for word, holds in (("hot", hot), ("cool", cool and not hot), ("clean", clean)) if holds]
        # Cold alone reads `cold`; with another property it reads `cool`.
        if words == ["cool"] and not sliced:
            words = ["cold"]
        adjectives = " ".join(filter(None, (" and ".join(words), "sliced" if sliced else "")))
        if words or (sliced and item in game.sliceable):
            return f"This is a {adjectives} {name}."
        if item in game.toggleable and ("istoggled", item) in flags:
            return f"This {name} is on."
        return f"There's nothing special about {name}."
