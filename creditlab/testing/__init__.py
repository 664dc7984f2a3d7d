"""The conformance kit: build small rows from literals, and run any method or environment through the checks for all.

`from creditlab.testing.strategies import batches` gives the same batches as a hypothesis strategy.
"""

from creditlab.testing.builders import move, random_groups, rows_of, siblings, state, walk
from creditlab.testing.conformance import METHOD_CHECKS, AuxiliaryOnly, check_method
from creditlab.testing.environments import check_environment

__all__ = [
    "METHOD_CHECKS",
    "AuxiliaryOnly",
    "check_environment",
    "check_method",
    "move",
    "random_groups",
    "rows_of",
    "siblings",
    "state",
    "walk",
]
