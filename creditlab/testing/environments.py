"""The check that every environment must pass, first-party or not.

def test_conformance():
    check_environment(MyEnvironment())
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np

from creditlab.environments.protocol import Environment, Episode, Task
from creditlab.rollouts import State, Transition

EPISODES = 16
"""Length of the panels that are looked at."""
NONSENSE = ("", "no such command")
"""What no environment takes for a command."""


@dataclass(frozen=True)
class Played:
    """Commands and what came of them, the first state included: one transition more than commands."""

    task: Task
    commands: tuple[str, ...]
    transitions: tuple[Transition, ...]


def check_environment(
    env: Environment, *, tasks: int = 4, solved: float = 1.0, idle: Sequence[str] = (), seed: int = 0
) -> None:
    """Raises AssertionError where an environment breaks the protocol; plays a few training and panel tasks.

    `env` is a component, a frozen dataclass; copies of it stand for other runs. `tasks` is how many tasks of each of the two
    kinds are played, `solved` the share of them that the expert must solve within the horizon, `idle` commands that may be
    listed although they do nothing.
    """
    assert is_dataclass(env), f"{type(env).__name__} is not a dataclass, as components are"
    assert env.horizon >= 1, f"horizon is {env.horizon}"
    check_panel(env)
    check_facts(env)
    chosen = _chosen(env, tasks)
    rng = np.random.default_rng(seed)
    perfect = [play(env, task, rng, wander=0.0) for task in chosen]
    share = sum(played.transitions[-1].success for played in perfect) / len(perfect)
    assert share >= solved, f"the expert solved {share:.0%} of the tasks within the horizon of {env.horizon}"
    wandered = [play(env, task, rng, wander=0.4) for task in chosen]
    for played in (*perfect, *wandered):
        check_transitions(env, played, idle)
        check_inadmissible(env, played, rng)
    check_replays(env, wandered)
    check_words(env, [*perfect, *wandered])
    env.close()
    assert env.episode(chosen[0]).start() == wandered[0].transitions[0], "an environment cannot be used again after close()"
    env.close()


def check_panel(env: Environment) -> None:
    """Panels are frozen, hashed, of the length asked for, and hold no training task."""
    panel = env.panel(EPISODES, 5)
    assert (len(panel.tasks), len(panel.seeds)) == (EPISODES, EPISODES), f"a panel of {len(panel.tasks)} tasks"
    assert panel == _copy(env).panel(EPISODES, 5), "two runs get different panels"
    others = {_copy(env).panel(EPISODES, 6).hash, env.panel(EPISODES - 1, 5).hash}
    assert panel.hash not in others, "the panel's hash does not tell panels apart"
    training = env.train_tasks()
    names = [task.id for task in training]
    assert names, "there are no training tasks"
    assert len(set(names)) == len(names), "training tasks share an id"
    for task in {task.id: task for task in panel.tasks}.values():
        twin = next((t for t in training if t.id == task.id or (t.payload is not None and _same_contents(t, task))), None)
        assert twin is None, f"task {task.id!r} of the panel is training task {twin.id!r}" if twin else ""
    try:
        env.panel(0, 5)
    except ValueError:
        return
    raise AssertionError("a panel without episodes is no ValueError")


def check_facts(env: Environment) -> None:
    """`describe` is plain data, and the same whenever a run is resumed."""
    facts = env.describe()
    assert json.loads(json.dumps(facts)) == json.loads(json.dumps(_copy(env).describe())), "describe() differs between runs"


def check_transitions(env: Environment, played: Played, idle: Sequence[str] = ()) -> None:
    """Rewards and scores are in their ranges, views and rubric are complete, and what is listed can be done."""
    first = played.transitions[0]
    assert first.reward == 0, f"{_where(played, 0)}: the first state has a reward of {first.reward}"
    assert not first.done, f"{_where(played, 0)}: done before the first command"
    for turn, now in enumerate(played.transitions):
        where = _where(played, turn)
        assert np.isfinite(now.reward), f"{where}: reward {now.reward}"
        assert 0 <= now.score <= 1, f"{where}: score {now.score} is not in [0, 1]"
        assert not now.success or (now.done and now.score == 1), f"{where}: a success that is not done, or of a score below 1"
        assert now.view.observation.strip(), f"{where}: no observation"
        if turn:
            command = played.commands[turn - 1]
            assert now.effective or command in idle, f"{where}: {command!r}, listed or the expert's, has no effect"
            assert now.action_key, f"{where}: a command without an action_key"
        if not now.done:
            actions = now.view.actions
            assert actions, f"{where}: no command is listed"
            assert len(set(actions)) == len(actions), f"{where}: a command is listed twice"
        check_state(env, now.state, first.state, where)


def check_state(env: Environment, state: State, first: State, where: str) -> None:
    """Every state has the same views and criteria as the first one, and a rubric where the environment provides it."""
    assert "observation" in state.views, f"{where}: no view 'observation'"
    assert state.views.keys() == first.views.keys(), f"{where}: views are {sorted(state.views)}, were {sorted(first.views)}"
    assert env.views is None or set(env.views) == state.views.keys(), f"{where}: `views` and the states disagree"
    assert state.rubric.keys() == first.rubric.keys(), f"{where}: the criteria of the rubric have changed"
    assert bool(state.rubric) == ("rubric" in env.provides), f"{where}: `provides` and the states disagree about a rubric"
    assert list(state.frontier) == sorted(state.frontier), f"{where}: the frontier is not sorted"


def check_inadmissible(env: Environment, played: Played, rng: np.random.Generator) -> None:
    """Slips and nonsense change nothing: what follows is what followed without them."""
    rehearsal, at = env.rehearsal(), int(rng.integers(len(played.commands)))
    episode = rehearsal.episode(played.task)
    _replay(episode, played.commands[:at])
    for command in (rehearsal.slip(episode, rng), *NONSENSE):
        answer = episode.step(command)
        assert not answer.effective, f"{_where(played, at)}: the inadmissible {command!r} counts as effective"
        assert not answer.done, f"{_where(played, at)}: the inadmissible {command!r} ends the episode"
    for turn, command in enumerate(played.commands[at:], at + 1):
        now, then = episode.step(command), played.transitions[turn]
        same = _told(now) == _told(then)
        assert same, f"{_where(played, turn)}: an inadmissible command changed what follows"


def check_replays(env: Environment, played: Sequence[Played]) -> None:
    """The same commands give the same, in another run, beside other episodes, again, and from a snapshot."""
    copy = _copy(env)
    for one in played:
        episode = copy.episode(one.task)
        for attempt in ("another run", "a second start"):
            assert _replay(episode, one.commands) == list(one.transitions), f"{one.task.id!r} goes differently in {attempt}"
        _check_snapshot(copy, one)
    if env.width is None or env.width >= len(played):
        episodes = [(copy.episode(one.task), one) for one in played]
        for episode, one in episodes:
            assert episode.start() == one.transitions[0], f"{one.task.id!r} starts differently beside other episodes"
        for turn in range(max(len(one.commands) for one in played)):
            for episode, one in episodes:
                if turn < len(one.commands):
                    now = episode.step(one.commands[turn])
                    assert now == one.transitions[turn + 1], f"{_where(one, turn + 1)}: other episodes interfere"
    copy.close()


def check_words(env: Environment, played: Sequence[Played]) -> None:
    """The tiny model's tokenizer over `vocabulary` and `phrases` knows every word, and gives every command back."""
    from creditlab.policy.tiny import build_tokenizer  # loads torch

    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    views = [(one.task.goal, now.view) for one in played for now in one.transitions if not now.done]  # the end is not read
    commands = {command for _, view in views for command in view.actions} | {c for one in played for c in one.commands}
    for text in sorted({text for goal, view in views for text in (goal, view.observation, view.status)} | commands):
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.unk_token_id not in ids, f"vocabulary() lacks a word of {text!r}"
        assert text not in commands or tokenizer.decode(ids) == text.lower(), (
            f"the tokenizer gives the command {text!r} back as {tokenizer.decode(ids)!r}; phrases keep a text whole"
        )


def play(env: Environment, task: Task, rng: np.random.Generator, wander: float) -> Played:
    """The expert's way through a task, with a random listed command instead of its own at a share of the decisions."""
    rehearsal = env.rehearsal()
    episode, expert = rehearsal.episode(task), rehearsal.expert(task, rng)
    transitions, commands = [episode.start()], list[str]()
    while not transitions[-1].done and len(commands) < env.horizon:
        listed, command = transitions[-1].view.actions, expert.act(episode)
        commands.append(listed[int(rng.integers(len(listed)))] if listed and rng.random() < wander else command)
        transitions.append(episode.step(commands[-1]))
    return Played(task, tuple(commands), tuple(transitions))


def _check_snapshot(env: Environment, played: Played) -> None:
    half = len(played.commands) // 2
    episode, other = env.episode(played.task), env.episode(played.task)
    _replay(episode, played.commands[:half])
    snapshot = episode.snapshot()
    other.start()
    for restored, whose in ((None, "the snapshot's own episode"), (episode, "the same episode"), (other, "another episode")):
        if restored is not None:
            restored.restore(snapshot)
        rest = [(restored or episode).step(command) for command in played.commands[half:]]
        same = rest == list(played.transitions[half + 1 :])
        assert same, f"{played.task.id!r}: goes differently from a snapshot in {whose}"


def _replay(episode: Episode, commands: Sequence[str]) -> list[Transition]:
    return [episode.start(), *(episode.step(command) for command in commands)]


def _chosen(env: Environment, tasks: int) -> list[Task]:
    """Training tasks from all over their order, and different tasks of the panel."""
    training = env.train_tasks()
    spread = [training[index] for index in sorted({i * len(training) // tasks for i in range(tasks)})]
    return [*spread, *list({task.id: task for task in env.panel(EPISODES, 5).tasks}.values())[:tasks]]


def _copy(env: Any) -> Environment:
    """An environment with the same options that has done nothing yet."""
    copy: Environment = replace(env)
    return copy


def _same_contents(one: Task, other: Task) -> bool:
    return bool(one.goal == other.goal and one.payload == other.payload)


def _told(now: Transition) -> tuple[Any, ...]:
    """What must not depend on turns that changed nothing; views may count them."""
    state = now.state
    return now.view, now.reward, now.done, now.success, now.score, now.action_key, dict(state.rubric), state.frontier


def _where(played: Played, turn: int) -> str:
    return f"task {played.task.id!r}, after {turn} commands"
