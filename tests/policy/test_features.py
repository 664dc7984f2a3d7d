"""Hidden states at the end of a prompt: the model's own, whatever stands beside them in a call."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from creditlab.credit.types import Feature
from creditlab.policy.features import hidden_states
from creditlab.rollouts import Rows
from creditlab.testing import move, siblings, walk
from creditlab.training.features import record_features

PROMPTS = [np.arange(n, dtype=np.int32) % 30 for n in (3, 9, 1, 5)]


@pytest.fixture(scope="module")
def model() -> Qwen2ForCausalLM:
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=30, hidden_size=16, intermediate_size=32, num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=2
    )
    return Qwen2ForCausalLM(config).train()


@pytest.mark.parametrize("layer", [-1, 0, 1, 3, -2])
def test_each_is_the_models_own_for_that_prompt_alone(model: Qwen2ForCausalLM, layer: int) -> None:
    found = hidden_states(model, PROMPTS, layer, batch_size=3)
    for prompt, vector in zip(PROMPTS, found, strict=True):
        with torch.no_grad():
            alone = model(torch.from_numpy(prompt.astype(np.int64))[None], output_hidden_states=True).hidden_states[layer][
                0, -1
            ]
        np.testing.assert_allclose(vector, alone.numpy(), atol=1e-6)
    assert model.training


def test_no_logits_are_computed_and_no_call_is_larger_than_asked(model: Qwen2ForCausalLM) -> None:
    sizes: list[int] = []

    def refuse(*_: object) -> None:
        raise AssertionError("logits of every prompt token do not fit at the size of a real vocabulary")

    with (
        model.lm_head.register_forward_pre_hook(refuse),
        model.model.embed_tokens.register_forward_pre_hook(lambda _, given: sizes.append(len(given[0]))),
    ):
        hidden_states(model, PROMPTS, -2, batch_size=3)
    assert sizes == [3, 1]


@pytest.mark.parametrize("layer", [-1, 1])
def test_a_call_that_fails_leaves_the_model_as_it_was(model: Qwen2ForCausalLM, layer: int) -> None:
    hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]
    with pytest.raises(IndexError):
        hidden_states(model, [np.array([30])], layer, batch_size=1)  # the vocabulary ends at 29
    assert model.training
    assert hooks == [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in model.modules()]


def test_a_layer_that_is_not_there(model: Qwen2ForCausalLM) -> None:
    for layer in (4, -5):
        with pytest.raises(ValueError, match=f"layer={layer} does not exist: the model has 3 layers"):
            hidden_states(model, PROMPTS, layer, batch_size=2)


def test_features_stand_with_their_decisions(model: Qwen2ForCausalLM) -> None:
    """Two names of one model are computed at their own layers, and a failed trajectory gets nothing."""
    group = siblings("g", walk(move("a", "x"), move("b", "y")), walk(move("a", "x"), error="broken"), walk(move("b", "y")))
    features = (Feature("one", "actor", -1), Feature("two", "reference", 1))
    (recorded,) = record_features([group], features, {"actor": model, "reference": model}, batch_size=2)
    rows = Rows.from_groups([recorded])
    prompt = [np.zeros(1, np.int32)]  # the kit's prompts
    for name, layer in (("one", -1), ("two", 1)):
        assert rows.features[name].shape == (3, 16)
        np.testing.assert_allclose(
            rows.features[name], np.repeat(hidden_states(model, prompt, layer, 1), 3, axis=0), atol=1e-6
        )
    assert not recorded.trajectories[1].steps[0].features


def test_without_features_nothing_is_computed() -> None:
    group = siblings("g", walk(move("a", "x")), walk(move("b", "y")))
    assert record_features([group], (), {}, batch_size=2) == (group,)
