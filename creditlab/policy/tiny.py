"""The tiny model: a Qwen2 built from its configuration, over a word-level tokenizer of the environment's words."""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from creditlab.policy.settings import TinyModel

PAD, EOS, UNKNOWN = "<pad>", "<eos>", "<unk>"
_WORD = r"[^\s\p{Nd}\p{P}\p{S}\p{C}]+"
"""Letters of any script and what belongs to them, such as accents."""
PROMPT_WORDS = "| task can now act >"


def split_pattern(phrases: Iterable[str]) -> str:
    """The regular expression of one token: a fixed phrase (longest first), a word, a number, or another sign."""
    fixed = {" ".join(p.lower().split()) for p in phrases} - {""}
    return "|".join([*_prefix_tree(fixed), _WORD, r"\p{Nd}+", r"\S"])


def build_tokenizer(texts: Iterable[str], phrases: Iterable[str] = ()) -> PreTrainedTokenizerFast:
    """A word-level tokenizer whose vocabulary is the words of the texts and the fixed phrases, in sorted order.

    Decoding joins tokens with one space but for the inner sides of square brackets, so that a command of words and numbers,
    and one with its argument in brackets, come back byte for byte.
    """
    pattern = split_pattern(phrases)
    split = pre_tokenizers.Split(Regex(pattern), behavior="removed", invert=True)
    words: set[str] = {" ".join(p.lower().split()) for p in phrases} - {""}
    for text in (*texts, PROMPT_WORDS):
        words.update(piece for piece, _ in split.pre_tokenize_str(_normal(text)))
    vocabulary = {token: index for index, token in enumerate([PAD, EOS, UNKNOWN, *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(Regex(r"\s+"), " ")])
    tokenizer.pre_tokenizer = split
    tokenizer.decoder = _decoder()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=EOS,
        unk_token=UNKNOWN,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def build_model(settings: TinyModel, tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen2ForCausalLM:
    """A Qwen2 with random weights drawn from the seed."""
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=settings.hidden_size,
        intermediate_size=settings.ffn_size,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.heads,
        max_position_embeddings=settings.max_positions,
        tie_word_embeddings=True,
        initializer_range=settings.init_std,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    with torch.random.fork_rng(devices=[]):  # transformers initialises from torch's global generator
        torch.manual_seed(seed)
        return Qwen2ForCausalLM(config)  # type: ignore[no-untyped-call]


def _decoder() -> decoders.Decoder:
    """Tokens joined by one space, without the spaces after `[` and before `]`."""
    spaced = [decoders.Replace(Regex("^"), " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence([*spaced, decoders.Replace("[ ", "["), decoders.Replace(" ]", "]")])


def _normal(text: str) -> str:
    return re.sub(r"\s+", " ", text.lower())


def _prefix_tree(phrases: Iterable[str]) -> list[str]:
    """The longest of the phrases, none of them inside a longer word; by first signs, since hundreds in a row are slow."""
    starting: dict[str, list[str]] = {}
    for phrase in sorted(phrases):
        starting.setdefault(phrase[0], []).append(phrase)
    return [(r"\b" if sign.isalnum() else "") + _branch(group) for sign, group in starting.items()]


def _branch(phrases: list[str]) -> str:
    """A pattern for phrases with the same first sign: what they share, then how they go on, then where one of them ends."""
    first, last = min(phrases), max(phrases)
    shared = first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]
    following: dict[str, list[str]] = {}
    for rest in (phrase[len(shared) :] for phrase in phrases):
        following.setdefault(rest[:1], []).append(rest)
    ends = [r"\b" if shared[-1].isalnum() else ""] if following.pop("", None) else []
    ways = [*map(_branch, following.values()), *ends]
    return re.escape(shared).replace(r"\ ", " ") + (ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})")
