"""The rule by which held-out tasks become a frozen panel."""

from __future__ import annotations

import hashlib
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.panels import freeze_panel
from creditlab.environments.protocol import Panel, Task


def tasks(count: int) -> list[Task]:
    return [Task(str(index), "family", "goal", payload=f"contents {index}") for index in range(count)]


def freeze(held_out: list[Task], episodes: int, seed: int) -> Panel:
    return freeze_panel("toy", held_out, lambda task: str(task.payload), episodes, seed)


@settings(deadline=None, max_examples=60)
@given(count=st.integers(1, 40), episodes=st.integers(1, 90), seed=st.integers(0, 2**32))
def test_every_task_is_met_equally_often_and_no_episode_twice(count: int, episodes: int, seed: int) -> None:
    panel = freeze(tasks(count), episodes, seed)
    met = Counter(task.id for task in panel.tasks)
    assert panel.name == f"toy-{episodes}"
    assert len(panel.seeds) == sum(met.values()) == episodes
    assert len(met) == min(count, episodes)
    assert max(met.values()) - min(met.values()) <= 1
    assert len(set(zip((task.id for task in panel.tasks), panel.seeds, strict=True))) == episodes
    assert panel == freeze(tasks(count), episodes, seed)


def test_the_hash_covers_contents_order_and_seeds() -> None:
    panel = freeze(tasks(9), 4, 3)
    lines = [f"{task.payload} {seed}\n" for task, seed in zip(panel.tasks, panel.seeds, strict=True)]
    assert panel.hash == hashlib.sha256("".join(lines).encode()).hexdigest()
    assert panel.hash != hashlib.sha256("".join(reversed(lines)).encode()).hexdigest()
    assert len({panel.hash, freeze(tasks(9), 4, 4).hash, freeze(tasks(8), 4, 3).hash, freeze(tasks(9), 5, 3).hash}) == 4


def test_more_tasks_than_episodes_are_drawn_not_taken_from_the_front() -> None:
    drawn = {task.id for seed in range(40) for task in freeze(tasks(10), 3, seed).tasks}
    assert drawn == {task.id for task in tasks(10)}


def test_a_panel_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one episode, not 0"):
        freeze(tasks(3), 0, 0)
    with pytest.raises(ValueError, match="toy holds out no task"):
        freeze([], 3, 0)
