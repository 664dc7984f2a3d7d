"""The policy as the rollout core sees it: contexts in, recorded decisions out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from creditlab.policy.prompts import Context, Projection, project, render, response_for
from creditlab.policy.settings import PromptSettings

Ids = NDArray[np.int32]
_MARK = "\ue000"
"""Stands for what is spelled like a special token while a chat template is rendered; a character for private use."""


class Generated(Protocol):
    """A sampled response of any engine."""

    @property
    def ids(self) -> Ids: ...
    @property
    def logprobs(self) -> NDArray[np.float32]: ...
    @property
    def cut(self) -> bool: ...


class Generator(Protocol):
    """An engine: prompts and uniform numbers in, sampled responses out."""

    def __call__(
        self, prompts: Sequence[Ids], uniforms: NDArray[np.float64], temperature: float, batch_size: int
    ) -> Sequence[Generated]: ...


@dataclass(frozen=True, slots=True)
class Decision:
    """What the policy decided in one context."""

    prompt_ids: Ids
    prompt_cut: bool
    """Whether history or the start of the prompt had to be left out."""
    sample: Generated
    response: str
    projection: Projection


class Policy:
    """Renders prompts, samples with an engine and reads actions."""

    def __init__(self, settings: PromptSettings, tokenizer: Any, generator: Generator, batch_size: int) -> None:
        self.settings, self.tokenizer, self.generator, self.batch_size = settings, tokenizer, generator, batch_size

    def decide(self, contexts: Sequence[Context], uniforms: NDArray[np.float64], temperature: float) -> list[Decision]:
        """One decision per context; `uniforms` [contexts, longest response] are its random numbers."""
        encoded = encode_prompts(self.settings, self.tokenizer, contexts)
        samples = self.generator([ids for ids, _ in encoded], uniforms, temperature, self.batch_size)
        decisions = []
        for (ids, cut), sample in zip(encoded, samples, strict=True):
            response = self.tokenizer.decode(sample.ids, skip_special_tokens=True)
            decisions.append(Decision(ids, cut, sample, response, project(self.settings, response, not sample.cut)))
        return decisions


def encode_prompts(settings: PromptSettings, tokenizer: Any, contexts: Sequence[Context]) -> list[tuple[Ids, bool]]:
    """Token ids of every prompt, and whether it had to be shortened to `max_prompt_characters` or `max_prompt_tokens`."""
    prompts = [render(settings, context) for context in contexts]
    characters = settings.max_prompt_characters or math.inf
    result = []
    for prompt, ids, context in zip(prompts, _encode(settings, tokenizer, prompts), contexts, strict=True):
        too_wordy = len(prompt) > characters and len(context.history) > 0
        fits = len(ids) <= settings.max_prompt_tokens and not too_wordy
        result.append((ids if fits else _shortened(settings, tokenizer, context), not fits))
    return result


def encode_target(settings: PromptSettings, tokenizer: Any, action: str) -> Ids:
    """Token ids of the response that gives an action, the end-of-sequence token included; the imitation target.

    Raises ValueError where the policy could not give this response: its tokenizer does not return it, or it is too long.
    """
    ids = [*tokenizer(response_for(settings, action), add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    read = project(settings, tokenizer.decode(ids, skip_special_tokens=True))
    if not read.valid or read.action != action.lower().strip():
        hint = "model=tiny needs layout=compact style=action_only, and words that its tokenizer was made from"
        raise ValueError(
            f"prompt.layout={settings.layout} prompt.style={settings.style} does not suit the model: its tokenizer turns the "
            f"response for {action!r} into one that reads {read.action!r}; {hint}"
        )
    if len(ids) > settings.max_response_tokens:
        raise ValueError(f"the response for {action!r} has {len(ids)} tokens: raise prompt.max_response_tokens to that")
    return np.array(ids, dtype=np.int32)


def _encode(settings: PromptSettings, tokenizer: Any, prompts: list[str]) -> list[Ids]:
    """Token ids of prompts; a chat template puts each into one user message, and the answer begins where it ends.

    Special tokens are the template's alone: what a prompt spells like one, perhaps from an earlier answer, stays text.
    """
    if not prompts:
        return []
    special = _special_tokens(tokenizer)
    spelled = [special.findall(prompt) for prompt in prompts]
    texts = [special.sub(_MARK, prompt) for prompt in prompts]
    if getattr(tokenizer, "chat_template", None):
        thinking = {} if settings.thinking is None else {"enable_thinking": settings.thinking}
        messages = [[{"role": "user", "content": text}] for text in texts]
        texts = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True, **thinking)
    batch = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return [
        np.array(_put_back(tokenizer, text, words) if words else ids, dtype=np.int32)
        for ids, text, words in zip(batch, texts, spelled, strict=True)
    ]


def _special_tokens(tokenizer: Any) -> re.Pattern[str]:
    """Finds the tokenizer's special tokens in a text, and the mark."""
    added = {token.content for token in tokenizer.added_tokens_decoder.values() if token.special}
    longest_first = sorted({_MARK, *added, *tokenizer.all_special_tokens}, key=lambda token: (-len(token), token))
    return re.compile("|".join(map(re.escape, longest_first)))


def _put_back(tokenizer: Any, text: str, words: list[str]) -> list[int]:
    """Token ids of a text in which each mark stands for the letters of one of the words."""
    first, *others = tokenizer(text.split(_MARK), add_special_tokens=False)["input_ids"]
    letters = tokenizer(words, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    ids = list(first)
    for word, part in zip(letters, others, strict=True):
        ids += [*word, *part]
    return ids


def _shortened(settings: PromptSettings, tokenizer: Any, context: Context) -> Ids:
    """The prompt without anything past, and where that is not enough without its start; a chat template stays whole.

    Raises ValueError where not even the template fits.
    """
    text, limit = render(settings, context, shorten=True), settings.max_prompt_tokens
    ids = _encode(settings, tokenizer, [text])[0]
    if len(ids) <= limit:
        return ids
    if not getattr(tokenizer, "chat_template", None):
        return ids[-limit:]
    fits, whole = len(text), 0  # the fewest characters whose loss is known to be enough, the most known not to be
    while fits - whole > 1:
        middle = (fits + whole) // 2
        enough = len(_encode(settings, tokenizer, [text[middle:]])[0]) <= limit
        fits, whole = (middle, whole) if enough else (fits, middle)
    ids = _encode(settings, tokenizer, [text[fits:]])[0]
    if len(ids) > limit:
        raise ValueError(f"the model's chat template alone has {len(ids)} tokens: raise prompt.max_prompt_tokens={limit}")
    return ids
