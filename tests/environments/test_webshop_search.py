"""Search: against recorded rankings, against BM25 computed by its formula, and the cache of indexes on disk."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webshop_recorded import index, records
from webshop_shop import LAMP, PLAIN_MUG, PRODUCTS, RED_MUG, product

from creditlab.environments.webshop import index as module
from creditlab.environments.webshop.index import HITS, build_index, document
from creditlab.environments.webshop.records import Product

WORDS = ("mug", "lamp", "rug", "tall", "desk", "the", "cup")
sentences = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def bm25(products: list[Product], query: str) -> dict[str, float]:
    """Scores by the definition: k1 = 0.9, b = 0.4, idf ln(1 + (N − df + ½)/(df + ½)); `the` is a stop word."""
    texts = [[word for word in document(p).split() if word != "the"] for p in products]
    average = sum(map(len, texts)) / len(texts)
    scores = {}
    for p, words in zip(products, texts, strict=True):
        counts, score = Counter(words), 0.0
        for word in query.split():
            df = sum(word in other for other in texts)
            idf = math.log(1 + (len(texts) - df + 0.5) / (df + 0.5))
            if word in counts:
                score += idf * counts[word] / (counts[word] + 0.9 * (0.6 + 0.4 * len(words) / average))
        scores[p.asin] = score
    return scores


def titled(*titles: str) -> list[Product]:
    return [replace(LAMP, asin=f"B{number:09}", name=title) for number, title in enumerate(titles)]


def test_every_recorded_ranking() -> None:
    assert len(records("search")) == 217
    for record in records("search"):
        found = index().scored(record["query"])
        assert list(index().tokens(record["query"])) == record["tokens"], record["query"]
        assert [asin for asin, _ in found] == record["asins"], record["query"]
        assert [score for _, score in found] == record["scores"], record["query"]
        assert len(found) == record["total"], record["query"]
        assert index().search(record["query"]) == tuple(record["asins"]), record["query"]


def test_a_document_is_title_description_first_bullet_point_and_options() -> None:
    mug = replace(RED_MUG, description="For TEA.", bullets=("Keeps warm", "not searched"))
    assert document(mug) == "tall mug for tea. keeps warm color: red, blue, and size: small"
    assert document(LAMP).split() == ["desk", "lamp"]


@settings(deadline=None, max_examples=100)
@given(st.lists(sentences, min_size=1, max_size=12), sentences)
def test_scores_are_those_of_the_formula_and_ties_keep_the_catalogues_order(titles: list[str], query: str) -> None:
    shop = titled("desk", *titles)
    expected = bm25(shop, query)
    found = build_index(shop).scored(query)
    assert dict(found) == pytest.approx({asin: score for asin, score in expected.items() if score > 0}, abs=1e-9)
    assert [asin for asin, _ in found] == sorted(dict(found), key=lambda asin: (-round(expected[asin], 9), asin))


def test_finds_fifty_at_most_the_first_of_equal_ones() -> None:
    """The better one comes first wherever it stands; of the 79 equal ones the first 49 in order are left."""
    shop = titled(*["green mug"] * 70, "mug", *["green mug"] * 9)
    found = build_index(shop).search("mug")
    assert len(found) == HITS == 50
    assert found == ("B000000070", *(f"B{number:09}" for number in range(49)))


def test_the_best_of_very_many() -> None:
    """Against sorting all of them: scores with many ties, some apart by less than counts, and by just as much as counts."""
    rng = np.random.default_rng(0)
    steps = rng.integers(0, 40, 20_000) + rng.choice([0.0, 4e-10, 1e-9], 20_000)
    for scores in (steps, np.where(steps < 39, 0.0, steps), steps[:60], steps[:7], np.zeros(100)):
        rounded = scores.round(9)
        expected = [place for place in np.argsort(-rounded, kind="stable")[:HITS].tolist() if scores[place] > 0]
        places, found = module._best(scores)
        assert places.tolist() == expected
        assert found.tolist() == rounded[expected].tolist()


def test_every_occurrence_of_a_word_in_a_query_counts() -> None:
    shop = build_index(titled("mug", "lamp", "rug"))
    once, twice = (shop.scored(query)[0][1] for query in ("mug", "mug Mug"))
    assert twice == pytest.approx(2 * once, abs=1e-8)


@pytest.mark.parametrize("query", ["", " ", "the and of", "zzz", "a", "?!", "m u g"])
def test_a_query_without_a_known_word_finds_nothing(query: str) -> None:
    shop = build_index(PRODUCTS)
    assert shop.search(query) == ()
    assert shop.scored(query) == []


def test_products_without_any_word_are_never_found() -> None:
    assert build_index(titled("", "mug")).search("mug") == ("B000000001",)


def test_marked_queries_list_products_without_a_limit() -> None:
    many = [replace(PLAIN_MUG, asin=f"B1{number:08}") for number in range(60)]
    shop = build_index([*PRODUCTS, *many])
    assert shop.search("<q> mugs") == ("B000000001", "B000000002", *(p.asin for p in many))
    assert shop.search("<c> electronics") == ("B000000003",)
    assert shop.search("<c> electronics and more") == ("B000000003",)
    assert shop.search("<a> heavy duty") == ("B000000001", "B000000003")
    assert shop.search("<q> cups") == shop.search("<c>") == shop.search("<a> heavy") == ()


def test_a_query_for_any_products_gives_fifty_the_same_each_time() -> None:
    many = [replace(PLAIN_MUG, asin=f"B1{number:08}") for number in range(60)]
    shop = build_index(many)
    drawn = shop.search("<r>")
    assert len(set(drawn)) == 50
    assert set(drawn) < {p.asin for p in many}
    assert drawn == build_index(many).search("<r>") != tuple(p.asin for p in many[:50])
    assert len(build_index(PRODUCTS).search("<r>")) == 3


@pytest.mark.parametrize("shop", [[], titled("", "a the")], ids=["none", "wordless"])
def test_products_among_which_nothing_can_be_found_are_refused(shop: list[Product]) -> None:
    with pytest.raises(ValueError, match=f"none of the {len(shop)} products has a word"):
        build_index(shop)


def test_the_stop_words_are_those_of_the_library() -> None:
    from bm25s.stopwords import STOPWORDS_EN

    assert build_index(PRODUCTS).tokens(" ".join(STOPWORDS_EN)) == ()
    assert build_index(PRODUCTS).tokens("all can do from have x 5 nor ours") == (
        "all",
        "can",
        "do",
        "from",
        "have",
        "nor",
        "ours",
    )


def test_stemming_finds_other_forms_of_a_word() -> None:
    pytest.importorskip("Stemmer", reason="PyStemmer; extra webshop")
    shop = titled("running shoes", "lamp")
    assert build_index(shop).search("shoe") == ()
    assert build_index(shop, stemming=True).search("the shoe that runs") == ("B000000000",)
    assert build_index(shop, stemming=True).tokens("The Ponies were relational") == ("poni", "were", "relat")  # Porter 1980


def test_stemming_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=re.escape("pip install 'creditlab[webshop]'")):
        build_index(PRODUCTS, stemming=True)


def built(cache: Path) -> list[Path]:
    return sorted(cache.iterdir())


def test_an_index_is_read_from_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first = build_index(PRODUCTS, cache=tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_build", lambda *_: pytest.fail("it was built again"))
        again = build_index(PRODUCTS, cache=tmp_path)
    for query in ("mug", "tall red mug", "desk lamp blue", "<q> mugs"):
        assert again.search(query) == first.search(query)
    assert again.scored("tall red mug") == first.scored("tall red mug") != []
    assert len(built(tmp_path)) == 1
    assert not caplog.records


def test_what_is_cached_is_plain_data(tmp_path: Path) -> None:
    build_index(PRODUCTS, cache=tmp_path)
    files = list(built(tmp_path)[0].iterdir())
    assert {file.suffix for file in files} == {".json", ".npy"}
    for file in files:
        if file.suffix == ".npy":
            np.load(file, allow_pickle=False)
        else:
            json.loads(file.read_text())


def test_other_products_options_or_digests_have_another_index(tmp_path: Path) -> None:
    build_index(PRODUCTS, cache=tmp_path)
    other = build_index([*PRODUCTS[:2], replace(LAMP, name="Desk Mug")], cache=tmp_path)
    assert set(other.search("mug")) == {p.asin for p in PRODUCTS}
    build_index(PRODUCTS[::-1], cache=tmp_path)
    build_index(PRODUCTS, cache=tmp_path, digest="one")
    build_index(PRODUCTS, cache=tmp_path, digest="other")
    assert len(built(tmp_path)) == 5
    build_index(PRODUCTS, cache=tmp_path, digest="one")
    assert len(built(tmp_path)) == 5


@pytest.mark.parametrize("name", ["data.csc.index.npy", "vocab.index.json", "asins.npy", "facts.json"])
@pytest.mark.parametrize("how", ["cut", "changed", "gone"])
def test_a_damaged_index_is_built_again_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str, how: str
) -> None:
    expected = build_index(PRODUCTS, cache=tmp_path).scored("tall mug")
    file = built(tmp_path)[0] / name
    content = file.read_bytes()
    if how == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-3] if how == "cut" else content[:-3] + b"\0\1\2")
    with caplog.at_level(logging.WARNING):
        assert build_index(PRODUCTS, cache=tmp_path).scored("tall mug") == expected
    assert f"{name} is " in caplog.text
    assert "it is built again" in caplog.text
    caplog.clear()
    assert build_index(PRODUCTS, cache=tmp_path).scored("tall mug") == expected
    assert not caplog.records


def test_a_cache_that_cannot_be_written_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    shop = build_index(PRODUCTS, cache=tmp_path / "file" / "cache")
    assert shop.search("lamp") == (LAMP.asin,)
    assert "cannot be kept" in caplog.text


def test_an_index_that_another_process_left_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    build_index(PRODUCTS, cache=tmp_path)
    place = built(tmp_path)[0]
    made = (place / "facts.json").stat().st_ino
    monkeypatch.setattr(module, "_read", lambda folder: None)
    assert build_index(PRODUCTS, cache=tmp_path).search("lamp") == (LAMP.asin,)
    assert built(tmp_path) == [place]
    assert (place / "facts.json").stat().st_ino == made
    assert not caplog.records


def test_what_killed_processes_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / ".indexing-old", tmp_path / ".indexing-new"
    old.mkdir()
    new.mkdir()
    os.utime(old, (time.time() - 90_000,) * 2)
    build_index(PRODUCTS, cache=tmp_path)
    assert not old.exists()
    assert new.exists()


def test_a_search_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = build_index([product("B000000007", "Cup", (), 1.0)])
    assert shop.search("cup") == ("B000000007",)
    monkeypatch.setattr(shop, "scored", lambda query: pytest.fail("it was computed again"))
    assert shop.search("cup") == ("B000000007",)
