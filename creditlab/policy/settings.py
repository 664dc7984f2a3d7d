"""Settings of the policy: prompt, model and engine. Importing this module imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

Positive = Annotated[int, Field(ge=1)]


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
    max_response_tokens: Positive = 12
    """Longest response; a longer one is cut and counted."""


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


@dataclass(frozen=True)
class TransformersEngine:
    """Generates with Hugging Face transformers on the learner's own weights, where these lie."""

    axis: ClassVar[str] = "engine"
    name: ClassVar[str] = "transformers"

    def generator(self, model: Any, tokenizer: Any, stop_strings: Sequence[str]) -> Any:
        """The generator (`creditlab.policy.policy.Generator`) over the weights being trained."""
        from creditlab.policy.engine import TransformersGenerator

        return TransformersGenerator(model, tokenizer, stop_strings)
