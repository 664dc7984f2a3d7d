"""What happened: records of rollouts, their columnar form and their store."""

from creditlab.rollouts.records import (
    Channel,
    Group,
    RolloutBatch,
    State,
    Step,
    StopReason,
    Trajectory,
    Transition,
    View,
)
from creditlab.rollouts.rows import GOAL, Rows

__all__ = [
    "GOAL",
    "Channel",
    "Group",
    "RolloutBatch",
    "Rows",
    "State",
    "Step",
    "StopReason",
    "Trajectory",
    "Transition",
    "View",
]
