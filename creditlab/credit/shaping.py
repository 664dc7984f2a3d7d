"""Reward shaping, applied before credit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from creditlab.credit.segments import Floats
from creditlab.rollouts import Rows


@dataclass(frozen=True)
class RubricProgress:
    """Adds rubric progress to the reward: r_t + η·(Φ_{t+1} − Φ_t), Φ the mean share of the rubric's channels."""

    axis: ClassVar[str] = "shaping"
    name: ClassVar[str] = "rubric_progress"
    needs: ClassVar[tuple[str, ...]] = ("rubric",)
    eta: float = 1.0
    """Scale η, in units of reward per complete rubric (a success is worth 10); a choice of ours, the paper gives none."""

    def __call__(self, rows: Rows) -> Floats:
        """Shaped reward of every decision [N]."""
        return rows.reward + self.eta * (rows.progress[rows.state + 1] - rows.progress[rows.state])


@dataclass(frozen=True)
class ScoreProgress:
    """Adds the gain in the environment's own graded score: r_t + η·(Ψ_{t+1} − Ψ_t) (MCGPO's scorer-matched control).

    Ψ is the share of the goal that a state has reached: goal progress on ALFWorld, the score of buying now on WebShop.
    """

    axis: ClassVar[str] = "shaping"
    name: ClassVar[str] = "score_progress"
    needs: ClassVar[tuple[str, ...]] = ("rubric",)
    eta: float = 1.0
    """Scale η, in units of reward per full score (a success is worth 10); a choice of ours, the paper gives none."""

    def __call__(self, rows: Rows) -> Floats:
        """Shaped reward of every decision [N]."""
        return rows.reward + self.eta * (rows.goal_share[rows.state + 1] - rows.goal_share[rows.state])
