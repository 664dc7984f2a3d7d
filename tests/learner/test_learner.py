"""One update of the DeepSpeed learner: the gradient of the definition, whatever the split, and refusals by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_batches import (
    Watching,
    largest_difference,
    learner,
    model,
    permuted,
    rollouts,
    tokenizer,
    train_batch,
    weights,
)

from creditlab.credit.types import Credit
from creditlab.learner.batching import plan_steps
from creditlab.learner.learner import Learner
from creditlab.learner.sequences import MicroBatch, TrainBatch
from creditlab.learner.settings import DeepSpeedLearner
from creditlab.registry import registry
from creditlab.rollouts import RolloutBatch, Rows, StopReason
from creditlab.training.seeds import derive

ONE_STEP: dict[str, Any] = {"steps": 1, "micro_batch": 64}
AGGREGATIONS = ("token_mean", "seq_mean_token_mean", "seq_mean_token_sum")


def gradients(batch: TrainBatch, monkeypatch: pytest.MonkeyPatch, **options: Any) -> dict[str, torch.Tensor]:
    """The gradient that the first optimizer step would apply, before clipping."""
    trained = learner(max_grad_norm=0.0, **{**ONE_STEP, **options})
    found: dict[str, torch.Tensor] = {}
    monkeypatch.setattr(
        trained.optimizer,
        "step",
        lambda closure=None: found.update({n: p.grad.clone() for n, p in trained.module.named_parameters()}),
    )
    trained.update(batch, seed=3)
    return found


def relative(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> float:
    scale = max(float(value.abs().max()) for value in first.values())
    return largest_difference(first, second) / scale


def definition(
    policy: Any, batch: TrainBatch, rows: list[int], settings: DeepSpeedLearner, reference: Any = None
) -> torch.Tensor:
    """The loss of an optimizer step, token by token and without padding, as the method's definition gives it."""
    count = sum(len(batch.responses[r]) for r in rows)
    answered = sum(len(batch.responses[r]) > 0 for r in rows)
    total = torch.zeros(())
    for r in rows:
        prompt, response = batch.prompts[r], batch.responses[r]
        if not len(response):
            continue
        ids = torch.tensor([[*prompt.tolist(), *response.tolist()]])
        scores = torch.log_softmax(policy(ids).logits[0, len(prompt) - 1 : -1], -1)
        frozen = torch.log_softmax(reference(ids).logits[0, len(prompt) - 1 : -1], -1) if reference else None
        row = torch.zeros(())
        for position, token in enumerate(response.tolist()):
            logp, advantage = scores[position, token], float(batch.advantages[r])
            ratio = torch.exp(logp - float(batch.old_logp[r][position]))
            loss = torch.maximum(-advantage * ratio, -advantage * ratio.clamp(1 - settings.clip, 1 + settings.clip))
            if advantage < 0:
                loss = torch.minimum(loss, torch.tensor(-advantage * settings.dual_clip))
            loss = loss + settings.entropy * (scores[position].exp() * scores[position]).sum()
            if frozen is not None:
                delta = frozen[position, token].detach() - logp
                loss = loss + settings.kl * (delta.exp() - delta - 1)
            row = row + loss
        if settings.aggregation == "token_mean":
            total = total + row / count
        else:
            mean = settings.aggregation == "seq_mean_token_mean"
            total = total + row / (len(response) if mean else 1) / answered
    return total


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
@pytest.mark.parametrize("kl", [0.0, 0.5])
def test_the_gradient_is_that_of_the_definition(aggregation: Any, kl: float, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = train_batch(shift=0.5)
    reference = model(seed=9) if kl else None
    options = {"aggregation": aggregation, "kl": kl, "entropy": 0.05}
    found = gradients(batch, monkeypatch, reference=reference, **options)
    policy = model()
    definition(policy, batch, list(range(len(batch))), DeepSpeedLearner(**options), reference).backward()
    expected = {f"model.{name}": value.grad for name, value in policy.named_parameters()}
    assert relative(expected, found) < 2e-6


def test_updates_equal_a_plain_loop_with_adamw_and_clipping() -> None:
    """Two updates of three optimizer steps; the plan says which decisions each step holds, the rest is written out."""
    settings = DeepSpeedLearner(lr=1e-3, steps=3, micro_batch=5, max_grad_norm=0.05, weight_decay=0.1)
    trained = Learner(model(), settings, pad=tokenizer().pad_token_id)
    policy = model()
    optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for update in (1, 2):
        batch = train_batch(seed=update, shift=0.3)
        assert trained.update(batch, seed=update).skipped is None
        plans = plan_steps(batch.keys, np.ones(len(batch), np.int64), [], steps=3, mini_batch=1, micro_batch=1, seed=update)
        for plan in plans:
            optimizer.zero_grad()
            definition(policy, batch, np.concatenate(plan.micro_batches).tolist(), settings).backward()
            assert torch.nn.utils.clip_grad_norm_(policy.parameters(), 0.05) > 0.05  # the clip binds
            optimizer.step()
    expected = {f"model.{name}": value.detach() for name, value in policy.named_parameters()}
    assert largest_difference(weights(trained), {f"model.{n}": p.detach() for n, p in model().named_parameters()}) > 1e-3
    assert largest_difference(expected, weights(trained)) < 1e-6


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_micro_batches_padding_and_row_order_change_nothing(aggregation: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = train_batch(shift=0.5)
    whole = gradients(batch, monkeypatch, aggregation=aggregation)
    long = replace(  # one long prompt pads all others in its micro-batch
        batch, prompts=(*batch.prompts[:-1], np.resize(batch.prompts[-1], 60))
    )
    for micro_batch in (1, 3, 7):
        assert relative(whole, gradients(batch, monkeypatch, aggregation=aggregation, micro_batch=micro_batch)) < 1e-6
    order = derive("rows").permutation(len(batch))
    again = gradients(permuted(batch, order), monkeypatch, aggregation=aggregation, micro_batch=3)
    assert relative(whole, again) < 1e-6
    padded = gradients(long, monkeypatch, aggregation=aggregation)
    assert relative(padded, gradients(long, monkeypatch, aggregation=aggregation, micro_batch=1)) < 1e-6


def test_decisions_without_response_tokens_count_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = train_batch()
    empty = [r for r in range(len(batch)) if not len(batch.responses[r])]
    assert empty
    advantages = batch.advantages.copy()
    advantages[empty] = 1e6
    kept = np.setdiff1d(np.arange(len(batch)), empty)
    for aggregation in AGGREGATIONS:
        one = gradients(replace(batch, advantages=advantages), monkeypatch, aggregation=aggregation)
        assert relative(one, gradients(permuted(batch, kept), monkeypatch, aggregation=aggregation)) < 1e-6


def test_a_batch_of_nothing_but_empty_decisions_is_no_accident() -> None:
    batch = train_batch()
    nothing = permuted(batch, np.array([r for r in range(len(batch)) if not len(batch.responses[r])]))
    for given in (nothing, permuted(batch, np.zeros(0, np.int64))):
        trained = learner(weight_decay=0.0)
        before = weights(trained)
        assert trained.update(given, seed=0).skipped is None
        assert largest_difference(before, weights(trained)) == 0.0


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_ratio_is_one_on_fresh_samples_and_moves_afterwards(temperature: float) -> None:
    batch = train_batch(temperature=temperature)
    trained = learner(temperature=temperature, lr=1e-2, steps=2)
    metrics = trained.update(batch, seed=0).metrics
    assert metrics["actor/ratio_p95_first"] < 1e-4
    assert metrics["actor/ratio_p95"] > 1e-3  # the mean over both steps: the second one sees moved weights
    wrong = learner(temperature=temperature * 0.8, steps=1)
    assert wrong.update(batch, seed=0).metrics["actor/ratio_p95_first"] > 1e-2  # another temperature shows


def test_metrics_are_means_over_tokens_of_the_whole_step() -> None:
    batch = train_batch(shift=0.5)
    expected = definition(model(), batch, list(range(len(batch))), DeepSpeedLearner()).item()
    for micro_batch in (64, 4):
        metrics = learner(steps=1, micro_batch=micro_batch).update(batch, seed=0).metrics
        assert metrics["actor/loss"] == pytest.approx(expected, rel=1e-5)
        assert metrics["actor/pg_loss"] - 0.01 * metrics["actor/entropy"] == pytest.approx(expected, rel=1e-5)
        assert 0 < metrics["actor/pg_clipfrac"] < 1
        assert metrics["actor/optimizer_steps"] == 1.0
        assert metrics["actor/grad_norm"] > 0


def test_steps_and_epochs_count_optimizer_steps() -> None:
    batch = train_batch()
    for options, expected in [
        ({"steps": 2}, 2),
        ({"steps": 2, "epochs": 3}, 6),
        ({"steps": None, "mini_batch": len(batch)}, 1),
    ]:
        assert learner(**options).update(batch, seed=0).metrics["actor/optimizer_steps"] == expected


# what is trained


def test_exactly_the_sampled_tokens_are_trained() -> None:
    """Ids, log-probabilities and mask of a micro-batch come from the records, not from texts or padding values."""
    batch = rollouts(seed=2)
    pad, eos = tokenizer().pad_token_id, tokenizer().eos_token_id
    step = batch.groups[0].trajectories[0].steps[0]
    odd = replace(  # holds the padding token and an end token in the middle, which no text shows
        step,
        response_ids=np.array([5, pad, eos, 5], np.int32),
        logprobs=np.array([-1, -2, -3, -4], np.float32),
        response="another text",
    )
    first = replace(batch.groups[0].trajectories[0], steps=(odd, *batch.groups[0].trajectories[0].steps[1:]))
    group = replace(batch.groups[0], trajectories=(first, *batch.groups[0].trajectories[1:]))
    records = RolloutBatch((group, *batch.groups[1:]), 1, 0)
    rows = Rows.from_batch(records)
    built = TrainBatch.build(records, rows, Credit(np.arange(len(rows), dtype=np.float64)))
    micro = MicroBatch.build(built, np.arange(len(rows)), pad, torch.device("cpu"))
    steps = [
        step
        for group in records.groups
        for trajectory in group.trajectories
        if trajectory.stop is not StopReason.ERROR
        for step in trajectory.steps
    ]
    assert steps[0] is odd
    longest = max(len(step.prompt_ids) for step in steps)
    for row, step in enumerate(steps):
        length = len(step.response_ids)
        assert micro.mask[row].tolist() == [True] * length + [False] * (micro.mask.shape[1] - length)
        assert micro.ids[row, longest : longest + length].tolist() == step.response_ids.tolist()
        assert micro.old_logp[row, :length].tolist() == step.logprobs.tolist()
        real = len(step.prompt_ids) + length
        start = longest - len(step.prompt_ids)
        assert micro.ids[row, start : start + real].tolist() == [*step.prompt_ids.tolist(), *step.response_ids.tolist()]
        assert micro.attention[row].nonzero()[:, 0].tolist() == list(range(start, start + real))
        assert micro.positions[row, start : start + real].tolist() == list(range(real))
        assert float(micro.advantages[row]) == row


def test_error_trajectories_are_not_trained() -> None:
    batch = rollouts(seed=0, groups=6)
    failed = [t for t in batch.trajectories if t.stop is StopReason.ERROR]
    assert failed
    rows = Rows.from_batch(batch)
    built = TrainBatch.build(batch, rows, Credit(np.zeros(len(rows))))
    assert len(built) == sum(len(t.steps) for t in batch.trajectories) - sum(len(t.steps) for t in failed)
    assert len(set(built.keys.tolist())) == len(built)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_an_advantage_that_is_not_finite_is_refused_by_name(value: float) -> None:
    batch = rollouts(seed=0)
    rows = Rows.from_batch(batch)
    advantages = np.zeros(len(rows))
    advantages[4] = value
    group, trajectory = rows.group_names[rows.group[4]], rows.trajectory_names[rows.trajectory[4]]
    name = f"group '{group}', trajectory '{trajectory}', turn {rows.turn[4]}"
    with pytest.raises(ValueError, match=f"advantage is .* at {name}"):
        TrainBatch.build(batch, rows, Credit(advantages))


def test_credit_for_another_number_of_decisions_is_refused() -> None:
    batch = rollouts(seed=0)
    rows = Rows.from_batch(batch)
    with pytest.raises(ValueError, match=f"{len(rows)} rows, got shape"):
        TrainBatch.build(batch, rows, Credit(np.zeros(len(rows) - 1)))


def test_a_pair_of_unknown_rows_is_refused() -> None:
    batch = rollouts(seed=0)
    rows = Rows.from_batch(batch)
    loss = Watching([], np.array([[0, len(rows)]]))
    with pytest.raises(ValueError, match=f"'watching' names row {len(rows)}, but the update has {len(rows)} rows"):
        TrainBatch.build(batch, rows, Credit(np.zeros(len(rows)), (loss,)))


# auxiliary losses and pairs


@pytest.mark.parametrize(("placement", "together"), [("pack", 8), ("filter", None)])
def test_packed_pairs_meet_in_a_micro_batch(placement: Any, together: int | None) -> None:
    seen: list[Any] = []
    count = len(train_batch())
    chosen = derive("pairs").permutation(count)[:16].reshape(8, 2)
    batch = train_batch(auxiliary=[Watching(seen, chosen)])
    metrics = learner(steps=2, micro_batch=3, pair_placement=placement).update(batch, seed=0).metrics
    met = sum(set(pair) <= set(view.rows.tolist()) for view in seen for pair in chosen.tolist())
    assert metrics["actor/watching_realised"] == met  # all of the pass
    assert met == together if together is not None else met < 8
    assert sorted(row for view in seen for row in view.rows.tolist()) == list(range(count))


def test_an_auxiliary_loss_sees_the_step_it_is_part_of() -> None:
    seen: list[Any] = []
    batch = train_batch(auxiliary=[Watching(seen, np.zeros((0, 2), np.int64))])
    learner(steps=1, micro_batch=4).update(batch, seed=0)
    assert len(seen) > 1
    answered = sum(len(response) > 0 for response in batch.responses)
    for view in seen:
        assert view.step_rows == answered
        assert view.mask.sum(1).tolist() == [len(batch.responses[row]) for row in view.rows]
        assert not view.logp[~view.mask].any()
        assert not view.old_logp[~view.mask].any()
        assert torch.allclose(view.logp, view.old_logp, atol=1e-5)  # freshly sampled


def test_auxiliary_losses_are_added_with_their_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    def square(view: Any) -> torch.Tensor:
        return (view.logp**2).sum() / view.step_rows

    base = gradients(train_batch(), monkeypatch)
    one, three = (
        gradients(
            train_batch(auxiliary=[Watching([], np.zeros((0, 2), np.int64), weight, value=square)]),
            monkeypatch,
            micro_batch=5,
        )
        for weight in (1.0, 3.0)
    )
    added = {name: one[name] - base[name] for name in base}
    assert max(float(value.abs().max()) for value in added.values()) > 1e-2
    assert relative({n: base[n] + 3 * added[n] for n in base}, three) < 1e-5


def test_without_weight_pairs_have_no_effect_bit_for_bit() -> None:
    batch = rollouts(seed=5, groups=6, slots=8)
    rows = Rows.from_batch(batch)
    trained = {}
    for name, method in {
        "graphgpo": registry().create("method", "graphgpo"),
        "weightless": registry().create("method", "mcgpo", pair_weight=0.0),
        "mcgpo": registry().create("method", "mcgpo"),
    }.items():
        credit = method(rows)
        if name != "graphgpo":
            assert sum(len(loss.pairs) for loss in credit.auxiliary) > 2
        trained[name] = learner(micro_batch=8, steps=2)
        trained[name].update(TrainBatch.build(batch, rows, credit), seed=0)
    found = {name: weights(one) for name, one in trained.items()}
    assert all(torch.equal(found["graphgpo"][key], found["weightless"][key]) for key in found["graphgpo"])
    assert largest_difference(found["graphgpo"], found["mcgpo"]) > 1e-6


# what is not finite


def broken(batch: TrainBatch, row: int) -> TrainBatch:
    """The batch with a recorded log-probability of one decision that is not a number."""
    old = list(batch.old_logp)
    old[row] = np.full_like(old[row], np.nan)
    return replace(batch, old_logp=tuple(old))


@pytest.mark.parametrize("micro_batch", [64, 3])
def test_a_loss_that_is_not_finite_skips_the_step_and_names_the_decision(micro_batch: int) -> None:
    batch = train_batch()
    row = next(r for r in range(6, len(batch)) if len(batch.responses[r]))
    trained, untouched = learner(steps=1, micro_batch=micro_batch), learner(steps=1, micro_batch=micro_batch)
    before = weights(trained)
    result = trained.update(broken(batch, row), seed=0)
    assert result.skipped is not None
    assert batch.describe(row) in result.skipped
    assert result.metrics["actor/optimizer_steps"] == 0.0
    assert largest_difference(before, weights(trained)) == 0.0
    # nothing of it is left behind: the next update is that of a learner that never met it
    assert trained.update(batch, seed=1).skipped is None
    untouched.update(batch, seed=1)
    assert largest_difference(weights(untouched), weights(trained)) == 0.0


def test_steps_before_the_offending_one_stand() -> None:
    batch = train_batch()
    lengths = np.ones(len(batch), np.int64)
    plans = plan_steps(batch.keys, lengths, [], steps=3, mini_batch=1, micro_batch=1, seed=0)
    second = next(int(r) for r in np.concatenate(plans[1].micro_batches) if len(batch.responses[int(r)]))
    trained, expected = learner(steps=3), learner(steps=3)
    result = trained.update(broken(batch, second), seed=0)
    assert batch.describe(second) in str(result.skipped)
    assert result.metrics["actor/optimizer_steps"] == 1.0
    expected._step(batch, expected._plan(batch, 0)[0])
    assert largest_difference(weights(expected), weights(trained)) == 0.0


def test_a_gradient_that_is_not_finite_is_refused() -> None:
    """√x has no derivative at 0: the loss is 0, its gradient not a number."""
    bad = Watching([], np.zeros((0, 2), np.int64), value=lambda view: (view.logp.sum() * 0.0).abs().sqrt())
    trained, untouched = learner(steps=1, micro_batch=4), learner(steps=1, micro_batch=4)
    before = weights(trained)
    result = trained.update(train_batch(auxiliary=[bad]), seed=0)
    assert "the gradient is not finite in the optimizer step of" in str(result.skipped)
    assert "group 'g" in str(result.skipped)
    assert largest_difference(before, weights(trained)) == 0.0
    trained.update(train_batch(), seed=1)
    untouched.update(train_batch(), seed=1)
    assert largest_difference(weights(untouched), weights(trained)) == 0.0


def test_an_update_uses_no_global_random_state() -> None:
    trained, batch = learner(), train_batch()
    state = torch.get_rng_state(), np.random.get_state()[1].copy()
    trained.update(batch, seed=0)
    assert torch.equal(state[0], torch.get_rng_state())
    assert np.array_equal(state[1], np.random.get_state()[1])
