"""The policy loss against numbers computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from creditlab.learner.losses import Denominators, aggregate, k3, policy_loss
from creditlab.learner.settings import DeepSpeedLearner

ONE = Denominators(tokens=1, rows=1)


def loss_of(ratio: float, advantage: float, nats: float = 0.0, delta: float | None = None, **options: Any) -> Any:
    """The loss of one token whose probability is `ratio` times the recorded one; delta = reference − policy log-prob."""
    logp = torch.tensor([[math.log(ratio)]], requires_grad=True)
    parts = policy_loss(
        DeepSpeedLearner(**{"entropy": 0.0, **options}),
        logp,
        torch.zeros(1, 1),
        torch.tensor([advantage]),
        torch.tensor([[True]]),
        torch.tensor([[nats]]),
        None if delta is None else logp.detach() + delta,
        ONE,
    )
    return parts, logp


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "flows"),
    [
        (1.0, 2.0, -2.0, True),
        (1.1, 1.0, -1.1, True),
        (1.5, 1.0, -1.2, False),  # max(−1.5, −1.2): a good token is not pushed beyond the range
        (0.5, 1.0, -0.5, True),  # max(−0.5, −0.8): but pulled back into it
        (0.5, -1.0, 0.8, False),  # max(0.5, 0.8)
        (1.5, -1.0, 1.5, True),  # max(1.5, 1.2)
        (4.0, -1.0, 3.0, False),  # min(4, 3): dual clip at c = 3
        (4.0, -2.0, 6.0, False),
        (2.9, -1.0, 2.9, True),
        (4.0, 1.0, -1.2, False),  # the dual clip is for negative advantages
        (4.0, 0.0, 0.0, False),
    ],
)
def test_the_clipped_surrogate(ratio: float, advantage: float, expected: float, flows: bool) -> None:
    parts, logp = loss_of(ratio, advantage)
    assert float(parts.loss.detach()) == pytest.approx(expected, rel=1e-6)
    assert float(parts.pg) == pytest.approx(expected, rel=1e-6)
    parts.loss.backward()
    # d/dlogp of −A·ratio is −A·ratio
    assert float(logp.grad) == pytest.approx(-advantage * ratio if flows else 0.0, rel=1e-6)


def test_clip_range_and_dual_clip_are_options() -> None:
    assert float(loss_of(1.5, 1.0, clip=0.4)[0].pg) == pytest.approx(-1.4, rel=1e-6)
    assert float(loss_of(4.0, -1.0, dual_clip=2.0)[0].pg) == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize(
    ("delta", "expected"),
    [
        (0.0, 0.0),
        (math.log(2), 2 - math.log(2) - 1),  # 0.30685
        (-math.log(2), 0.5 + math.log(2) - 1),  # 0.19315
        (5.0, 10.0),  # e⁵ − 6 = 142.4, clamped
        (-30.0, 10.0),  # e⁻³⁰ + 29, clamped
    ],
)
def test_the_k3_estimate(delta: float, expected: float) -> None:
    assert float(k3(torch.tensor(0.0), torch.tensor(delta))) == pytest.approx(expected, abs=1e-6)
    parts, _ = loss_of(1.0, 0.0, delta=delta, kl=0.01)
    assert float(parts.loss.detach()) == pytest.approx(0.01 * expected, abs=1e-7)
    assert float(parts.kl) == pytest.approx(expected, abs=1e-6)


def test_entropy_is_a_bonus() -> None:
    parts, _ = loss_of(1.0, 1.0, nats=2.0, entropy=0.001)
    assert float(parts.loss.detach()) == pytest.approx(-1.0 - 0.002)
    assert float(parts.entropy) == 2.0


# two rows of 1 and 3 tokens; masked positions hold numbers that must not count
VALUES = torch.tensor([[6.0, 99.0, float("nan")], [1.0, 2.0, 3.0]])
MASK = torch.tensor([[True, False, False], [True, True, True]])


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        ("token_mean", 12 / 4),
        ("seq_mean_token_mean", (6 + 2) / 2),
        ("seq_mean_token_sum", (6 + 6) / 2),
    ],
)
def test_the_three_aggregations(aggregation: Any, expected: float) -> None:
    settings = DeepSpeedLearner(aggregation=aggregation)
    assert float(aggregate(settings, VALUES, MASK, Denominators(tokens=4, rows=2))) == pytest.approx(expected)
    # as a part of a step of twice the size it counts half
    assert float(aggregate(settings, VALUES, MASK, Denominators(tokens=8, rows=4))) == pytest.approx(expected / 2)


@pytest.mark.parametrize("aggregation", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum"])
def test_micro_batches_add_up_to_the_whole(aggregation: Any) -> None:
    settings, whole = DeepSpeedLearner(aggregation=aggregation), Denominators(tokens=4, rows=2)
    parts = [aggregate(settings, VALUES[i : i + 1], MASK[i : i + 1], whole) for i in range(2)]
    assert float(sum(parts)) == pytest.approx(float(aggregate(settings, VALUES, MASK, whole)))


@pytest.mark.parametrize("aggregation", ["token_mean", "seq_mean_token_mean", "seq_mean_token_sum"])
def test_a_row_without_tokens_is_worth_nothing(aggregation: Any) -> None:
    settings, empty = DeepSpeedLearner(aggregation=aggregation), torch.zeros(1, 3, dtype=torch.bool)
    assert float(aggregate(settings, VALUES[:1], empty, Denominators(tokens=0, rows=0))) == 0.0


def test_counts_of_clipped_tokens_and_of_the_divergence() -> None:
    """Ratios 1.5, 0.5 and 1 with advantage 1: the clip binds at the first alone; Σ(old − new) = −ln 1.5 + ln 2."""
    logp = torch.log(torch.tensor([[1.5, 0.5, 1.0, 7.0]]))
    mask = torch.tensor([[True, True, True, False]])
    parts = policy_loss(
        DeepSpeedLearner(), logp, torch.zeros(1, 4), torch.ones(1), mask, torch.zeros(1, 4), None, Denominators(3, 1)
    )
    assert int(parts.clipped) == 1
    assert float(parts.ppo_kl) == pytest.approx(-math.log(1.5) + math.log(2), rel=1e-6)
    assert sorted(parts.deviation.tolist()) == pytest.approx([0.0, 0.5, 0.5], abs=1e-6)


def test_a_garbled_log_probability_of_a_masked_position_is_harmless() -> None:
    logp = torch.tensor([[0.0, 50.0]], requires_grad=True)
    parts = policy_loss(
        DeepSpeedLearner(entropy=0.0), logp, torch.zeros(1, 2), torch.ones(1), torch.tensor([[True, False]]),
        torch.zeros(1, 2), None, ONE,
    )  # fmt: skip
    parts.loss.backward()
    assert logp.grad.tolist() == [[-1.0, 0.0]]


@pytest.mark.parametrize("difference", [99.0, -99.0])
@pytest.mark.parametrize("advantage", [1.0, -1.0])
def test_an_extreme_ratio_or_divergence_leaves_a_finite_gradient(difference: float, advantage: float) -> None:
    logp = torch.tensor([[difference - 100.0]], requires_grad=True)
    old, mask, entropy = torch.tensor([[-100.0]]), torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1)
    settings = DeepSpeedLearner(kl=0.1)
    parts = policy_loss(settings, logp, old, torch.tensor([advantage]), mask, entropy, torch.tensor([[0.0]]), ONE)
    parts.loss.backward()
    assert torch.isfinite(parts.loss)
    assert torch.isfinite(logp.grad).all()
