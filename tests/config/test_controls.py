"""MCGPO's controls: every command of the table on its page changes what the table says, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from mcgpo_controls import CONTROLS, table

from creditlab.cli import compose_job
from creditlab.credit.folds import Same
from creditlab.credit.match import RubricOnly, ShuffledRubric, StateOnly
from creditlab.credit.shaping import RubricProgress, ScoreProgress
from creditlab.credit.weighting import Uniform

PLAIN = {"full method", "task loss alone: GraphGPO"}
PAIR = {
    "shuffled rubric": {"match": ShuffledRubric()},
    "candidate-progress labels": {"labels": "candidate_progress"},
    "without the pairwise loss": {"weight": 0.0},
    "same-fold outcomes (B)": {"fold": Same()},
    "uniform weighting (C)": {"weighting": Uniform()},
    "same-fold + uniform (D)": {"fold": Same(), "weighting": Uniform()},
    "state-only key": {"match": StateOnly()},
    "rubric-only key": {"match": RubricOnly()},
}
"""What becomes of the pair loss under each control of it."""
SHAPING = {"GraphGPO + rubric shaping": RubricProgress(), "scorer-matched shaping": ScoreProgress()}


def test_every_control_of_the_paper_is_there() -> None:
    assert set(table()) == {*PLAIN, *PAIR, *SHAPING}
    assert set(CONTROLS) == {*PAIR, *SHAPING}


@pytest.mark.parametrize("name", CONTROLS)
def test_a_control_differs_from_the_plain_run_in_what_it_says_alone(name: str) -> None:
    command, plain, keys = CONTROLS[name]
    changed, usual = compose_job(command.split()), compose_job(plain.split())
    assert without(changed.config, keys) == without(usual.config, keys)
    if name in SHAPING:
        assert changed.method == usual.method
        assert (changed.shaping, usual.shaping) == (SHAPING[name], None)
    else:
        assert changed.shaping is None
        pair = replace(usual.method.pair, **PAIR[name])
        assert changed.method == replace(usual.method, pair=pair, pair_weight=pair.weight)
        assert changed.method != usual.method
    for key in keys:
        assert at(changed.config, key) != at(usual.config, key), f"{command} leaves {key} as it is"


def at(config: Any, key: str) -> Any:
    """The value of a dotted key; None where it is absent."""
    for step in key.split("."):
        config = config.get(step)
    return config


def without(config: Any, keys: list[str], prefix: str = "") -> Any:
    """A configuration without the given dotted keys."""
    if not isinstance(config, dict):
        return config
    return {name: without(value, keys, f"{prefix}{name}.") for name, value in config.items() if f"{prefix}{name}" not in keys}
