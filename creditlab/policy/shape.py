"""The size of a model from its configuration alone: no weights are read, nothing is allocated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import try_to_load_from_cache
from transformers import AutoConfig, AutoModelForCausalLM

from creditlab.plaintext import reason
from creditlab.policy.pretrained import read_config

_QWEN25 = {"model_type": "qwen2", "num_hidden_layers": 28}
_QWEN3 = {
    "model_type": "qwen3",
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
KNOWN: Mapping[str, Mapping[str, Any]] = {
    "Qwen/Qwen2.5-1.5B-Instruct": {
        **_QWEN25,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
    },
    "Qwen/Qwen2.5-7B-Instruct": {
        **_QWEN25,
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
    },
    "Qwen/Qwen3-4B": {**_QWEN3, "hidden_size": 2560, "intermediate_size": 9728, "tie_word_embeddings": True},
    "Qwen/Qwen3-8B": {**_QWEN3, "hidden_size": 4096, "intermediate_size": 12288, "tie_word_embeddings": False},
}
"""Facts from the public config.json of the models that the shipped configurations name, so that their memory can be
estimated before they are downloaded."""
_NEEDED = ("num_hidden_layers", "hidden_size", "num_attention_heads", "vocab_size")


@dataclass(frozen=True)
class Shape:
    """What memory depends on in a decoder-only transformer with gated feed-forward layers."""

    parameters: int
    """Trained numbers, tied embeddings counted once."""
    layers: int
    hidden: int
    ffn: int
    heads: int
    kv_heads: int
    head: int
    """Width of one attention head."""
    vocabulary: int
    normed_heads: bool
    """Whether queries and keys are normalised per head, as in Qwen3."""


def shape_of(path: str, revision: str | None = None) -> Shape:
    """The shape of a model in a folder, in the hub's local cache, or among the known ones; nothing is downloaded.

    Raises ValueError where its configuration is not at hand.
    """
    folder = Path(path).expanduser()
    cached = None if folder.is_dir() else try_to_load_from_cache(path, "config.json", revision=revision)
    if folder.is_dir() or isinstance(cached, str):
        try:
            return measure(read_config(folder if folder.is_dir() else Path(str(cached)).parent))
        except ValueError as error:
            raise ValueError(f"model.path={path}: {error}") from None
    if path in KNOWN:
        return measure(AutoConfig.for_model(**KNOWN[path]))
    raise ValueError(
        f"model.path={path} is not on this machine, and its shape is not among the known ones ({', '.join(KNOWN)}); "
        "give the folder of the downloaded model"
    )


def measure(config: Any) -> Shape:
    """The shape behind a configuration of transformers; the parameters are those of a model built without memory.

    Raises ValueError for a model that is no plain decoder-only transformer: one without attention heads, or with experts.
    """
    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)  # type: ignore[no-untyped-call]
    except Exception as error:  # whatever a model raises about a configuration that it cannot be built from
        raise ValueError(f"no model can be built from its configuration: {reason(error)}") from None
    names = [name for name, _ in model.named_parameters()]
    lacking = [key for key in _NEEDED if not getattr(config, key, None)]
    if lacking:
        raise ValueError(f"a model of type {config.model_type} has no {lacking[0]}, on which an estimate depends")
    if any("experts" in name.split(".") for name in names):
        raise ValueError(f"a model of type {config.model_type} consists of experts, whose memory is not estimated")
    heads = config.num_attention_heads
    return Shape(
        parameters=sum(p.numel() for p in model.parameters()),
        layers=config.num_hidden_layers,
        hidden=config.hidden_size,
        ffn=getattr(config, "intermediate_size", None) or 4 * config.hidden_size,
        heads=heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or heads,
        head=getattr(config, "head_dim", None) or config.hidden_size // heads,
        vocabulary=config.vocab_size,
        normed_heads=any(name.endswith("q_norm.weight") for name in names),
    )
