"""Search among products: BM25 over title, description, first bullet point and options."""

from __future__ import annotations

import hashlib
import logging
import re
import shutil
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property, lru_cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from creditlab.environments.webshop.records import Product
from creditlab.sealed import seal, unseal

_log = logging.getLogger(__name__)

HITS = 50
"""Products that a search finds at most."""
_K1, _B = 0.9, 0.4
"""Anserini's parameters of BM25."""
_DECIMALS = 9
"""Decimals of a score that count; products that agree in them keep the catalogue's order."""
_SAMPLE = 4096
"""Scores among which a first bound is found."""
_TOKEN = re.compile(r"\b\w\w+\b")
STOP_WORDS = frozenset(
    (
        *("a", "an", "and", "are", "as", "at", "be", "but", "by", "for", "if", "in", "into", "is", "it", "no", "not", "of"),
        *("on", "or", "such", "that", "the", "their", "then", "there", "these", "they", "this", "to", "was", "will", "with"),
    )
)
"""Lucene's English stop words."""
_QUERIES = 1 << 13
"""Queries whose hits are kept."""
_FORMAT = 1
_FACTS, _IDS = "facts.json", "asins.npy"
_PART, _ABANDONED = ".indexing-", 86400.0
"""Begin of the name of a folder in the making, and the seconds after which it is nobody's."""

Tokens = Callable[[str], Sequence[str]]


def document(product: Product) -> str:
    """What is searched of a product."""
    options = ", and ".join(f"{name}: {', '.join(values)}" for name, values in product.options.items())
    return " ".join((product.name, product.description, *product.bullets[:1], options)).lower()


class Index:
    """A catalogue's search engine: at most 50 products by BM25 score, ties in the catalogue's order.

    As in WebShop, a query whose first word is `<q>`, `<c>` or `<a>` lists all products of a collection query, a category or
    with an attribute; `<r>` lists 50 drawn at random, here the same ones at every search.
    """

    def __init__(self, products: Sequence[Product], engine: Any, asins: NDArray[np.str_], tokens: Tokens) -> None:
        self._products, self._engine, self._asins, self._tokens = products, engine, asins, tokens
        self.search = lru_cache(_QUERIES)(self._search)

    def tokens(self, query: str) -> tuple[str, ...]:
        """The words of a text that count."""
        return tuple(self._tokens(query))

    def scored(self, query: str) -> list[tuple[str, float]]:
        """The asins that a query of words finds, best first, with their scores."""
        words = self._engine.get_tokens_ids(self.tokens(query))
        best, scores = _best(self._engine.get_scores_from_ids(words))
        return list(zip(self._asins[best].tolist(), scores.tolist(), strict=True))

    def _search(self, query: str) -> tuple[str, ...]:
        kind, *rest = query.split(" ")
        if kind == "<r>":
            drawn = np.random.default_rng(0).permutation(len(self._asins))[:HITS]
            return tuple(self._asins[drawn].tolist())
        if kind in ("<q>", "<c>", "<a>"):
            label = "".join(rest[:1]) if kind == "<c>" else " ".join(rest)
            return tuple(self._labelled[kind].get(label.strip(), ()))
        return tuple(asin for asin, _ in self.scored(query))

    @cached_property
    def _labelled(self) -> dict[str, dict[str, list[str]]]:
        found: dict[str, dict[str, list[str]]] = {kind: defaultdict(list) for kind in ("<q>", "<c>", "<a>")}
        for product in self._products:
            found["<q>"][product.query].append(product.asin)
            found["<c>"][product.category].append(product.asin)
            for attribute in dict.fromkeys(product.attributes):
                found["<a>"][attribute].append(product.asin)
        return found


def _best(scores: NDArray[np.float64]) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Positions of the best scores above zero, ties in order, and these scores as they are compared."""
    some = scores[:: max(1, len(scores) // _SAMPLE)]
    floor = np.partition(some, -HITS)[-HITS] if len(some) >= HITS else 0.0  # so many are at least as good, or more
    near = np.flatnonzero((scores > 0) & (scores >= floor - 10.0**-_DECIMALS))
    rounded = scores[near].round(_DECIMALS)
    if len(near) > HITS:
        least = np.partition(rounded, -HITS)[-HITS]
        above, level = np.flatnonzero(rounded > least), np.flatnonzero(rounded == least)
        kept = np.concatenate((above, level[: HITS - len(above)]))
        near, rounded = near[kept], rounded[kept]
    order = np.argsort(-rounded, kind="stable")
    return near[order], rounded[order]


def build_index(
    products: Sequence[Product], *, stemming: bool = False, cache: Path | None = None, digest: str | None = None
) -> Index:
    """The index of some products, read from the folder `cache` if an earlier call left it there.

    `digest` stands for the products' contents and is computed if absent. `stemming` reduces words with Porter's stemmer, as
    Anserini does; it raises ValueError where PyStemmer is not installed.
    """
    tokens = _tokenizer(stemming)
    if cache is None:
        return Index(products, *_build(products, tokens), tokens)
    key = {
        "format": _FORMAT,
        "bm25s": version("bm25s"),
        "products": len(products),
        "digest": digest or _digest(products),
        "stemmer": f"porter {version('PyStemmer')}" if stemming else None,
    }
    folder = cache / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    found = _read(folder)
    if found is None:
        found = _build(products, tokens)
        _write(folder, key, found)
    return Index(products, *found, tokens)


def stemmer_installed() -> bool:
    """Whether PyStemmer is there."""
    return find_spec("Stemmer") is not None


def _tokenizer(stemming: bool) -> Tokens:
    def words(text: str) -> list[str]:
        return [word for word in _TOKEN.findall(text.lower()) if word not in STOP_WORDS]

    if not stemming:
        return words
    if not stemmer_installed():
        raise ValueError("stemming needs PyStemmer: pip install 'creditlab[webshop]', or switch it off")
    from Stemmer import Stemmer

    porter = Stemmer("porter")
    return lambda text: porter.stemWords(words(text))


def _build(products: Sequence[Product], tokens: Tokens) -> tuple[Any, NDArray[np.str_]]:
    """The search engine over some products, and their asins."""
    asins, documents = [], []
    vocabulary: defaultdict[str, int] = defaultdict()
    vocabulary.default_factory = vocabulary.__len__
    for product in products:
        asins.append(product.asin)
        documents.append([vocabulary[word] for word in tokens(document(product))])
    if not vocabulary:
        raise ValueError(f"none of the {len(asins)} products has a word to search for: read another catalogue")
    bm25s = _library()
    engine = bm25s.BM25(method="lucene", k1=_K1, b=_B, dtype="float64")
    corpus = bm25s.tokenization.Tokenized(ids=documents, vocab=dict(vocabulary))
    engine.index(corpus, create_empty_token=False, show_progress=False)
    return engine, np.array(asins)


def _library() -> Any:
    import bm25s  # only where something is searched: it takes a while

    logging.getLogger(bm25s.__name__).setLevel(logging.WARNING)  # it asks for every message
    return bm25s


def _read(folder: Path) -> tuple[Any, NDArray[np.str_]] | None:
    """The engine and the asins that a folder of the cache holds, mapped into memory; None where there are none."""
    if not folder.is_dir():
        return None
    try:
        unseal(folder, _FACTS)
        engine = _library().BM25.load(folder, mmap=True, allow_pickle=False, show_progress=False)
        return engine, np.load(folder / _IDS, allow_pickle=False)
    except (OSError, ValueError) as error:
        _log.warning("search index %s; it is built again", error)
        shutil.rmtree(folder, ignore_errors=True)
        return None


def _write(folder: Path, key: dict[str, Any], built: tuple[Any, NDArray[np.str_]]) -> None:
    """Leaves an index in the cache, whole or not at all; where that is impossible, a warning says so."""
    engine, asins = built
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        for old in folder.parent.glob(f"{_PART}*"):  # of processes that were killed
            if time.time() - old.stat().st_mtime > _ABANDONED:
                shutil.rmtree(old, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix=_PART, dir=folder.parent) as part:
            work = Path(part) / folder.name
            engine.save(work, show_progress=False)
            np.save(work / _IDS, asins, allow_pickle=False)
            seal(work, _FACTS, key)
            try:
                work.rename(folder)
            except OSError:
                if not folder.is_dir():  # else another process was faster
                    raise
    except OSError as error:
        _log.warning("search index %s cannot be kept: %s", folder, error.strerror or error)


def _digest(products: Iterable[Product]) -> str:
    digest = hashlib.sha256()
    for product in products:
        digest.update(f"{product.asin}\n{document(product)}\n".encode())
    return digest.hexdigest()
