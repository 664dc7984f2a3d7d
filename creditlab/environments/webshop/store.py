"""Large catalogues on disk: an SQLite file of products, built once from the three official files, read one product at a time.

A store is a sealed folder (`creditlab.sealed`) named after the files it was made from. It is built beside its place and moved
there in one step; one that is damaged, or was left unfinished, is built again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import IO, Any, overload

from creditlab.environments.webshop.parsing import Names, ProductReader
from creditlab.environments.webshop.records import Product
from creditlab.environments.webshop.shelves import Shelf, goal_count, pack, unpack
from creditlab.environments.webshop.streaming import ADVICE, Progress, list_entries, object_entries
from creditlab.sealed import seal, unseal

_log = logging.getLogger(__name__)

FORMAT = 1
"""Raised whenever a change to the code makes stored catalogues differ from fresh ones."""
_FACTS, _PRODUCTS = "facts.json", "products.sqlite"
_KEPT = 4096
"""Products that are kept in memory once read."""
_MANY_GOALS = 1 << 40
"""Where the count of one product's goals stops, so that sums stay in 64 bits."""
_PATIENCE, _PAUSE = 4 * 3600.0, 0.2
"""Seconds to wait for another process that builds the same store, and between two looks."""
_TABLE = """CREATE TABLE products
    (position INTEGER PRIMARY KEY, asin TEXT UNIQUE, low REAL, high REAL, goals INTEGER, wished INTEGER, line TEXT)"""
_COLUMNS = "INSERT INTO products VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True)
class Stored:
    """An opened store: its products, what was left out of them and their digest."""

    products: StoredShelf
    skipped: Mapping[str, int]
    digest: str


class StoredShelf(Shelf):
    """Products on disk, of which those last read are kept in memory."""

    def __init__(self, file: Path, length: int) -> None:
        self._file, self._length = file, length
        self._process, self._opened = os.getpid(), _opened(file)
        self._product = lru_cache(_KEPT)(self._read)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Product: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Product]: ...
    def __getitem__(self, index: int | slice) -> Product | Sequence[Product]:
        places = range(self._length)[index]
        return self._product(places) if isinstance(places, int) else tuple(map(self._product, places))

    def __iter__(self) -> Iterator[Product]:
        return (unpack(line) for (line,) in self._rows("SELECT line FROM products ORDER BY position"))

    def position(self, asin: str) -> int:
        found = self._rows("SELECT position FROM products WHERE asin = ?", asin).fetchone()
        if found is None:
            raise KeyError(asin)
        return int(found[0])

    def pricings(self) -> Iterator[tuple[str, tuple[float, ...]]]:
        for asin, low, high in self._rows("SELECT asin, low, high FROM products ORDER BY position"):
            yield asin, (low,) if high is None else (low, high)

    def wished(self) -> Iterator[Product]:
        return (unpack(line) for (line,) in self._rows("SELECT line FROM products WHERE wished > 0 ORDER BY position"))

    def synthetic_goals(self) -> int:
        return int(self._rows("SELECT TOTAL(goals) FROM products").fetchone()[0])

    def _read(self, position: int) -> Product:
        return unpack(self._rows("SELECT line FROM products WHERE position = ?", position).fetchone()[0])

    def _rows(self, query: str, *values: Any) -> sqlite3.Cursor:
        if os.getpid() != self._process:  # a connection must not be used in two processes
            self._process, self._opened = os.getpid(), _opened(self._file)
        return self._opened.execute(query, values)


class StoredNotes(Mapping[str, Any]):
    """The attributes file in a table of its own while a store is built: too much to be held in memory."""

    def __init__(self, table: sqlite3.Connection, entries: Iterator[tuple[str, Any]]) -> None:
        self._table = table
        table.execute("CREATE TABLE notes (asin TEXT PRIMARY KEY, notes TEXT) WITHOUT ROWID")
        lines = ((key.encode("utf-8", "surrogatepass"), json.dumps(notes)) for key, notes in entries)
        self._length = table.executemany("INSERT INTO notes VALUES (?, ?)", lines).rowcount

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, asin: str) -> Any:
        found = self._table.execute("SELECT notes FROM notes WHERE asin = ?", (asin.encode(),)).fetchone()
        if found is None:
            raise KeyError(asin)
        return json.loads(found[0])

    def __iter__(self) -> Iterator[str]:
        return (key.decode() for (key,) in self._table.execute("SELECT asin FROM notes"))


def open_store(files: Names, root: Path, limit: int | None, progress: Progress | None) -> Stored:
    """The store of three files in a cache folder, built if it is not there or damaged.

    `progress` is told the bytes read of the attributes and items files while it is built. Raises ValueError naming the file
    and product that is malformed, or the folder that cannot be written.
    """
    place = root / f"catalogue-{_key(files, limit)}"
    try:
        facts = _facts(place)
        if facts is None:
            root.mkdir(parents=True, exist_ok=True)
            with _alone(root / f".{place.name}.lock"):  # another process may have built it meanwhile
                facts = _facts(place) or _build(files, place, limit, progress)
    except (OSError, sqlite3.Error) as error:
        raise ValueError(f"cannot store the catalogue in {root}: {error}; set env.cache to another folder") from None
    return Stored(StoredShelf(place / _PRODUCTS, facts["products"]), facts["skipped"], facts["digest"])


def _facts(place: Path) -> dict[str, Any] | None:
    """What is known of a store; None where there is no whole one."""
    try:
        return unseal(place, _FACTS)
    except ValueError:
        return None


def _build(files: Names, place: Path, limit: int | None, progress: Progress | None) -> dict[str, Any]:
    for leftover in place.parent.glob(f".building-{place.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    work = Path(tempfile.mkdtemp(prefix=f".building-{place.name}-", dir=place.parent))
    try:
        facts = _fill(files, work, limit, progress)
        seal(work, _FACTS, facts)
        shutil.rmtree(place, ignore_errors=True)
        work.rename(place)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return facts


def _fill(files: Names, work: Path, limit: int | None, progress: Progress | None) -> dict[str, Any]:
    """Writes the products and gives the facts of the store."""
    report: Progress = progress or (lambda read, total: None)
    digest, count, scratch = hashlib.sha256(), 0, work / "notes.sqlite"
    with closing(_created(work / _PRODUCTS)) as products, closing(_created(scratch)) as table:
        items, attributes = Path(files.items), Path(files.attributes)
        before, total = attributes.stat().st_size, attributes.stat().st_size + items.stat().st_size
        notes = StoredNotes(table, object_entries(attributes, lambda read, _: report(read, total)))
        reader = ProductReader(files, notes, dict(object_entries(Path(files.human))))
        products.execute(_TABLE)
        records = list_entries(items, lambda read, _: report(before + read, total))
        for product in reader.products(islice(records, limit)):
            line = pack(product)
            digest.update(line.encode())
            products.execute(_COLUMNS, (count, *_row(product), line))
            count += 1
        products.commit()
    scratch.unlink()
    if not count:
        raise ValueError(f"{files.items}: there is no product in it; {ADVICE}")
    return {"format": FORMAT, "products": count, "skipped": dict(reader.skipped), "digest": digest.hexdigest()}


def _row(product: Product) -> tuple[Any, ...]:
    low, high = (*product.pricing, None)[:2]
    return product.asin, low, high, min(goal_count(product), _MANY_GOALS), len(product.human)


def _created(file: Path) -> sqlite3.Connection:
    """A new database without precautions: one that is not finished is thrown away."""
    made = sqlite3.connect(file)
    made.execute("PRAGMA journal_mode = OFF")
    made.execute("PRAGMA synchronous = OFF")
    return made


def _opened(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True, check_same_thread=False)


def _key(files: Names, limit: int | None) -> str:
    """What a store depends on: the files, told apart by place, size and time of change, and how much of them is read."""
    facts: list[Any] = [FORMAT, limit]
    for file in map(Path, (files.items, files.attributes, files.human)):
        state = file.stat()
        facts += [str(file.resolve()), state.st_size, state.st_mtime_ns]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Waits until no other process builds the same store; a lock ends with its process.

    Raises TimeoutError, naming the lock, after hours.
    """
    with lock.open("w") as file:
        waited, began = False, time.monotonic()
        while not _locked(file):
            if not waited:
                _log.warning("another process stores the catalogue in %s; waiting for it", lock.parent)
                waited = True
            if time.monotonic() - began > _PATIENCE:
                raise TimeoutError(f"another process has held {lock} for {_PATIENCE / 3600:.0f} hours")
            time.sleep(_PAUSE)
        yield


def _locked(file: IO[str]) -> bool:
    """Takes the lock if nobody has it; on a file system without locks both build, and one of the stores stays."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True
