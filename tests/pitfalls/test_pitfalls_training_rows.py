"""What a decision contributes to the loss: its own advantage on its own tokens, and its place in the denominator."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from creditlab.credit.types import Credit
from creditlab.learner.losses import Denominators, k3, policy_loss
from creditlab.learner.sequences import MicroBatch, TrainBatch, tokens
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.rollouts import Group, RolloutBatch, Rows
from creditlab.testing import move, siblings, walk

CPU = torch.device("cpu")
PAD = 0


def trained(*groups: Group, advantages: list[float]) -> TrainBatch:
    batch = RolloutBatch(groups, update=1, seed=0)
    return TrainBatch.build(batch, Rows.from_batch(batch), Credit(np.array(advantages)))


def three_turns(name: str = "g") -> Group:
    """One trajectory with responses of 1, 2 and 3 tokens."""
    return siblings(name, walk(move("A", "go"), move("B", "go"), move("C", "go")))


def loss_of(batch: TrainBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """The policy loss of one optimizer step over the whole batch at the sampling policy, and its gradient [N, 3]."""
    rows = np.arange(len(batch))
    micro = MicroBatch.build(batch, rows, PAD, CPU)
    logp = micro.old_logp.clone().requires_grad_()
    step = Denominators(tokens=tokens(batch, rows), rows=len(rows))
    none = torch.zeros_like(micro.old_logp)
    settings = DeepSpeedLearner(entropy=0.0)
    loss = policy_loss(settings, logp, micro.old_logp, micro.advantages, micro.mask, none, None, step).loss
    return loss.detach(), torch.autograd.grad(loss, logp)[0]


def test_every_turn_carries_its_own_advantage_on_its_own_tokens() -> None:
    """At the sampling policy the gradient of a token is −A of its decision over the tokens of the step; padding has none."""
    _, gradient = loss_of(trained(three_turns(), advantages=[1.0, -2.0, 4.0]))
    expected = [[-1 / 6, 0, 0], [2 / 6, 2 / 6, 0], [-4 / 6, -4 / 6, -4 / 6]]
    np.testing.assert_allclose(gradient, expected, rtol=1e-6)


def test_a_group_without_contrast_stays_in_the_denominator() -> None:
    """Its advantages are 0 and its tokens count, so that an informative group of like size moves half as far beside it."""
    alone, _ = loss_of(trained(three_turns(), advantages=[1, -2, 4]))
    beside, gradient = loss_of(trained(three_turns(), three_turns("h"), advantages=[1, -2, 4, 0, 0, 0]))
    assert float(alone) == pytest.approx(-(1 * 1 - 2 * 2 + 4 * 3) / 6)
    assert float(beside) == pytest.approx(-(1 * 1 - 2 * 2 + 4 * 3) / 12)
    assert not gradient[3:].any()


@pytest.mark.parametrize("delta", [-2.0, -0.1, 0.0, 0.1, 2.0])
def test_the_gradient_of_the_kl_term_pulls_towards_the_reference(delta: float) -> None:
    """d/dlogp of exp(Δ) − Δ − 1 with Δ = reference − logp is 1 − exp(Δ): not 0 as for k1, bounded for rare tokens."""
    logp = torch.tensor(0.0, requires_grad=True)
    k3(logp, torch.tensor(delta)).backward()
    assert float(logp.grad) == pytest.approx(1 - np.exp(delta), abs=1e-6)


def test_a_spike_of_the_kl_term_is_clamped() -> None:
    logp = torch.tensor(-30.0, requires_grad=True)
    value = k3(logp, torch.tensor(0.0))
    value.backward()
    assert (float(value.detach()), float(logp.grad)) == (10.0, 0.0)
