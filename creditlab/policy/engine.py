"""Generation with transformers: tokens sampled from derived random numbers, with their log-probabilities recorded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList

Ids = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Sample:
    """One sampled response."""

    ids: Ids
    """Sampled token ids, the one that ended the response included [length]."""
    logprobs: NDArray[np.float32]
    """Log-probability of each token at the sampling temperature [length]."""
    cut: bool
    """Whether the length limit ended the response."""


class TransformersGenerator:
    """Samples responses from a causal language model of Hugging Face transformers.

    Every prompt comes with its own uniform numbers, one per token position; a token is the inverse of the cumulative
    distribution at that number. So a response depends on its prompt and its numbers alone, not on the batch around it.
    """

    def __init__(self, model: Any, tokenizer: Any, stop_strings: Sequence[str] = ()) -> None:
        self.model, self.tokenizer, self.stop_strings = model, tokenizer, tuple(stop_strings)
        eos = model.generation_config.eos_token_id
        known = {tokenizer.eos_token_id, *(eos if isinstance(eos, list) else [eos])} - {None}
        self.eos: list[int] = sorted(int(token) for token in known)
        self.pad = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.eos[0])

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[Ids], uniforms: NDArray[np.float64], temperature: float, batch_size: int
    ) -> list[Sample]:
        """Responses to prompts, in their order; `uniforms` [prompts, longest response]; temperature 0 is greedy."""
        if len(prompts) != len(uniforms):
            raise ValueError(f"{len(prompts)} prompts need as many rows of random numbers, got {len(uniforms)}")
        samples: list[Sample | None] = [None] * len(prompts)
        order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))  # neighbours of like length pad less
        calls = max(1, -(-len(order) // batch_size))
        with self._generating():
            for call in np.array_split(np.array(order, dtype=np.int64), calls):
                chosen = [prompts[i] for i in call]
                for index, sample in zip(call, self._generate(chosen, uniforms[call], temperature), strict=True):
                    samples[index] = sample
        return [sample for sample in samples if sample is not None]

    @contextmanager
    def _generating(self) -> Iterator[None]:
        """The model without dropout and without generation settings of its own.

        `generate` fills what a call leaves open from the model's generation_config.json; a repetition penalty from there
        would bend the distribution that is recorded and trained.
        """
        training, own = self.model.training, self.model.generation_config
        self.model.eval()
        self.model.generation_config = GenerationConfig()  # type: ignore[no-untyped-call]
        try:
            yield
        finally:
            self.model.generation_config = own
            self.model.train(training)

    def _generate(self, prompts: list[Ids], uniforms: NDArray[np.float64], temperature: float) -> list[Sample]:
        ids, mask = left_pad(prompts, self.pad, self.model.device)
        limit = uniforms.shape[1]
        sampler = _InverseSampler(torch.from_numpy(uniforms).to(ids.device), temperature)
        config = GenerationConfig(  # type: ignore[no-untyped-call]
            do_sample=False,
            max_new_tokens=limit,
            eos_token_id=self.eos,
            pad_token_id=self.pad,
            stop_strings=list(self.stop_strings) or None,
        )
        output = self.model.generate(
            ids,
            attention_mask=mask,
            generation_config=config,
            logits_processor=LogitsProcessorList([sampler]),
            tokenizer=self.tokenizer if self.stop_strings else None,
        )
        sampled = output[:, ids.shape[1] :].cpu().numpy().astype(np.int32)
        logprobs = torch.stack(sampler.logprobs, dim=1).float().cpu().numpy()
        return [self._cut(row, logp) for row, logp in zip(sampled, logprobs, strict=True)]

    def _cut(self, row: Ids, logprobs: NDArray[np.float32]) -> Sample:
        """Keeps the tokens up to the one that ended the response."""
        ends = np.flatnonzero(np.isin(row, self.eos))
        length = int(ends[0]) + 1 if ends.size else len(row)
        ended = bool(ends.size)
        if self.stop_strings:
            stop = self._stop_string_end(row[:length])
            if stop is not None:
                length, ended = stop, True
        return Sample(row[:length].copy(), logprobs[:length].copy(), cut=not ended)

    def _stop_string_end(self, row: Ids) -> int | None:
        """Number of tokens after which a stop string is complete, or None. What a beginning holds, a longer one holds too."""
        first, last = 1, len(row)
        if not self._stopped(row):
            return None
        while first < last:
            middle = (first + last) // 2
            first, last = (first, middle) if self._stopped(row[:middle]) else (middle + 1, last)
        return first

    def _stopped(self, row: Ids) -> bool:
        text = self.tokenizer.decode(row, skip_special_tokens=True)
        return any(stop in text for stop in self.stop_strings)


class _InverseSampler(LogitsProcessor):
    """Picks each token by inverting the cumulative distribution, and leaves `generate` only that one to take."""

    def __init__(self, uniforms: torch.Tensor, temperature: float) -> None:
        self.uniforms, self.temperature = uniforms, temperature
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        position = len(self.logprobs)
        logp = torch.log_softmax(scores.double() / (self.temperature or 1.0), dim=-1)
        if self.temperature:
            cumulative = logp.exp().cumsum(-1)
            target = self.uniforms[:, position, None] * cumulative[:, -1:]
            token = torch.searchsorted(cumulative, target, right=True).clamp(max=logp.shape[-1] - 1)
        else:
            token = logp.argmax(-1, keepdim=True)
        self.logprobs.append(logp.gather(1, token)[:, 0])
        return torch.full_like(scores, float("-inf")).scatter(1, token, 0.0)


def left_pad(prompts: Sequence[Ids], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Prompts padded on the left, and the mask of real tokens built from lengths, each [prompts, longest]."""
    width = max(len(p) for p in prompts)
    ids = np.full((len(prompts), width), pad, dtype=np.int64)
    mask = np.zeros((len(prompts), width), dtype=np.int64)
    for row, prompt in enumerate(prompts):
        ids[row, width - len(prompt) :] = prompt
        mask[row, width - len(prompt) :] = 1
    return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)
