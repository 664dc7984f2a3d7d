"""What components need and a run does not give is refused before anything is collected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

from creditlab.cli import compose_job
from creditlab.config import check_job
from creditlab.registry import ConfigError


@dataclass(frozen=True)
class Bare:
    """An environment without a rubric."""

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "bare"


@dataclass(frozen=True)
class Curious:
    """A method that wants what nobody records."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "curious"
    requires: ClassVar[tuple[str, ...]] = ("dreams",)


def test_a_rubric_is_needed_by_the_parts_that_read_it() -> None:
    for overrides in (["method=grpo", "aux=[pair]"], ["method=mcgpo"]):
        with pytest.raises(ConfigError, match="match=state_rubric needs a rubric, which env=bare does not provide"):
            check_job(replace(compose_job(overrides), env=Bare()))
    with pytest.raises(ConfigError, match="shaping=rubric_progress needs a rubric"):
        check_job(replace(compose_job(["method=grpo", "shaping=rubric_progress"]), env=Bare()))
    check_job(replace(compose_job(["match=state_only"]), env=Bare()))


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ConfigError, match="method=curious requires 'dreams'; known are reference and Feature"):
        check_job(replace(compose_job(["method=grpo"]), method=Curious()))


def test_a_loss_that_compares_siblings_needs_them_whatever_the_method() -> None:
    with pytest.raises(ConfigError, match=r"needs rollout\.group_size >= 2, got 1"):
        compose_job(["method=grpo", "aux=[pair]", "fold@aux.pair.fold=all", "rollout.group_size=1"])
