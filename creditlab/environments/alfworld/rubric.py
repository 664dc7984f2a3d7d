"""The rubric of ALFWorld: the channels of C and the dependency templates of the task families (MCGPO, Tables 15 and 17).

A channel is a count or flag that the tracker derives from executed commands.
"""

from __future__ import annotations

from collections.abc import Mapping

from creditlab.environments.alfworld.families import CLEAN, COOL, HEAT, LOOK, PICK, TWO
from creditlab.environments.rubric import GOAL_PROGRESS, SUCCESS, Template

ACQUIRED = "target_acquired"
IN_HAND = "target_in_hand"
PROCESSED = "target_processed"
PLACED = "target_placed"
LIGHT = "light_on"

_PLACE = Template(
    ever=((ACQUIRED, IN_HAND), (ACQUIRED, PLACED)),
    current=((PLACED, GOAL_PROGRESS), (GOAL_PROGRESS, SUCCESS)),
)
_PROCESS_AND_PLACE = Template(
    ever=((ACQUIRED, IN_HAND), (ACQUIRED, PROCESSED), (ACQUIRED, PLACED)),
    current=((PROCESSED, PLACED), (PROCESSED, GOAL_PROGRESS), (PLACED, GOAL_PROGRESS), (GOAL_PROGRESS, SUCCESS)),
)
_LOOK = Template(
    ever=((ACQUIRED, IN_HAND),),
    current=(
        (IN_HAND, GOAL_PROGRESS),
        (LIGHT, GOAL_PROGRESS),
        (IN_HAND, SUCCESS),
        (LIGHT, SUCCESS),
        (GOAL_PROGRESS, SUCCESS),
    ),
)
TEMPLATES: Mapping[str, Template] = {
    PICK: _PLACE,
    TWO: _PLACE,
    CLEAN: _PROCESS_AND_PLACE,
    HEAT: _PROCESS_AND_PLACE,
    COOL: _PROCESS_AND_PLACE,
    LOOK: _LOOK,
}


def full_values(family: str, required: int) -> dict[str, int]:
    """The value that satisfies each channel of a family, where `required` target objects are asked for."""
    goal = {LOOK: 2, PICK: required, TWO: required}.get(family, 3)
    full = {ACQUIRED: required, IN_HAND: 1, PROCESSED: 1, PLACED: required, LIGHT: 1, GOAL_PROGRESS: goal}
    return {name: full[name] for name in TEMPLATES[family].channels}
