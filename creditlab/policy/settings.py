"""Settings of the policy: prompt, model and engine. Importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

if TYPE_CHECKING:
    from creditlab.policy.shape import Shape

Positive = Annotated[int, Field(ge=1)]
Precision = Literal["fp32", "bf16"]
"""Arithmetic of the learner, which trains the weights that the engine samples from."""
WEIGHTS: dict[Precision, Literal["float32", "bfloat16"]] = {"fp32": "float32", "bf16": "bfloat16"}
"""The type of weights that goes with it."""


@dataclass(frozen=True)
class PromptSettings:
    """How a decision is put to the policy and how its answer is read."""

    layout: Literal["full", "compact"] = "compact"
    """`full` is an instruction in sentences for language models; `compact` a few labelled fields for the tiny model."""
    style: Literal["think_action", "action_only"] = "action_only"
    """`think_action` asks for `<think>…</think><action>…</action>`, `action_only` for the bare command."""
    history: Annotated[int, Field(ge=0)] = 1
    """Last k (observation, action) pairs shown; the papers use 2."""
    past_actions: Annotated[int, Field(ge=0)] = 8
    """Commands before those that are listed without their observations, so that a search need not repeat itself; the papers
    list none."""
    max_prompt_tokens: Positive = 512
    """Longest prompt; a longer one drops its history first, then is cut at its start, and is counted."""
    max_prompt_characters: Positive | None = None
    """A prompt of more characters drops its history, whatever its tokens, and is counted; the field's limit on WebShop is
    13000."""
    max_response_tokens: Positive = 12
    """Longest response; a longer one is cut and counted."""
    fallback_characters: Annotated[int, Field(ge=0)] = 30
    """Without an action tag so many last characters of a response are executed; the field's projection takes 30 on ALFWorld
    and 20 on WebShop."""
    thinking: bool | None = None
    """`enable_thinking` of the chat template (Qwen3 has it, Qwen2.5 has none); null leaves it to the template."""


@dataclass(frozen=True)
class TinyModel:
    """A Qwen2 of about 0.1 M parameters over a word-level tokenizer of the environment's own vocabulary."""

    axis: ClassVar[str] = "model"
    name: ClassVar[str] = "tiny"

    hidden_size: Positive = 64
    """Width of the residual stream."""
    layers: Positive = 2
    """Transformer blocks."""
    heads: Positive = 2
    """Attention heads; must divide hidden_size into an even width each."""
    ffn_size: Positive = 128
    """Width of the feed-forward layers."""
    init_std: Annotated[float, Field(gt=0)] = 0.05
    """Standard deviation of the initial weights."""
    max_positions: Positive = 1024
    """Longest sequence, prompt and response together, in tokens."""

    def __post_init__(self) -> None:
        """Raises ValueError where the heads do not divide the width, or divide it into odd ones."""
        heads = f"model.heads={self.heads} must divide model.hidden_size={self.hidden_size}"
        if self.hidden_size % self.heads:
            raise ValueError(heads)
        if self.hidden_size // self.heads % 2:  # rotary positions turn pairs of dimensions
            raise ValueError(f"{heads} into an even width each, not {self.hidden_size // self.heads}")

    def build(self, texts: Iterable[str], phrases: Iterable[str], seed: int) -> tuple[Any, Any]:
        """Model with random weights, and tokenizer over the words of the texts."""
        from creditlab.policy.tiny import build_model, build_tokenizer

        tokenizer = build_tokenizer(texts, phrases)
        return build_model(self, tokenizer, seed), tokenizer

    def load(self, folder: Path, prompt: PromptSettings, precision: Precision, training: bool = True) -> tuple[Any, Any]:
        """Model and tokenizer that a warm start or a checkpoint has written."""
        from creditlab.policy.loading import load_model

        return load_model(folder)

    def identity(self) -> dict[str, Any]:
        """What a warm start depends on of it."""
        return asdict(self)

    def ready(self) -> Path | None:
        """None: there is nothing to start from before a warm start has made it."""
        return None


@dataclass(frozen=True)
class HFModel:
    """Any causal language model in Hugging Face format with a tokenizer beside it, from a folder or the hub."""

    axis: ClassVar[str] = "model"
    name: ClassVar[str] = "hf"
    operational: ClassVar[tuple[str, ...]] = ("attention", "gradient_checkpointing")
    """Options that change memory, speed and rounding; they do not make it another run."""

    path: str | None = None
    """Folder of the model, or its id on the hub (`Qwen/Qwen2.5-1.5B-Instruct`); safetensors only, none of its code is run."""
    revision: str | None = None
    """Branch, tag or commit of a hub id; null takes the newest, and the run's manifest names the commit."""
    dtype: Literal["auto", "float32", "bfloat16"] = "auto"
    """Type of the weights. `auto` follows `learner.precision`; another one must agree with it, because engine, learner and
    reference share one arithmetic, or the probability ratio would not start at 1."""
    attention: Literal["sdpa", "eager", "flash_attention_2"] = "sdpa"
    """Attention kernels; `flash_attention_2` needs a GPU and the package flash-attn."""
    gradient_checkpointing: bool = False
    """Whether activations are computed again in the backward pass instead of kept: less memory, about a third more time."""

    def __post_init__(self) -> None:
        """Raises ValueError without a path."""
        if not (self.path or "").strip():
            raise ValueError(
                "model.path is empty: model=hf needs the folder of a model in Hugging Face format, or a hub id such as "
                "model.path=Qwen/Qwen2.5-1.5B-Instruct"
            )

    def check_precision(self, precision: Precision) -> None:
        """Raises ValueError where the type of the weights contradicts the learner's arithmetic."""
        if self.dtype not in ("auto", WEIGHTS[precision]):
            other = "bf16" if precision == "fp32" else "fp32"
            raise ValueError(
                f"model.dtype={self.dtype} contradicts learner.precision={precision}; "
                f"set learner.precision={other}, or leave model.dtype=auto"
            )

    def load(self, folder: Path, prompt: PromptSettings, precision: Precision, training: bool = True) -> tuple[Any, Any]:
        """Model and tokenizer of a folder in the learner's arithmetic; raises ValueError naming what does not fit."""
        from creditlab.policy.pretrained import check_prompt, load

        model, tokenizer = load(self, folder, WEIGHTS[precision], training=training)
        check_prompt(prompt, model.config, tokenizer)
        return model, tokenizer

    def identity(self) -> dict[str, Any]:
        """What a warm start depends on of it: the files themselves, wherever they lie."""
        from creditlab.policy.pretrained import digest

        return {"files": digest(self.ready())}

    def ready(self) -> Path:
        """The folder that holds the pretrained model, downloaded first where `path` is a hub id."""
        from creditlab.policy.pretrained import find

        return find(self.path or "", self.revision)

    def shape(self) -> Shape:
        """What its memory depends on, without its weights; raises ValueError where its configuration is not at hand."""
        from creditlab.policy.shape import shape_of

        return shape_of(self.path or "", self.revision)


@dataclass(frozen=True)
class TransformersEngine:
    """Generates with Hugging Face transformers on the learner's own weights, where these lie."""

    axis: ClassVar[str] = "engine"
    name: ClassVar[str] = "transformers"

    def generator(self, model: Any, tokenizer: Any, stop_strings: Sequence[str]) -> Any:
        """The generator (`creditlab.policy.policy.Generator`) over the weights being trained."""
        from creditlab.policy.engine import TransformersGenerator

        return TransformersGenerator(model, tokenizer, stop_strings)
