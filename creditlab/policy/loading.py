"""Models and tokenizers that creditlab itself has saved in Hugging Face format; safetensors only, no code of the folder."""

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
    path = Path(folder) / "tokenizer_config.json"
    config = json.loads(path.read_text()) if path.exists() else {}
    if config.get("tokenizer_class") in GENERIC_CLASSES:
        return PreTrainedTokenizerFast.from_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
