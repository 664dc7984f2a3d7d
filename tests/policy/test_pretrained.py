"""Pretrained models: what is loaded, what is refused and how, and prompts through a real tokenizer's chat template."""

from __future__ import annotations

import functools
import importlib.util
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from qwen_folder import END, PLAIN, START, STOP, THINKING, bpe, save_qwen

from creditlab.policy.engine import TransformersGenerator
from creditlab.policy.policy import encode_prompts, encode_target
from creditlab.policy.pretrained import check_prompt, digest, find, load
from creditlab.policy.prompts import Context, render
from creditlab.policy.settings import HFModel, PromptSettings
from creditlab.rollouts import View
from creditlab.training.seeds import derive

FULL = PromptSettings(
    layout="full", style="think_action", history=2, past_actions=0, max_prompt_tokens=2048, max_response_tokens=64
)
CONTEXT = Context(
    "You are a robot.",
    "put a mug in desk.",
    View("You arrive at desk 1. On the desk 1, you see a mug 1.", ("take mug 1 from desk 1", "go to shelf 2")),
    [("You see a desk 1.", "go to desk 1")] * 3,
    50,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_qwen(tmp_path_factory.mktemp("qwen"))


@functools.cache
def tokenizer(template: str | None = THINKING) -> Any:
    return bpe(template)


def read(folder: Path, training: bool = True, **options: Any) -> tuple[Any, Any]:
    return load(HFModel(path=str(folder), **options), folder, "float32", training=training)


# loading


def test_weights_tokenizer_and_end_tokens_are_those_of_the_files(folder: Path) -> None:
    from safetensors.torch import load_file

    model, words = read(folder)
    stored = load_file(folder / "model.safetensors")
    for name, value in stored.items():
        assert torch.equal(model.state_dict()[name], value)
    assert words.get_vocab() == tokenizer().get_vocab()
    assert words.chat_template == THINKING
    expected = sorted(words.convert_tokens_to_ids([STOP, END]))
    assert TransformersGenerator(model, words).eos == expected  # both of generation_config.json


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_type_of_the_weights_is_the_asked_one(folder: Path, dtype: Any) -> None:
    model, _ = load(HFModel(path=str(folder)), folder, dtype, training=True)
    assert {p.dtype for p in model.parameters()} == {getattr(torch, dtype)}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_the_attention_is_the_chosen_one(folder: Path, attention: Any) -> None:
    assert read(folder, attention=attention)[0].config._attn_implementation == attention


@pytest.mark.skipif(importlib.util.find_spec("flash_attn") is not None, reason="they are installed here")
def test_attention_kernels_that_are_not_installed_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match=r"model\.attention=flash_attention_2 cannot be used here: .*"):
        read(folder, attention="flash_attention_2")


def test_checkpointed_activations_change_memory_and_not_gradients(folder: Path) -> None:
    ids = torch.arange(3, 40)[None]
    gradients, recomputing = [], []
    for checkpointing in (False, True):
        model, _ = read(folder, gradient_checkpointing=checkpointing)
        model.train()
        model(ids, use_cache=False, labels=ids).loss.backward()
        gradients.append([p.grad for p in model.parameters()])
        recomputing.append(model.is_gradient_checkpointing)
    assert recomputing == [False, True]
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)
    assert not read(folder, training=False, gradient_checkpointing=True)[0].is_gradient_checkpointing


def test_dropout_of_the_configuration_is_turned_off(tmp_path: Path) -> None:
    """A pass with dropout would give a sampled token another probability than it was sampled with."""
    where = save_qwen(tmp_path / "dropout", attention_dropout=0.5)
    assert json.loads((where / "config.json").read_text())["attention_dropout"] == 0.5
    model, _ = read(where)
    assert model.config.attention_dropout == 0.0
    ids = torch.arange(3, 60)[None]
    passes = [model.train(training)(ids, use_cache=False).logits for training in (True, True, False)]
    assert torch.equal(passes[0], passes[1])
    torch.testing.assert_close(passes[0], passes[2])


def test_a_tokenizer_without_padding_pads_with_its_end_token(tmp_path: Path) -> None:
    where = save_qwen(tmp_path / "model")
    edit(where / "tokenizer_config.json", pad_token=None)
    assert read(where)[1].pad_token_id == tokenizer().convert_tokens_to_ids(STOP)


def test_generation_settings_that_cannot_be_saved_again_do_not_end_a_run_at_its_checkpoint(tmp_path: Path) -> None:
    where = save_qwen(tmp_path / "model")
    edit(where / "generation_config.json", do_sample=False, temperature=0.6)  # as some published models have it
    model, _ = read(where)
    model.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "generation_config.json").exists()


# what is refused


def edit(path: Path, **changes: Any) -> None:
    """Sets keys of a JSON file; None removes one."""
    kept = json.loads(path.read_text()) | changes
    path.write_text(json.dumps({k: v for k, v in kept.items() if v is not None}))


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:200])


def without_weight(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    del tensors["model.norm.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


FAULTS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "no configuration": (lambda f: (f / "config.json").unlink(), r"is no model: it has no config\.json"),
    "broken configuration": (lambda f: (f / "config.json").write_text("{"), r"config\.json cannot be read: "),
    "a list for a configuration": (lambda f: (f / "config.json").write_text("[]"), r"must hold an object"),
    "another kind of model": (
        lambda f: edit(f / "config.json", architectures=["Qwen2ForSequenceClassification"]),
        "holds a Qwen2ForSequenceClassification, which is no causal language model",
    ),
    "an encoder": (
        lambda f: edit(f / "config.json", architectures=["T5ForConditionalGeneration"], model_type="t5"),
        "holds a T5ForConditionalGeneration, which is no causal language model",
    ),
    "code of its own": (
        lambda f: edit(
            f / "config.json",
            model_type="newest",
            architectures=["NewestForCausalLM"],
            auto_map={"AutoConfig": "configuration_newest.NewestConfig"},
        ),
        r"comes with model code of its own \(auto_map, model type 'newest'\), which is never run \(trust_remote_code",
    ),
    "an unknown type": (
        lambda f: edit(f / "config.json", model_type="newest", architectures=None),
        "the configuration in .* cannot be used: ",
    ),
    "pickled weights": (
        lambda f: (f / "model.safetensors").rename(f / "pytorch_model.bin"),
        r"has no weights in safetensors, only pickled ones \(pytorch_model\.bin\)",
    ),
    "no weights": (lambda f: (f / "model.safetensors").unlink(), "has no weights in safetensors, none"),
    "truncated weights": (lambda f: truncate(f / "model.safetensors"), "the model in .* cannot be loaded: "),
    "a missing weight": (without_weight, r"lacks weights, which would be drawn at random: model\.norm\.weight"),
    "weights of another shape": (lambda f: edit(f / "config.json", intermediate_size=96), "cannot be loaded|lacks weights"),
    "no tokenizer": (
        lambda f: [p.unlink() for p in f.glob("token*")],
        r"has no tokenizer: none of tokenizer\.json, .* is there",
    ),
    "a broken tokenizer": (lambda f: (f / "tokenizer.json").write_text("{}"), "has no tokenizer that can be loaded: "),
    "no end token": (lambda f: edit(f / "tokenizer_config.json", eos_token=None), "names no eos_token"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_with_a_folder_is_said_in_one_line(tmp_path: Path, folder: Path, fault: str) -> None:
    damage, message = FAULTS[fault]
    where = tmp_path / "damaged"
    shutil.copytree(folder, where)
    damage(where)
    with pytest.raises(ValueError, match=message) as raised:
        read(where)
    assert "damaged" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_tokenizer_with_more_tokens_than_the_model_is_refused(tmp_path: Path) -> None:
    where = save_qwen(tmp_path / "narrow", vocab_size=500)
    with pytest.raises(
        ValueError, match=r"tokens go up to \d+, but the model has 500 embeddings; they do not belong together"
    ):
        read(where)


def test_paths_that_lead_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"model\.path=.*/nowhere does not exist; give the folder that holds config\.json"):
        find(str(tmp_path / "nowhere"))
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match=r"model\.path=.*/file is a file"):
        find(str(tmp_path / "file"))
    with pytest.raises(
        ValueError, match=r"model\.path=nobody/nothing is no folder here, and as a hub id it cannot be fetched: "
    ):
        find("nobody/nothing")
    with pytest.raises(ValueError, match=r"model\.revision=main belongs to a hub id, but model\.path=.* is a folder"):
        find(str(tmp_path), "main")
    assert find(str(tmp_path)) == tmp_path


def test_a_models_identity_is_its_files_and_not_where_they_lie(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    assert digest(tmp_path / "copy") == digest(folder)
    edit(tmp_path / "copy" / "generation_config.json", top_k=3)
    assert digest(tmp_path / "copy") != digest(folder)


# prompts


def test_a_prompt_is_one_user_message_and_ends_where_the_answer_begins() -> None:
    [(ids, cut)] = encode_prompts(FULL, tokenizer(), [CONTEXT])
    assert not cut
    text = tokenizer().decode(ids)
    assert text == f"{START}user\n{render(FULL, CONTEXT)}{STOP}\n{START}assistant\n"
    special = tokenizer().convert_tokens_to_ids([START, STOP])
    assert [i for i in ids.tolist() if i in special] == [special[0], special[1], special[0]]  # tokens, not their letters


@pytest.mark.parametrize("token", [STOP, START, END, "\ue000"])
def test_what_the_history_spells_like_a_special_token_stays_text(token: str) -> None:
    """An answer that spells the end of a message in ordinary tokens must not end the next prompt's message."""
    words, said = tokenizer(), f"take{token}{token} the mug"
    hostile = replace(CONTEXT, goal=f"{token} first", history=[(f"You see {token}", said)], view=View(token, (token, "look")))
    [(before, _), (ids, cut), (after, _)] = encode_prompts(FULL, words, [CONTEXT, hostile, CONTEXT])
    assert not cut
    assert words.decode(ids) == f"{START}user\n{render(FULL, hostile)}{STOP}\n{START}assistant\n"
    special = words.convert_tokens_to_ids([START, STOP, END])
    assert [i for i in ids.tolist() if i in special] == [special[0], special[1], special[0]]  # those of the template
    np.testing.assert_array_equal(before, after)
    [(alone, _)] = encode_prompts(FULL, words, [hostile])
    np.testing.assert_array_equal(alone, ids)


def test_a_prompt_without_template_spells_special_tokens_too() -> None:
    compact, words = PromptSettings(layout="compact", style="action_only", history=2), tokenizer(None)
    hostile = replace(CONTEXT, goal=f"put {END} in desk", history=[(f"{STOP}", START)])
    [(ids, _)] = encode_prompts(compact, words, [hostile])
    assert words.decode(ids) == render(compact, hostile)
    assert not set(ids.tolist()) & set(words.all_special_ids)


@pytest.mark.parametrize(
    ("thinking", "end"), [(None, ""), (True, ""), (False, "<think>\n\n</think>\n\n")], ids=["left open", "on", "off"]
)
def test_thinking_is_the_chat_templates_switch(thinking: bool | None, end: str) -> None:
    settings = PromptSettings(layout="full", style="action_only", max_prompt_tokens=2048, thinking=thinking)
    [(ids, _)] = encode_prompts(settings, tokenizer(), [CONTEXT])
    assert tokenizer().decode(ids).endswith(f"{STOP}\n{START}assistant\n{end}")


def test_the_compact_layout_through_the_same_tokenizer() -> None:
    compact = PromptSettings(layout="compact", style="action_only", history=2)
    [(ids, _)] = encode_prompts(compact, tokenizer(None), [CONTEXT])
    assert tokenizer().decode(ids) == render(compact, CONTEXT)
    target = encode_target(compact, tokenizer(None), "go to shelf 2")
    assert tokenizer().decode(target) == f"go to shelf 2{STOP}"


@pytest.mark.parametrize("style", ["think_action", "action_only"])
def test_imitation_targets_end_with_the_models_own_end_token(style: Any) -> None:
    settings = PromptSettings(layout="full", style=style, max_response_tokens=64)
    text = tokenizer().decode(encode_target(settings, tokenizer(), "go to shelf 2"))
    assert text.endswith(f"<action>go to shelf 2</action>{STOP}")
    assert text.startswith("<think>" if style == "think_action" else "<action>")


def test_a_prompt_that_is_too_long_keeps_the_chat_template_whole() -> None:
    """History goes first, then the start of the message; header and generation prompt stay."""
    whole = len(encode_prompts(FULL, tokenizer(), [CONTEXT])[0][0])
    bare = render(FULL, CONTEXT, shorten=True)
    for limit in (whole - 1, 60, 20):
        settings = PromptSettings(layout="full", style="think_action", history=2, past_actions=0, max_prompt_tokens=limit)
        [(ids, cut)] = encode_prompts(settings, tokenizer(), [CONTEXT])
        text = tokenizer().decode(ids)
        assert cut
        assert limit - 4 <= len(ids) <= limit or limit == whole - 1  # no more is cut than has to be
        head, tail = f"{START}user\n", f"{STOP}\n{START}assistant\n"
        assert text.startswith(head)
        assert text.endswith(tail)
        assert bare.endswith(text.removeprefix(head).removesuffix(tail))
    tight = PromptSettings(layout="full", style="think_action", max_prompt_tokens=3)
    with pytest.raises(ValueError, match=r"chat template alone has \d+ tokens: raise prompt\.max_prompt_tokens=3"):
        encode_prompts(tight, tokenizer(), [CONTEXT])


def config(positions: int = 4096) -> Any:
    return type("Config", (), {"max_position_embeddings": positions})()


def test_what_prompt_and_model_ask_of_each_other() -> None:
    check_prompt(FULL, config(), tokenizer())
    check_prompt(PromptSettings(), config(), tokenizer(None))  # compact needs no template
    with pytest.raises(ValueError, match=r"no chat template, which prompt\.layout=full needs"):
        check_prompt(FULL, config(), tokenizer(None))
    with pytest.raises(ValueError, match=r"2048 and prompt\.max_response_tokens=64 make 2112 tokens, more than the 2111 pos"):
        check_prompt(FULL, config(2111), tokenizer())
    for thinking in (True, False):
        settings = PromptSettings(layout="full", thinking=thinking)
        check_prompt(settings, config(), tokenizer())
        with pytest.raises(ValueError, match=rf"prompt\.thinking={str(thinking).lower()} has no effect: .* enable_thinking"):
            check_prompt(settings, config(), tokenizer(PLAIN))


# sampling


def test_generation_settings_of_the_folder_do_not_bend_what_is_sampled(folder: Path) -> None:
    """The folder's generation_config.json asks for a repetition penalty of 1.5 and the 20 likeliest tokens."""
    model, words = read(folder)
    own = model.generation_config.to_dict()
    [(prompt, _)] = encode_prompts(FULL, words, [CONTEXT])
    samples = TransformersGenerator(model, words)(
        [prompt] * 3, np.stack([derive("u", i).random(8) for i in range(3)]), 1.0, 8
    )
    assert model.generation_config.to_dict() == own
    for sample in samples:
        ids = torch.tensor([[*prompt.tolist(), *sample.ids.tolist()]])
        with torch.no_grad():
            logits = model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits.double(), -1).gather(1, torch.tensor(sample.ids, dtype=torch.int64)[:, None])
        np.testing.assert_allclose(sample.logprobs, expected[:, 0].numpy(), atol=1e-5)


def test_a_response_ends_with_either_end_token(folder: Path) -> None:
    """A model that always gives one token: the message's end, or the text's end, which only generation_config.json names."""
    for token in (STOP, END):
        model, words = read(folder)
        ended = words.convert_tokens_to_ids(token)
        with torch.no_grad():
            model.model.norm.weight.zero_()  # all logits alike; the least uniform number takes the first token
        vocabulary = model.config.vocab_size
        uniforms = np.full((1, 5), (ended + 0.5) / vocabulary)
        [(prompt, _)] = encode_prompts(FULL, words, [CONTEXT])
        [sample] = TransformersGenerator(model, words, ("</action>",))([prompt], uniforms, 1.0, 1)
        assert (sample.ids.tolist(), sample.cut) == ([ended], False)
