"""What components need and a run does not give is refused before anything is collected."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

from creditlab.cli import compose_job
from creditlab.config import check_job
from creditlab.registry import ConfigError, registry
from creditlab.testing import move, rows_of, siblings, walk


@dataclass(frozen=True)
class Bare:
    """An environment without a rubric."""

    axis: ClassVar[str] = "env"
    name: ClassVar[str] = "bare"


@dataclass(frozen=True)
class Sparse(Bare):
    """An environment whose states carry their text alone."""

    name: ClassVar[str] = "sparse"
    views: ClassVar[tuple[str, ...]] = ("observation",)


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


def test_a_view_that_the_environment_does_not_record_is_refused_before_anything_is_played() -> None:
    job = replace(compose_job(["method=graphgpo"]), env=Sparse())
    with pytest.raises(ConfigError) as error:
        check_job(job)
    lacking = "which env=sparse does not record; its views: observation"
    assert str(error.value) == f"match=graph_state reads the view 'graph' of states, {lacking}"
    with pytest.raises(ConfigError, match="match=state_only reads the view 'exact'"):
        check_job(replace(compose_job(["method=grpo", "aux=[pair]", "match@aux.pair.match=state_only"]), env=Sparse()))
    check_job(replace(compose_job(["method=gigpo"]), env=Sparse()))
    check_job(replace(job, env=Bare()))  # which does not say


@pytest.mark.parametrize("name", registry().names("match"))
def test_a_match_rule_says_which_views_it_reads(name: str) -> None:
    """It works on rows that carry no others, and on none that lack one of them."""
    rule = registry().create("match", name)
    read: tuple[str, ...] = getattr(rule, "views", ())
    rows = rows_of(siblings("g", walk(move("A", "a"), move("B", "b")), walk(move("A", "b"))))
    features = {feature.name: np.ones((len(rows), 2)) for feature in getattr(rule, "requires", ())}
    rows = replace(rows, features=features, views={view: rows.views[view] for view in read})
    assert rule.levels(rows)
    for view in read:
        with pytest.raises(ValueError, match=f"carry no state view '{view}'"):
            rule.levels(replace(rows, views={other: ids for other, ids in rows.views.items() if other != view}))


def test_an_unknown_feature_is_refused() -> None:
    with pytest.raises(ConfigError, match="method=curious requires 'dreams'; known are reference and Feature"):
        check_job(replace(compose_job(["method=grpo"]), method=Curious()))


def test_a_loss_that_compares_siblings_needs_them_whatever_the_method() -> None:
    with pytest.raises(ConfigError, match=r"needs rollout\.group_size >= 2, got 1"):
        compose_job(["method=grpo", "aux=[pair]", "fold@aux.pair.fold=all", "rollout.group_size=1"])
