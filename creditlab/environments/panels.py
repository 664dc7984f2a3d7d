"""Frozen panels: which held-out tasks are evaluated, in what order and with which seeds; one rule for all environments."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from creditlab.environments.dice import Dice
from creditlab.environments.protocol import Panel, Task


def freeze_panel(name: str, tasks: Sequence[Task], digest: Callable[[Task], str], episodes: int, seed: int) -> Panel:
    """As many different tasks as there are (drawn, where there are more), then again with other seeds.

    `digest` is of a task's contents; with the seeds it makes the hash.
    Raises ValueError for fewer than one episode, or without a task.
    """
    if episodes < 1:
        raise ValueError(f"a panel needs at least one episode, not {episodes}")
    if not tasks:
        raise ValueError(f"{name} holds out no task for a panel")
    dice = Dice(seed, len(tasks))
    order = sorted(range(len(tasks)), key=lambda _: dice.below(1 << 40)) if len(tasks) > episodes else range(len(tasks))
    chosen = [tasks[order[i % len(order)]] for i in range(episodes)]
    seeds = tuple(dice.below(1 << 31) for _ in chosen)
    lines = (f"{digest(task)} {value}\n" for task, value in zip(chosen, seeds, strict=True))
    return Panel(f"{name}-{episodes}", tuple(chosen), seeds, hashlib.sha256("".join(lines).encode()).hexdigest())
