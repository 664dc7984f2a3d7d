"""A folder as `model=hf` reads it: a small random Qwen2 or Qwen3 with a byte-level BPE trained on the environment's texts."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    GenerationConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)

from creditlab.cli import compose_job
from creditlab.policy.prompts import render
from creditlab.policy.settings import PromptSettings
from creditlab.training.demonstrations import demonstrate
from creditlab.training.settings import WarmStartSettings

END, START, STOP = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
PLAIN = (
    "{% for m in messages %}" + START + "{{ m.role }}\n{{ m.content }}" + STOP + "\n{% endfor %}"
    "{% if add_generation_prompt %}" + START + "assistant\n{% endif %}"
)  # fmt: skip
"""A chat template in the manner of ChatML."""
THINKING = PLAIN.removesuffix("{% endif %}") + (
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
"""The same with a switch: without thinking, the answer begins after an empty thought."""


@functools.cache
def corpus() -> tuple[str, ...]:
    """Texts that hold every word of the environment, and full prompts of demonstrated decisions."""
    env = compose_job(["env.families=[pick,look,clean,heat,cool,two]", "env.rooms=[]"]).env
    shown = demonstrate(env, WarmStartSettings(games=6, demonstrations=1))
    settings = PromptSettings(layout="full", style="think_action", history=2, past_actions=0)
    return (*env.vocabulary(), *(render(settings, context) for context in shown.contexts))


def bpe(template: str | None = THINKING, size: int = 1200) -> Any:
    """The tokenizer; thoughts have tokens of their own, as in Qwen3, and are no special tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[END, START, STOP],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(corpus(), trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False) for tag in ("<think>", "</think>")])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=STOP, pad_token=END)
    fast.chat_template = template
    return fast


def save_qwen(folder: Path, *, family: str = "qwen2", template: str | None = THINKING, seed: int = 0, **options: Any) -> Path:
    """Writes model and tokenizer; `options` go into the model's configuration."""
    tokenizer = bpe(template)
    shape = {
        "vocab_size": len(tokenizer) + 7,  # padded, as published models are
        "hidden_size": 64,
        "intermediate_size": 160,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "tie_word_embeddings": True,
        "max_position_embeddings": 4096,
    }
    config_class, model_class = {
        "qwen2": (Qwen2Config, Qwen2ForCausalLM),
        "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    }[family]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = model_class(config_class(**{**shape, **options}))
    model.generation_config = GenerationConfig(
        eos_token_id=[tokenizer.convert_tokens_to_ids(STOP), tokenizer.convert_tokens_to_ids(END)],
        pad_token_id=tokenizer.convert_tokens_to_ids(END),
        do_sample=True,
        temperature=0.7,
        top_p=0.8,
        top_k=20,
        repetition_penalty=1.5,
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
