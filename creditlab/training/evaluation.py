"""Evaluation on a frozen panel, and the statistics of episodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from creditlab.environments.protocol import Environment, Panel, Task
from creditlab.learner.distributed import gather_texts, rank, total, world_size
from creditlab.policy.policy import Policy
from creditlab.rollouts import StopReason, Trajectory
from creditlab.tracking import metrics as m
from creditlab.training.collect import Assignment, Timing, play
from creditlab.training.failure import agreed


def evaluate(
    env: Environment,
    policy: Policy,
    panel: Panel,
    temperature: float,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> dict[str, float]:
    """Metrics of one pass over the panel, the same on every rank (`play_panel`)."""
    return panel_metrics(panel, [play_panel(env, policy, panel, temperature, 0, progress, report)])


def expected_informative(success: float, group_size: int) -> float:
    """Probability that sibling outcomes differ, 1 − p^G − (1−p)^G, where every task is solved at the mean rate p.

    An upper bound for tasks of unequal difficulty: what is easy or hopeless is so for all siblings.
    """
    return 1.0 - success**group_size - (1.0 - success) ** group_size


def play_panel(
    env: Environment,
    policy: Policy,
    panel: Panel,
    temperature: float,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
    report: Callable[[str], None] | None = None,
) -> list[Trajectory]:
    """This rank's share of one pass over the panel; every rank has to call it.

    Seed 0 samples as every run does, another one with other numbers. Episodes that fail count in `val/errors` alone, and
    `report` is told of the first one of any rank.
    """
    assignments = [
        Assignment(
            f"{panel.name}-{i}", panel.tasks[i], 0, ("panel", panel.seeds[i], panel.tasks[i].id, *((seed,) if seed else ()))
        )
        for i in _share(panel)
    ]
    with agreed():
        trajectories = play(env, policy, assignments, temperature, Timing(), progress)
    failed = [t.error for t in trajectories if t.error]
    all_failed = int(total(np.array([len(failed)], np.float64))[0])
    first = next((text for text in gather_texts(failed[0] if failed else "") if text), None)
    with agreed():
        if first and report:
            report(f"{all_failed} episodes of the evaluation failed, first: {first}")
    return trajectories


def panel_metrics(panel: Panel, passes: Sequence[Sequence[Trajectory]]) -> dict[str, float]:
    """Metrics over all episodes of one or more passes over the panel, of all ranks together."""
    own = [panel.tasks[i] for i in _share(panel)]
    return _panel_metrics([t for played in passes for t in played], own * len(passes), panel.tasks)


def _share(panel: Panel) -> range:
    """Positions of the panel's episodes that this rank plays."""
    return range(rank(), len(panel.tasks), world_size())


def _panel_metrics(trajectories: Sequence[Trajectory], own: Sequence[Task], panel: Sequence[Task]) -> dict[str, float]:
    """Metrics over the episodes of all ranks; `own` are the tasks of this rank's trajectories, `panel` those of all."""
    names = sorted({task.family for task in panel})
    kept = [(t, task.family) for t, task in zip(trajectories, own, strict=True) if t.stop is not StopReason.ERROR]
    turns = sum(len(t.steps) for t, _ in kept)
    idle = sum(not s.effective for t, _ in kept for s in t.steps)
    invalid = sum(not s.valid for t, _ in kept for s in t.steps)
    counts = [len(kept), sum(t.success for t, _ in kept), sum(t.score for t, _ in kept), turns, idle, invalid]
    by_family = [n for name in names for n in _family_counts(kept, name)]
    errors = len(trajectories) - len(kept)
    sums = total(np.array([*counts, errors, *by_family], dtype=np.float64))
    episodes, success = sums[0], sums[1]
    metrics = {
        m.VAL_SUCCESS: success / max(episodes, 1),
        m.VAL_SUCCESS_SE: _standard_error(trajectories, own, panel),
        "val/score": sums[2] / max(episodes, 1),
        m.VAL_TURNS: sums[3] / max(episodes, 1),
        m.VAL_INEFFECTIVE: sums[4] / max(sums[3], 1),
        "val/invalid_rate": sums[5] / max(sums[3], 1),
        "val/episodes": episodes,
        "val/errors": sums[6],
    }
    for index, name in enumerate(names):
        family_episodes, family_success = sums[7 + 2 * index : 9 + 2 * index]
        metrics[m.family_success(name)] = family_success / max(family_episodes, 1)
    return {key: float(value) for key, value in metrics.items()}


def _standard_error(trajectories: Sequence[Trajectory], own: Sequence[Task], panel: Sequence[Task]) -> float:
    """Standard error of the success rate, episodes of one task taken together, for they are no independent draws.

    With one episode per task it is √(p(1−p)/n).
    """
    position = {task_id: i for i, task_id in enumerate(dict.fromkeys(task.id for task in panel))}
    counts = np.zeros((2, len(position)))
    for trajectory, task in zip(trajectories, own, strict=True):
        if trajectory.stop is not StopReason.ERROR:
            counts[:, position[task.id]] += (1, trajectory.success)
    episodes, solved = total(counts)
    share = solved.sum() / max(episodes.sum(), 1)
    return float(np.sqrt(((solved - share * episodes) ** 2).sum()) / max(episodes.sum(), 1))


def _family_counts(kept: Sequence[tuple[Trajectory, str]], name: str) -> tuple[int, int]:
    family = [t for t, f in kept if f == name]
    return len(family), sum(t.success for t in family)


def episode_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Statistics of an update's training episodes over all ranks; error trajectories are counted, never averaged."""
    kept = [t for t in trajectories if t.stop is not StopReason.ERROR]
    steps = [s for t in kept for s in t.steps]
    sums = total(
        np.array(
            [
                len(kept),
                sum(t.success for t in kept),
                sum(t.episode_return for t in kept),
                len(steps),
                len(trajectories) - len(kept),
                sum(t.stop is StopReason.TRUNCATED for t in kept),
                sum(not s.valid for s in steps),
                sum(not s.effective for s in steps),
                sum(s.cut for s in steps),
                sum(len(s.prompt_ids) for s in steps),
                sum(len(s.response_ids) for s in steps),
            ],
            dtype=np.float64,
        )
    )
    episodes, decisions = max(sums[0], 1), max(sums[3], 1)
    metrics = {
        m.SUCCESS_RATE: sums[1] / episodes,
        m.REWARD: sums[2] / episodes,
        m.LENGTH: sums[3] / episodes,
        "episode/decisions": sums[3],
        m.EPISODE_ERRORS: sums[4],
        "episode/truncated_rate": sums[5] / episodes,
        m.VALID_RATIO: 1 - sums[6] / decisions,
        "episode/ineffective_rate": sums[7] / decisions,
        m.CUT_RATIO: sums[8] / decisions,
        "prompt_length/mean": sums[9] / decisions,
        "response_length/mean": sums[10] / decisions,
    }
    return {key: float(value) for key, value in metrics.items()}
