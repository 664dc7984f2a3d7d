"""Models and tokenizers from folders in Hugging Face format; safetensors only, no code from the folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast
from transformers.utils import logging

logging.disable_progress_bar()  # type: ignore[no-untyped-call]  # of files that load and save in milliseconds

GENERIC_CLASSES = ("TokenizersBackend", "PreTrainedTokenizerFast")
"""Tokenizers that are what their tokenizer.json says. AutoTokenizer would take the one of the model's architecture instead,
which splits text in another way."""


def load_model(folder: Path) -> tuple[Any, Any]:
    """Model and tokenizer of a folder."""
    model = AutoModelForCausalLM.from_pretrained(folder, use_safetensors=True, trust_remote_code=False, dtype="auto")
    return model, load_tokenizer(folder)


def load_tokenizer(folder: Path) -> Any:
    """The tokenizer of a folder, exactly as it was saved."""
    config = json.loads((Path(folder) / "tokenizer_config.json").read_text())
    if config.get("tokenizer_class") in GENERIC_CLASSES:
        return PreTrainedTokenizerFast.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
