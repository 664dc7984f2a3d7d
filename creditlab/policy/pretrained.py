"""Pretrained causal language models from a folder or the hub: safetensors only, no foreign code, nothing drawn at random."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from huggingface_hub import snapshot_download
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from creditlab.plaintext import reason
from creditlab.policy.loading import load_tokenizer
from creditlab.policy.settings import PromptSettings

if TYPE_CHECKING:
    from creditlab.policy.settings import HFModel

HUB_ID = re.compile(r"[\w-][\w.-]*/[\w.-]+")
NEEDED = ("*.json", "*.safetensors", "*.model", "*.txt", "*.jinja")
"""Files of a hub repository that are fetched; pickled weights and code are not."""
VOCABULARIES = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt")
"""Files one of which every tokenizer has; without any, transformers makes up an empty one."""
PICKLED = ("*.bin", "*.pt", "*.pth", "*.ckpt")
DROPOUT = re.compile("dropout|pdrop|layerdrop")
"""Keys of a model's configuration that zero some activations at random while training."""


def find(path: str, revision: str | None = None) -> Path:
    """The folder of a model: `path` itself, or the local copy of a hub id, fetched where it is not there yet.

    Raises ValueError where `path` is neither, with the hub's reason.
    """
    folder = Path(path).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise ValueError(
                f"model.revision={revision} belongs to a hub id, but model.path={path} is a folder; leave it out"
            )
        return folder
    if folder.exists() or not HUB_ID.fullmatch(path):
        what = "is a file" if folder.exists() else "does not exist"
        raise ValueError(f"model.path={path} {what}; give the folder that holds config.json and *.safetensors, or a hub id")
    try:
        return Path(snapshot_download(path, revision=revision, allow_patterns=list(NEEDED)))
    except Exception as error:  # offline, unknown, gated, or not cached: each has a class of its own
        raise ValueError(
            f"model.path={path} is no folder here, and as a hub id it cannot be fetched: {reason(error)}; "
            "give the folder of a downloaded model"
        ) from None


def load(settings: HFModel, folder: Path, dtype: Literal["float32", "bfloat16"], *, training: bool) -> tuple[Any, Any]:
    """Model and tokenizer of a folder, dropout off; `training=False` for a frozen copy, which keeps no activations.

    Raises ValueError naming the folder and what is wrong with it.
    """
    _check_files(folder)
    config = read_config(folder)
    for key in dropout(config.to_dict()):
        setattr(config, key, 0.0)  # the probability ratio of a sampled token would not start at 1
    model, lacking = _read_weights(settings, folder, config, dtype)
    if lacking:
        raise ValueError(f"{folder} lacks weights, which would be drawn at random: {', '.join(lacking[:3])}")
    tokenizer = _read_tokenizer(folder)
    _check_vocabulary(folder, model, tokenizer)
    _make_savable(model.generation_config)
    if settings.gradient_checkpointing and training:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model, tokenizer


def read_config(folder: Path) -> Any:
    """The configuration of a model's folder; code that lies there is never run. Raises ValueError naming the folder."""
    raw = _raw_config(folder)
    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # wrong types and values end in classes of several libraries
        if raw.get("auto_map"):
            raise ValueError(
                f"{folder} comes with model code of its own (auto_map, model type {raw.get('model_type')!r}), which is never "
                "run (trust_remote_code is off); choose a model that transformers itself implements"
            ) from None
        raise ValueError(f"the configuration in {folder} cannot be used: {reason(error)}") from None


def dropout(config: Mapping[str, Any]) -> list[str]:
    """Keys of a model's configuration that hold a dropout above 0."""
    return [key for key, value in config.items() if DROPOUT.search(key) and isinstance(value, (int, float)) and value > 0]


def check_prompt(prompt: PromptSettings, config: Any, tokenizer: Any) -> None:
    """Raises ValueError where the prompt's settings and a model with its tokenizer do not go together."""
    template = getattr(tokenizer, "chat_template", None)
    if prompt.layout == "full" and not template:
        raise ValueError(
            "the model's tokenizer has no chat template, which prompt.layout=full needs: put a chat_template.jinja into "
            "its folder, or set prompt.layout=compact, which needs none"
        )
    if prompt.thinking is not None and not (template and _knows_thinking(tokenizer)):
        raise ValueError(
            f"prompt.thinking={str(prompt.thinking).lower()} has no effect: the model's chat template does not know "
            "enable_thinking; leave prompt.thinking=null"
        )
    positions, longest = (
        getattr(config, "max_position_embeddings", None),
        prompt.max_prompt_tokens + prompt.max_response_tokens,
    )
    if positions is not None and longest > positions:
        raise ValueError(
            f"prompt.max_prompt_tokens={prompt.max_prompt_tokens} and prompt.max_response_tokens="
            f"{prompt.max_response_tokens} make {longest} tokens, more than the {positions} positions of the model"
        )


def digest(folder: Path) -> str:
    """Sixteen hex digits of the SHA-256 over a model's files, by name and content."""
    total = hashlib.sha256()
    for path in sorted(p for pattern in NEEDED for p in folder.glob(pattern)):
        with path.open("rb") as file:
            total.update(f"{path.name} {hashlib.file_digest(file, 'sha256').hexdigest()}\n".encode())
    return total.hexdigest()[:16]


def _raw_config(folder: Path) -> dict[str, Any]:
    try:
        raw = json.loads((folder / "config.json").read_text())
    except FileNotFoundError:
        raise ValueError(f"{folder} is no model: it has no config.json") from None
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder / 'config.json'} cannot be read: {reason(error)}") from None
    if not isinstance(raw, dict):
        raise ValueError(f"{folder / 'config.json'} must hold an object, the model's configuration")  # noqa: TRY004  # a file's fault
    return raw


def _check_files(folder: Path) -> None:
    """Raises ValueError unless a folder holds a causal language model in safetensors."""
    raw = _raw_config(folder)
    classes = raw.get("architectures") or []
    known = set(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.values())
    if classes and not raw.get("auto_map") and not known & set(classes):
        raise ValueError(f"{folder} holds a {classes[0]}, which is no causal language model that transformers knows")
    if not any(folder.glob("*.safetensors")):
        pickled = sorted(p.name for pattern in PICKLED for p in folder.glob(pattern))
        found = f"only pickled ones ({pickled[0]}), which can run code when they are read" if pickled else "none"
        raise ValueError(f"{folder} has no weights in safetensors, {found}; save the model with save_pretrained")


def _read_weights(settings: HFModel, folder: Path, config: Any, dtype: str) -> tuple[Any, list[str]]:
    """The model, and the names of weights that the files lack or hold in another shape."""
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            config=config,
            dtype=getattr(torch, dtype),
            attn_implementation=settings.attention,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except ImportError as error:
        raise ValueError(f"model.attention={settings.attention} cannot be used here: {reason(error)}") from None
    except (ValueError, OSError, RuntimeError, KeyError, SafetensorError) as error:
        raise ValueError(f"the model in {folder} cannot be loaded: {reason(error)}") from None
    model, info = loaded
    return model, sorted([*info["missing_keys"], *(str(key[0]) for key in info["mismatched_keys"])])


def _read_tokenizer(folder: Path) -> Any:
    if not any((folder / name).exists() for name in VOCABULARIES):
        raise ValueError(f"{folder} has no tokenizer: none of {', '.join(VOCABULARIES)} is there")
    try:
        tokenizer = load_tokenizer(folder)
    except (ValueError, OSError, KeyError, TypeError, AttributeError, ImportError) as error:
        raise ValueError(f"{folder} has no tokenizer that can be loaded: {reason(error)}") from None
    if tokenizer.eos_token_id is None:
        raise ValueError(f"the tokenizer in {folder} names no eos_token, so that no response could end")
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token  # padding is masked by lengths, never by this token
    return tokenizer


def _check_vocabulary(folder: Path, model: Any, tokenizer: Any) -> None:
    rows = model.get_input_embeddings().weight.shape[0]
    highest = max(tokenizer.get_vocab().values())
    if highest >= rows:
        raise ValueError(
            f"{folder}: the tokenizer's tokens go up to {highest}, but the model has {rows} embeddings; "
            "they do not belong together"
        )


def _make_savable(generation: Any) -> None:
    """Sampling settings without `do_sample` are read with a warning, but refused when a checkpoint is written."""
    try:
        generation.validate(strict=True)
    except ValueError:
        generation.do_sample = True


def _knows_thinking(tokenizer: Any) -> bool:
    """Whether the chat template renders otherwise with thinking than without."""
    message = [{"role": "user", "content": "?"}]
    shown = [
        tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True, enable_thinking=thinking)
        for thinking in (True, False)
    ]
    return bool(shown[0] != shown[1])
