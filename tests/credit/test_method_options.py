"""Options away from their defaults, on examples computed by hand, and what holds of a lone trajectory under all of them."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
from creditlab_bipace import BiPACE
from creditlab_ccpo import CCPO
from creditlab_covgpo import CovGPO
from creditlab_g2po import G2PO
from creditlab_gigpo import GiGPO
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from creditlab_hgpo import HGPO
from creditlab_progpo import ProGPO
from creditlab_rloo import RLOO

from creditlab.credit.context import context_features
from creditlab.credit.folds import All, LeaveOneOut, Opposite, OtherTrajectories, Same
from creditlab.credit.ladders import History
from creditlab.credit.match import GraphState, Observation
from creditlab.credit.weighting import ContextKernel, Depth, InverseVariance
from creditlab.hookspecs import Method, PeerFold, Rows
from creditlab.testing import move, rows_of, siblings, walk


def ccpo(**options: object) -> CCPO:
    parts = {"match": Observation(), "fold": OtherTrajectories(), "weighting": ContextKernel(), "hidden": False}
    return CCPO(**{**parts, **options})  # type: ignore[arg-type]


def with_hidden(rows: Rows, method: CCPO, *vectors: tuple[float, ...]) -> Rows:
    (feature,) = method.requires
    return replace(rows, features={feature.name: np.array(vectors, np.float32)})


STEP_TERMS = {
    "gigpo": lambda **o: GiGPO(match=Observation(), episode_weight=0.0, **o),
    "hgpo": lambda **o: HGPO(match=History(), weighting=Depth(), **o),
    "graphgpo": lambda **o: GraphGPO(match=GraphState(), episode_weight=0.0, **o),
    "g2po": lambda **o: G2PO(match=Observation(), episode_weight=0.0, **o),
    "bipace": lambda **o: BiPACE(match=Observation(), episode_weight=0.0, **o),
    "progpo": lambda **o: ProGPO(
        match=History(), fold=OtherTrajectories(), weighting=InverseVariance(), episode_weight=0.0, **o
    ),
}
"""The terms of each method beside the episode term."""


class TestALoneTrajectory:
    """It meets A twice, with returns 9.025, 9.5 and 10 from there on; its only sibling failed to run."""

    ROWS = rows_of(
        siblings(
            "lone",
            walk(move("A", "go"), move("A", "look", valid=False), move("B", "fin"), success=True),
            walk(move("A", "go"), error="the engine timed out"),
        ),
        siblings("other", walk(move("A", "go"), success=True), walk(move("A", "stay"), end="A")),
    )

    def credit(self, method: Method) -> list[float]:
        return method(self.ROWS).advantages[self.ROWS.group == 0].tolist()

    @pytest.mark.parametrize("convention", ["default", "paper"])
    @pytest.mark.parametrize("name", STEP_TERMS)
    def test_is_compared_with_nobody(self, name: str, convention: str) -> None:
        method = STEP_TERMS[name](convention=convention)  # type: ignore[no-untyped-call]
        assert not any(self.credit(method))
        assert method(rows_of(siblings("lone", *LONE))).diagnostics["singleton_rate"] == 1.0

    @pytest.mark.parametrize("samples", ["row", "first_row", "trajectory"])
    def test_does_not_stand_against_its_own_rows(self, samples: str) -> None:
        assert not any(self.credit(GRPO(moments=samples)))  # type: ignore[arg-type]
        assert not any(self.credit(RLOO(moments=samples, fold=LeaveOneOut())))  # type: ignore[arg-type]

    @pytest.mark.parametrize("fold", [All(), LeaveOneOut(), Same(), Opposite()])
    def test_is_no_peer_of_itself(self, fold: PeerFold) -> None:
        assert not any(self.credit(ccpo(fold=fold)))
        assert not any(self.credit(ProGPO(match=History(), fold=fold, weighting=InverseVariance())))

    def test_explored_no_more_than_its_siblings(self) -> None:
        rows = rows_of(siblings("lone", walk(move("A", "go"), move("A", "go"), end="B")))
        assert not CovGPO(base=GRPO(), granularity="step")(rows).advantages.any()

    def test_keeps_its_comparison_with_itself_as_the_published_code_does(self) -> None:
        """Two samples stand at ∓1/√2 of each other's sample deviation, ∓1 of the population's."""
        rows = rows_of(siblings("lone", *LONE))
        gigpo = STEP_TERMS["gigpo"](convention="reference", coefficient=0.0)  # type: ignore[no-untyped-call]
        np.testing.assert_allclose(gigpo(rows).advantages[:2], [-math.sqrt(0.5), math.sqrt(0.5)], atol=1e-5)
        hgpo = STEP_TERMS["hgpo"](singleton="raw", coefficient=0.0)  # type: ignore[no-untyped-call]
        np.testing.assert_allclose(hgpo(rows).advantages[:2], [-1, 1], atol=1e-5)


LONE = (walk(move("A", "go"), move("A", "look"), move("B", "fin"), success=True),)


STEP_PENALTY = {"gigpo": 0.5**0.5, "hgpo": 1.0, "graphgpo": 0.5**0.5, "g2po": 0.5**0.5, "bipace": 0.05, "progpo": 0.5**0.5}


@pytest.mark.parametrize(("name", "size"), STEP_PENALTY.items())
def test_penalise_step(name: str, size: float) -> None:
    """Two failures in one state, the second by an invalid action: 0 against −ρ, which is all that tells them apart."""
    rows = rows_of(siblings("g", walk(move("A", "go"), end="B"), walk(move("A", "stay", valid=False), end="C")))
    make = STEP_TERMS[name]
    np.testing.assert_allclose(make()(rows).advantages, [size, -size], atol=5e-5)  # type: ignore[no-untyped-call]
    assert not make(penalise_step=False)(rows).advantages.any()  # type: ignore[no-untyped-call]


def test_the_episode_term_is_no_comparison_of_hgpos() -> None:
    """Everyone stands alone in its state: the base group counts, and the sizes reported stay 1."""
    rows = rows_of(siblings("g", walk(move("A", "go"), success=True), walk(move("B", "go"))))
    credit = HGPO(match=History(), weighting=Depth(), base_group=True)(rows)
    assert credit.advantages.any()
    assert (credit.diagnostics["group_size"], credit.diagnostics["singleton_rate"]) == (1.0, 1.0)


def contexts() -> Rows:
    """a solves the task over x, y, z and b passes through the same without solving it: one peer per decision."""
    path = [move(s, "a") for s in "xyz"]
    return rows_of(siblings("C", walk(*path, success=True), walk(*path)))


def test_ccpo_looks_one_decision_ahead() -> None:
    """V is 0 for a and 8.57375, 9.025, 9.5 for b; changes over one decision, the return standing at the end."""
    changes = [0.0, 0.0, 10.0, 9.025 - 8.57375, 9.5 - 9.025, -9.5]
    mean, deviation = statistics.mean(changes), statistics.stdev(changes)
    given = ccpo(final="none", history_weight=0.0, horizon=1)(contexts()).advantages
    np.testing.assert_allclose(given, [(c - mean) / deviation for c in changes], atol=1e-5)


@pytest.mark.parametrize(("weight", "cosine"), [(0.0, -1.0), (1.0, 0.0), (2.0, 0.6)])
def test_the_summary_stands_beside_the_hidden_state_with_its_weight(weight: float, cosine: float) -> None:
    """Opposite hidden states and equal statistics: cos = (w² − 1)/(w² + 1); a failure beside them is judged accordingly.

    Slot 0 won, as did slot 1, whose hidden state it shares; slot 2 lost, with the opposite one. Under the cosine kernel slot
    2 weighs (1 + cos)/2 in slot 0's baseline.
    """
    method = ccpo(
        hidden=True, summary_weight=weight, final="none", future_weight=0.0, weighting=ContextKernel(kernel="cosine")
    )
    won, lost = walk(move("A", "go"), success=True), walk(move("A", "go"))
    rows = with_hidden(rows_of(siblings("g", won, won, lost)), method, (1.0, 0.0), (1.0, 0.0), (-2.0, 0.0))
    (feature,) = method.requires
    z = context_features(rows, rows.features[feature.name], weight)
    assert z[0] @ z[2] == pytest.approx(cosine, abs=1e-12)
    other = (1 + cosine) / 2
    assert method(rows).advantages[0] == pytest.approx(10 - 10 / (1 + other), abs=1e-9)


def test_ccpo_says_what_its_contexts_hold() -> None:
    method = ccpo(hidden=True)
    rows = contexts()
    recorded = with_hidden(rows, method, *[(float(i), 1.0) for i in range(6)])
    assert method(recorded).diagnostics["context_hidden"] == 1.0
    assert method(rows).diagnostics["context_hidden"] == 0.0
    assert ccpo()(recorded).diagnostics["context_hidden"] == 0.0
    only = ccpo(hidden=True, summary_weight=0.0)
    assert np.isfinite(only(recorded).advantages).all()
    with pytest.raises(ValueError, match="summary_weight=0 leaves the hidden state as the only context"):
        only(rows)


@pytest.mark.parametrize(("singleton", "expected"), [("zero", 0.0), ("raw", 10.0)])
def test_the_only_supported_decision_of_a_task(singleton: str, expected: float) -> None:
    """Slots 0 and 1 meet in A, in one half, so neither has a peer; slot 2 is alone in B and sees them; slot 3 is empty."""
    lost, won = walk(move("A", "go")), walk(move("B", "go"), success=True)
    rows = rows_of(siblings("g", lost, lost, won, walk(move("B", "go", trainable=False))))
    given = ccpo(fold=Opposite(), singleton=singleton)(rows).advantages
    assert given.tolist() == [0.0, 0.0, expected, 0.0]


@pytest.mark.parametrize("convention", ["default", "paper"])
def test_ccpos_episode_term_lets_each_row_pay_for_itself(convention: str) -> None:
    """Scores 10, 9.9, 0, 0 less their mean 4.975, also under convention=paper."""
    won = walk(move("x", "a"), move("y", "a", valid=False), success=True)
    rows = rows_of(siblings("g", won, walk(move("x", "a"), move("y", "a"))))
    options = {"history_weight": 0.0, "future_weight": 0.0, "final": "none", "episode_weight": 1.0, "normalise": "mean"}
    given = ccpo(convention=convention, **options)(rows).advantages
    np.testing.assert_allclose(given, [5.025, 4.925, -4.975, -4.975], atol=1e-12)


def explored(reward: float = 0.0) -> Rows:
    """Coverage 1 and 0, mean and population deviation ½; the first earns the given reward."""
    return rows_of(siblings("g", walk(move("A", "x", reward=reward), end="B"), walk(move("A", "x"), end="A")))


def test_covgpos_threshold_of_failure() -> None:
    rows = explored(reward=0.5)
    np.testing.assert_array_equal(CovGPO(base=GRPO())(rows).advantages, GRPO()(rows).advantages)
    np.testing.assert_array_equal(CovGPO(base=GRPO(), failed_below=0.5)(rows).advantages, GRPO()(rows).advantages)
    np.testing.assert_allclose(CovGPO(base=GRPO(), failed_below=0.51)(rows).advantages, [0.3, -0.3], atol=1e-5)


def test_covgpos_smallest_spread() -> None:
    np.testing.assert_allclose(CovGPO(base=GRPO(), min_spread=0.5)(explored()).advantages, [0.3, -0.3], atol=1e-5)
    assert not CovGPO(base=GRPO(), min_spread=0.51)(explored()).advantages.any()
    assert not CovGPO(base=GRPO(), min_spread=0.51, granularity="step")(explored()).advantages.any()


def test_covgpo_asks_the_environment_who_failed() -> None:
    """Neither a shaped reward nor a penalty makes a failure a success, or the reverse."""
    failed, won = explored(), explored(reward=10.0)
    fallback = [0.3, -0.3]
    np.testing.assert_allclose(CovGPO(base=GRPO())(failed.with_rewards(failed.reward + 5)).advantages, fallback, atol=1e-5)
    shaped = won.with_rewards(won.reward - 20)
    np.testing.assert_array_equal(CovGPO(base=GRPO())(shaped).advantages, GRPO()(shaped).advantages)
    invalid = replace(won, valid=np.zeros(2, np.bool_))
    costly = GRPO(coefficient=50.0, penalty="trajectory_sum")
    np.testing.assert_array_equal(CovGPO(base=costly)(invalid).advantages, costly(invalid).advantages)
