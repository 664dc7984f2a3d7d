"""The official files as streams, and the catalogue's store on disk: equal to the files, built once, built again."""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from webshop_files import ITEM, TABLE, golden_files, item, read, write

from creditlab.environments.webshop.catalogue import Catalogue, load_catalogue
from creditlab.environments.webshop.goals import server_goals
from creditlab.environments.webshop.shelves import pack, unpack
from creditlab.environments.webshop.streaming import list_entries, object_entries

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(st.lists(json_values, max_size=6), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_streams_give_what_the_whole_file_holds(
    tmp_path_factory: pytest.TempPathFactory, value: list[Any], chunk: int, indent: int | None, ascii_only: bool
) -> None:
    path = tmp_path_factory.getbasetemp() / "stream.json"
    path.write_text(json.dumps(value, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert list(list_entries(path, chunk=chunk)) == value
    keyed = {f"é{number}": entry for number, entry in enumerate(value)}
    path.write_text(json.dumps(keyed, indent=indent, ensure_ascii=ascii_only), encoding="utf-8")
    assert list(object_entries(path, chunk=chunk)) == list(keyed.items())


@given(st.lists(json_values, max_size=3), st.data())
@settings(max_examples=250, deadline=None)
def test_streams_refuse_what_is_no_json(
    tmp_path_factory: pytest.TempPathFactory, value: list[Any], data: st.DataObject
) -> None:
    """A file with one sign changed is read to the end if and only if it is JSON as a whole, and then gives the same."""
    text = json.dumps(value)
    place = data.draw(st.integers(0, len(text) - 1))
    text = (
        text[:place]
        + data.draw(st.sampled_from(["", "]", "[", "}", ",", '"', "1", ".", "e", " ", "\\", "-"]))
        + text[place + 1 :]
    )
    path = tmp_path_factory.getbasetemp() / "changed.json"
    path.write_text(text, encoding="utf-8")
    try:
        expected = json.loads(text)
    except ValueError:
        expected = None
    if isinstance(expected, list) and '"' not in text:  # a changed sign may make a key appear twice, which is refused
        assert list(list_entries(path, chunk=3)) == expected
    elif not isinstance(expected, list):
        with pytest.raises(ValueError, match=r"changed\.json"):
            list(list_entries(path, chunk=3))


def test_progress_ends_at_the_size_of_the_file(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM] * 20)
    told: list[tuple[int, int]] = []
    list(list_entries(Path(files.items), lambda *seen: told.append(seen), chunk=1000))
    size = Path(files.items).stat().st_size
    assert told[-1] == (size, size)
    assert [read for read, _ in told] == sorted(read for read, _ in told)
    assert len(told) > 5


def test_a_packed_product_is_the_product() -> None:
    assert unpack(pack(TABLE)) == TABLE
    assert pack(TABLE).isascii()


def test_a_stored_catalogue_is_the_catalogue(tmp_path: Path) -> None:
    kept = load_catalogue(golden_files(), cache=tmp_path)
    stored = load_catalogue(golden_files(), cache=tmp_path, stored_from=0)
    assert list(stored.products) == list(kept.products)
    assert [stored.products[place] for place in range(-1, 299)] == [kept.products[place] for place in range(-1, 299)]
    assert stored.products[3:7] == kept.products[3:7]
    assert [stored.get(product.asin) for product in kept.products] == list(kept.products)
    assert (stored.digest, dict(stored.skipped), len(stored)) == (kept.digest, dict(kept.skipped), 300)
    assert list(stored.shelf.wished()) == list(kept.shelf.wished())
    assert stored.shelf.synthetic_goals() == kept.shelf.synthetic_goals() == 1565
    for mode in ("human", "synthetic"):
        assert server_goals(stored, mode, 5) == server_goals(kept, mode, 5)
    with pytest.raises(KeyError):
        stored.get("B000000000")
    with pytest.raises(IndexError):
        stored.products[300]


def test_a_store_is_built_once_and_again_when_its_files_or_the_limit_change(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM, item(asin="B00TABLE02")])
    built: list[str] = []

    def load(limit: int | None = None) -> Catalogue:
        def tell(read: int, total: int) -> None:
            built.append("built")

        built.clear()
        return load_catalogue(files, limit, cache=tmp_path / "cache", stored_from=0, progress=tell)

    assert len(load()) == 2
    assert built
    assert len(load()) == 2
    assert not built
    assert len(load(1)) == 1
    assert built
    write(tmp_path, [ITEM, item(asin="B00TABLE02"), item(asin="B00TABLE03")])
    assert len(load()) == 3
    assert built


def test_a_store_that_several_want_at_once_is_built_once(tmp_path: Path) -> None:
    files = write(tmp_path, [item(asin=f"B00TABLE{number:02d}") for number in range(40)])
    size = sum(Path(file).stat().st_size for file in (files.items, files.attributes))
    finished: list[int] = []

    def load(_: int) -> Catalogue:
        def tell(read: int, total: int) -> None:
            time.sleep(0.01)  # so that the others come meanwhile
            if read == total == size:
                finished.append(threading.get_ident())

        return load_catalogue(files, cache=tmp_path / "cache", stored_from=0, progress=tell)

    with ThreadPoolExecutor(4) as workers:
        loaded = list(workers.map(load, range(4)))
    assert [list(catalogue.products) for catalogue in loaded[1:]] == [list(loaded[0].products)] * 3
    assert len(set(finished)) == 1


def test_a_damaged_or_unfinished_store_is_built_again(tmp_path: Path) -> None:
    files = write(tmp_path, [item(asin=f"B00TABLE{number:02d}") for number in range(40)])
    cache = tmp_path / "cache"
    whole = load_catalogue(files, cache=cache)
    load_catalogue(files, cache=cache, stored_from=0)
    (place,) = cache.glob("catalogue-*")
    (cache / f".building-{place.name}-killed").mkdir()

    def flipped(path: Path) -> None:
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)

    damages: list[Callable[[], object]] = [
        lambda: flipped(place / "products.sqlite"),
        lambda: flipped(place / "facts.json"),
        lambda: os.truncate(place / "products.sqlite", 4096),
        (place / "products.sqlite").unlink,
        (place / "facts.json").unlink,
        lambda: shutil.rmtree(place),
    ]
    for damage in damages:
        damage()
        again = load_catalogue(files, cache=cache, stored_from=0)
        assert list(again.products) == list(whole.products)
        assert [path.name for path in cache.iterdir() if path.is_dir()] == [place.name]


def test_a_store_reads_in_a_child_process(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM])
    catalogue = load_catalogue(files, cache=tmp_path / "cache", stored_from=0)
    child = os.fork()
    if child == 0:
        os._exit(0 if catalogue.get("B00TABLE01") == TABLE_WITHOUT_WISHES else 1)
    assert os.waitpid(child, 0)[1] == 0


TABLE_WITHOUT_WISHES = read(ITEM, wishes=()).products[0]


def test_a_cache_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    files = write(tmp_path, [ITEM])
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"cannot store the catalogue in .*file/cache: .*; set env.cache to another folder"):
        load_catalogue(files, cache=tmp_path / "file" / "cache", stored_from=0)
