from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from creditlab_pair import PairLoss

from creditlab.credit.auxiliary import Weighted
from creditlab.credit.types import AuxiliaryLoss, Preferences


@dataclass
class View:
    """A micro-batch with the fields of `LossView`."""

    rows: np.ndarray
    logp: torch.Tensor
    old_logp: torch.Tensor
    mask: torch.Tensor
    step_rows: int

    def part(self, *positions: int) -> View:
        at = list(positions)
        return View(self.rows[at], self.logp[at], self.old_logp[at], self.mask[at], self.step_rows)


def loss_of(*pairs: tuple[int, int, float], weight: float = 1.0) -> PairLoss:
    winner, loser, c = (np.array(column) for column in zip(*pairs, strict=True))
    zeros = np.zeros(len(pairs))
    return PairLoss(Preferences(winner, loser, c.astype(float), zeros.astype(int), zeros, zeros.astype(int)), weight)


def view(ratios: dict[int, float], step_rows: int, lengths: dict[int, int] | None = None) -> View:
    """Rows whose tokens all have the given log-ratio to the sampling policy, so that d is that ratio."""
    rows = np.array(list(ratios))
    width = max((lengths or {}).values(), default=3)
    mask = torch.tensor([[t < (lengths or {}).get(int(r), width) for t in range(width)] for r in rows])
    old = torch.full(mask.shape, -1.5, dtype=torch.float64) * mask
    new = (old + torch.tensor([[r] for r in ratios.values()], dtype=torch.float64)) * mask
    return View(rows, new.requires_grad_(), old, mask, step_rows)


WORKED = ((10, 11, 1 / 3), (12, 13, 0.7 / 6))
RATIOS = {10: 0.02, 11: -0.01, 12: -0.03, 13: 0.01}


def test_worked_number() -> None:
    """(⅓ · softplus(−0.03) + 0.116667 · softplus(0.04)) / ⌊8/2⌋."""
    assert loss_of(*WORKED)(view(RATIOS, step_rows=8)).item() == pytest.approx(0.0773276, abs=5e-8)


def test_responses_count_by_their_mean_not_their_sum() -> None:
    lengths = {10: 1, 11: 5, 12: 2, 13: 4}
    assert loss_of(*WORKED)(view(RATIOS, 8, lengths)).item() == pytest.approx(0.0773276, abs=5e-8)


def test_the_split_into_micro_batches_changes_nothing() -> None:
    """Value and gradient over the whole step equal the sums over parts that keep each pair together."""
    loss = loss_of(*WORKED)
    whole = view({10: 0.02, 7: 0.5, 11: -0.01, 12: -0.03, 8: 0.1, 13: 0.01, 9: 0.0, 6: 0.2}, step_rows=8)
    loss(whole).backward()
    expected, whole.logp.grad = whole.logp.grad, None
    parts = [whole.part(0, 1, 2), whole.part(6, 5, 3), whole.part(7, 4)]
    values = [loss(part) for part in parts]
    torch.stack(values).sum().backward()
    assert sum(v.item() for v in values) == pytest.approx(0.0773276, abs=5e-8)
    assert values[2].item() == 0
    torch.testing.assert_close(whole.logp.grad, expected, rtol=1e-14, atol=0)


def test_pairs_that_do_not_share_a_micro_batch_are_left_out() -> None:
    whole = view(RATIOS, step_rows=8)
    alone = loss_of(WORKED[0])(whole)
    assert loss_of(*WORKED)(whole.part(0, 1, 2)).item() == alone.item()
    assert loss_of(*WORKED)(whole.part(0, 2)).item() == 0


def test_gradient_at_the_sampling_policy() -> None:
    """∂L/∂logp = ∓ c / (2 |y| ⌊|B|/2⌋) on the tokens of the winner and the loser, 0 elsewhere."""
    lengths = {10: 2, 11: 4, 5: 4}
    at_old = view({10: 0.0, 11: 0.0, 5: 0.0}, step_rows=7, lengths=lengths)
    loss_of((10, 11, 0.5))(at_old).backward()
    grad = at_old.logp.grad
    assert grad is not None
    winner, loser = -0.5 / (2 * 2 * 3), 0.5 / (2 * 4 * 3)
    expected = torch.tensor([[winner] * 2 + [0] * 2, [loser] * 4, [0] * 4], dtype=torch.float64)
    torch.testing.assert_close(grad, expected)


def test_effective_credit_is_plus_minus_lambda_c() -> None:
    """With equal lengths and |B| even, the weighted loss pulls like advantages ±λc under the token-mean policy loss."""
    weight, c, batch = 0.8, 1 / 3, view(dict.fromkeys(range(8), 0.0), step_rows=8)
    loss = loss_of((2, 5, c), weight=weight)
    (loss.weight * loss(batch)).backward()
    pulled, batch.logp.grad = batch.logp.grad, None
    advantage = torch.zeros(8, 1, dtype=torch.float64)
    advantage[2], advantage[5] = weight * c, -weight * c
    ratio = torch.exp(batch.logp - batch.old_logp)
    (-(advantage * ratio * batch.mask).sum() / batch.mask.sum()).backward()
    torch.testing.assert_close(pulled, batch.logp.grad)


def test_loss_falls_as_the_winner_gains() -> None:
    better = {**RATIOS, 10: 0.5, 12: 0.5}
    assert loss_of(*WORKED)(view(better, 8)).item() < loss_of(*WORKED)(view(RATIOS, 8)).item()


def test_no_preferences() -> None:
    nothing = np.zeros(0, np.int64)
    empty = PairLoss(Preferences(nothing, nothing, np.zeros(0), nothing, np.zeros(0), nothing))
    assert empty.pairs.shape == (0, 2)
    assert empty(view(RATIOS, 8)).item() == 0


def test_a_reweighted_loss_is_the_same_loss_under_another_coefficient() -> None:
    inner = loss_of(*WORKED, weight=1.0)
    outer = Weighted(inner, 0.25)
    assert isinstance(outer, AuxiliaryLoss)
    assert isinstance(inner, AuxiliaryLoss)
    assert (outer.weight, outer.name) == (0.25, "pair")
    np.testing.assert_array_equal(outer.pairs, inner.pairs)
    assert outer(view(RATIOS, 8)).item() == inner(view(RATIOS, 8)).item()
