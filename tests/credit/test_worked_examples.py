"""The published methods on examples computed by hand: every number is the specification's."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from creditlab_bipace import BiPACE
from creditlab_ccpo import CCPO
from creditlab_covgpo import CovGPO
from creditlab_g2po import G2PO
from creditlab_gigpo import GiGPO
from creditlab_grpo import GRPO
from creditlab_hgpo import HGPO
from creditlab_rloo import RLOO
from examples import e1

from creditlab.credit.folds import All, LeaveOneOut, OtherTrajectories
from creditlab.credit.ladders import History
from creditlab.credit.match import Observation
from creditlab.credit.values import node_value
from creditlab.credit.weighting import ContextKernel, Depth, Uniform
from creditlab.hookspecs import Method, Rows
from creditlab.rollouts import Group
from creditlab.testing import move, rows_of, siblings, walk

ROW = {"moments": "row", "convention": "reference"}
SUMMED = {"convention": "paper"}
"""Trajectory samples, penalties summed over the trajectory."""


def close(method: Method, rows: Rows, expected: Sequence[float], tolerance: float = 6e-5) -> None:
    np.testing.assert_allclose(method(rows).advantages, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (ROW, [7.5125] * 3 + [-3.7375] * 3 + [-3.7375, -3.8500, -3.7375]),
        (SUMMED, [10.05] * 3 + [-4.95] * 3 + [-5.10] * 3),
    ],
)
def test_rloo(options: dict[str, str], expected: list[float]) -> None:
    close(RLOO(fold=LeaveOneOut(), **options), e1(), expected)  # type: ignore[arg-type]


GIGPO = {
    ("mean_std", 0.0): [1.1547, 0.7071, 1.1547, -0.5774, -0.7071, 0, -0.5774, -0.5859, -0.5687],
    ("mean", 0.0): [6.0167, 4.75, 6.7, -3.0083, -4.75, 0, -3.0083, -3.4, -3.3],
    ("mean_std", 1.0): [2.4880, 2.0404, 2.4880, -1.2407, -1.3704, -0.6633, -1.2407, -1.2692, -1.2320],
    ("mean", 1.0): [12.6944, 11.4278, 13.3778, -6.3306, -8.0722, -3.3222, -6.3306, -6.8222, -6.6222],
}


@pytest.mark.parametrize(("mode", "episode"), GIGPO)
def test_gigpo(mode: str, episode: float) -> None:
    method = GiGPO(match=Observation(), normalise=mode, episode_weight=episode, **ROW)  # type: ignore[arg-type]
    close(method, e1(), GIGPO[mode, episode])


def hgpo(**options: object) -> HGPO:
    weighting = options.pop("weighting", Depth(counting="matched"))
    return HGPO(match=History(past=2), weighting=weighting, **options)  # type: ignore[arg-type]


def test_hgpo() -> None:
    close(hgpo(), e1(), [1.4142, 1.0, 1.4142, -0.7071, -1.0, 0, -0.7071, -0.7176, -0.6965])


def e3() -> Rows:
    """Depth matters: p and q share their whole history, r comes to X another way, w goes elsewhere."""
    paths = {"p": ("SMX", True), "q": ("SMX", False), "r": ("SNX", True), "w": ("SNY", False)}
    return rows_of(siblings("E3", *(walk(*[move(s, "a") for s in path], success=won) for path, won in paths.values())))


E3_LAST = {
    "code": ({}, [0.9349, -1.0920, 0.7071, 0], [1.0, -1.0, 1.0, -1.0]),
    "paper": ({"weighting": Depth(counting="past")}, [0.9512, -1.0690, 0.7071, 0], [1.0, -1.0, 1.0, -1.0]),
    "fixed denominator": (
        {"weighting": Depth(counting="past"), "denominator": "all"}, [0.9512, -1.0690, 0.1179, 0], [1.0, -1.0, 1.0, -1.0]
    ),
    "alpha 0": ({"weighting": Depth(alpha=0.0)}, [0.9024, -1.1381, 0.7071, 0], [1.0, -1.0, 1.0, -1.0]),
    "uniform": ({"weighting": Uniform()}, [0.9024, -1.1381, 0.7071, 0], [1.0, -1.0, 1.0, -1.0]),
    "mean": ({"normalise": "mean"}, [4.6296, -5.3704, 3.3333, 0], [4.5125, -4.5125, 4.5125, -4.5125]),
}  # fmt: skip


@pytest.mark.parametrize("name", E3_LAST)
def test_hgpo_where_depth_matters(name: str) -> None:
    options, last, first = E3_LAST[name]
    advantages = hgpo(**options)(e3()).advantages.reshape(4, 3)
    np.testing.assert_allclose(advantages[:, 2], last, atol=6e-5)
    np.testing.assert_allclose(advantages[:, 0], first, atol=6e-5)


def test_gigpo_sees_no_depth() -> None:
    advantages = GiGPO(match=Observation(), episode_weight=0.0)(e3()).advantages.reshape(4, 3)
    np.testing.assert_allclose(advantages[:, 2], [0.5774, -1.1547, 0.5774, 0], atol=6e-5)
    np.testing.assert_allclose(advantages[:, 0], [0.8660, -0.8660, 0.8660, -0.8660], atol=6e-5)


@pytest.mark.parametrize(("skip", "expected"), [(True, 0.7071), (False, 0.2828)])
def test_hgpo_with_a_level_of_exactly_zero(skip: bool, expected: float) -> None:
    p, q = walk(move("S", "a"), move("X", "a"), success=True), walk(move("S", "a"), move("X", "a"), success=True)
    rows = rows_of(siblings("E3b", p, q, walk(move("N", "a"), move("X", "a"))))
    advantages = hgpo(skip_zero=skip)(rows).advantages.reshape(3, 2)
    np.testing.assert_allclose(advantages[:, 1], [expected, expected, -1.4142], atol=6e-5)


def test_g2po_values() -> None:
    rows = e1()
    value = dict(zip(rows.texts["observation"], node_value(rows, rows.view("observation")), strict=False))
    for name, expected in {"A": 2.8579, "B": 4.5125, "C": 3.1667, "D": 0.0}.items():
        assert value[name] == pytest.approx(expected, abs=6e-5)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean_std", [2.3717, 1.5768, 4.4920, 0.3751, -2.8099, -0.7122, -1.7717, -0.9837, -2.5382]),
        ("mean", [8.6225, 6.7568, 18.9971, -1.3775, -9.5765, -3.4807, -4.0692, -4.8696, -11.0029]),
    ],
)
def test_g2po(mode: str, expected: list[float]) -> None:
    close(G2PO(match=Observation(), normalise=mode, **ROW), e1(), expected)  # type: ignore[arg-type]


def ccpo(**options: object) -> CCPO:
    fold = options.pop("fold", OtherTrajectories())
    return CCPO(match=Observation(), fold=fold, weighting=ContextKernel(), hidden=False, **options)  # type: ignore[arg-type]


def contexts() -> Rows:
    """a solves the task over x, y, z and b passes through the same without solving it: one peer per decision."""
    path = [move(s, "a") for s in "xyz"]
    return rows_of(siblings("C", walk(*path, success=True), walk(*path)))


WEBSHOP = {"final": "none", "normalise": "mean"}
CCPO_TOTALS = [
    (WEBSHOP, [8.9786, 10.6136, 11.1136, -8.9640, -10.5933, -11.1484]),
    ({**WEBSHOP, "episode_weight": 1.0}, [13.9786, 15.6136, 16.1136, -13.9640, -15.5933, -16.1484]),
    ({}, [0.7976, 0.9428, 0.9872, -0.7963, -0.9410, -0.9903]),
    ({"episode_weight": 1.0}, [1.7105, 1.8557, 1.9001, -1.7092, -1.8539, -1.9032]),
]


@pytest.mark.parametrize(("options", "expected"), CCPO_TOTALS)
def test_ccpo(options: dict[str, object], expected: list[float]) -> None:
    close(ccpo(**options), contexts(), expected)


def test_ccpos_channels_alone() -> None:
    close(ccpo(final="none", future_weight=0.0), contexts(), [9.025, 9.5, 10, -9.025, -9.5, -10], 1e-12)
    future = [-0.0464, 1.1136, 1.1136, 0.0610, -1.0933, -1.1484]
    close(ccpo(final="none", history_weight=0.0), contexts(), future)


def test_with_its_own_trajectory_among_the_peers_a_decision_is_half_its_own_baseline() -> None:
    """Equal contexts weigh alike, so with two peers, itself included, the residual is halved."""
    close(ccpo(final="none", future_weight=0.0, fold=All()), contexts(), [4.5125, 4.75, 5, -4.5125, -4.75, -5], 1e-12)


def covered(name: str, share: float, turns: int, success: bool = False) -> Group:
    """A group of two: the first trajectory meets a new observation in the given share of its turns, the second in three
    times as many."""
    siblings_ = []
    for wanted in (share, 3 * share):
        new = round(wanted * turns)
        visited = [f"s{min(turn, new)}" for turn in range(turns + 1)]
        siblings_.append(walk(*[move(s, "a") for s in visited[:-1]], end=visited[-1], success=success and wanted == share))
    return siblings(name, *siblings_)


def test_covgpo_by_trajectory() -> None:
    """q = 1/3, P = (.1, .3): λ·q = .1 times ∓1."""
    groups = [covered("failed", 0.1, 10), covered("solved", 0.1, 10, True), covered("other", 0.1, 10, True)]
    rows = rows_of(*groups)
    advantages = CovGPO(base=GRPO())(rows).advantages
    failed = rows.group == 0
    np.testing.assert_allclose(advantages[failed], [-0.1] * 10 + [0.1] * 10, atol=2e-6)
    np.testing.assert_array_equal(advantages[~failed], GRPO()(rows).advantages[~failed])


def test_covgpo_shares_its_weight_over_the_update() -> None:
    """q = 1/16, P = (.5, .25, .25, 0): ±.026516 and 0."""
    plan = (2, 1, 1, 0)
    failed = siblings(
        "failed",
        *(walk(*[move(f"s{min(t, n)}", "a") for t in range(4)], end=f"s{min(4, n)}") for n in plan),
    )
    rows = rows_of(failed, *(covered(f"solved{i}", 0.1, 10, True) for i in range(15)))
    advantages = CovGPO(base=GRPO())(rows).advantages[rows.group == 0].reshape(4, 4)
    np.testing.assert_allclose(advantages, np.repeat([[0.026516], [0], [0], [-0.026516]], 4, axis=1), atol=1e-6)


def test_covgpo_on_equal_coverage_gives_nothing() -> None:
    same = walk(move("a", "x"), move("b", "x"), end="c")
    assert not CovGPO(base=GRPO())(rows_of(siblings("g", same, same))).advantages.any()


def test_covgpo_by_step_credits_the_decisions_that_explored() -> None:
    """One trajectory finds a new state and returns, the other stays: z = (1, −, −, −)/σ over the four decisions."""
    rows = rows_of(
        siblings("g", walk(move("a", "x"), move("b", "x"), end="a"), walk(move("a", "x"), move("a", "x"), end="a"))
    )
    advantages = CovGPO(base=GRPO(), granularity="step")(rows).advantages
    deviation = np.sqrt(3) / 4
    np.testing.assert_allclose(advantages, 0.3 * np.array([0.75, -0.25, -0.25, -0.25]) / deviation, atol=2e-6)


def test_bipace() -> None:
    """p0 and q0 share the state A and the action go: the same credit, whatever came of them."""
    method = BiPACE(match=Observation(), episode_weight=0.0)
    close(method, e1(), [1.5042, 4.75, 6.7, 1.5042, -4.75, 0, -3.0083, -3.4, -3.3])


def test_bipace_against_other_actions() -> None:
    """In A: go returns 9.025 and 0, alt 0; each against the mean of the other actions there."""
    method = BiPACE(match=Observation(), episode_weight=0.0, baseline="other_actions")
    advantages = method(e1()).advantages
    np.testing.assert_allclose(advantages[[0, 3, 6]], [9.025, 0, -9.025 / 2], atol=1e-12)
    np.testing.assert_allclose(advantages[[1, 4]], [9.5, -9.5], atol=1e-12)
    assert advantages[5] == 0  # D has one decision, without another action


@pytest.mark.parametrize("baseline", ["cluster", "other_actions"])
@pytest.mark.parametrize("reward", [9.9, 0.7, 0.35, 0.1])
def test_bipace_gives_exactly_zero_where_all_returns_are_equal(baseline: str, reward: float) -> None:
    """Whatever the actions: means of 1, 2 and 4 equal floats may differ by one unit in the last place."""
    walks = [walk(move("A", action, reward=reward), end="B") for action in "xyyzzzz"]
    method = BiPACE(match=Observation(), episode_weight=0.0, baseline=baseline)  # type: ignore[arg-type]
    assert not method(rows_of(siblings("g", *walks))).advantages.any()
