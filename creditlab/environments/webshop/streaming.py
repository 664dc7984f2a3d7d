"""JSON files of any size, read one entry of their outermost list or object at a time."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from creditlab.strict_json import unique_keys

CHUNK = 1 << 20
"""Bytes that are read at once."""
LONGEST = 1 << 26
"""Characters from which something is no entry, but a file that lacks a sign somewhere."""
Progress = Callable[[int, int], None]
"""Told the bytes read so far and their total."""
ADVICE = "correct the file or download it again"
_SPACE = re.compile(r"[ \t\n\r]*")
_SHOWN = 20


def list_entries(path: Path, progress: Progress | None = None, chunk: int = CHUNK) -> Iterator[Any]:
    """The entries of a JSON list in a file; raises ValueError naming the file and the entry that cannot be read.

    Not-a-number and infinities pass, as in the original: a field in which they stand may be one that nobody reads.
    """
    with _opened(path) as file:
        text = _Text(path, file, progress, chunk)
        more, number = text.begin("[", "]", "a list of products"), 0
        while more:
            number += 1
            text.entry = f"entry {number}"
            yield text.value(",]")
            more = text.take() == ","
        text.end()


def object_entries(path: Path, progress: Progress | None = None, chunk: int = CHUNK) -> Iterator[tuple[str, Any]]:
    """The keys and values of a JSON object in a file, as `list_entries` reads a list; a key given twice is an error too."""
    keys: set[str] = set()
    with _opened(path) as file:
        text = _Text(path, file, progress, chunk)
        more, number = text.begin("{", "}", "an object with product ids for keys"), 0
        while more:
            number += 1
            text.entry = f"entry {number}"
            key = text.value(":")
            text.entry += f" ({str(key)[:_SHOWN]!r})"
            if not isinstance(key, str):
                text.refuse("its key is no text")
            if key in keys:
                text.refuse("its key appears twice")
            keys.add(key)
            text.take()
            yield key, text.value(",}")
            more = text.take() == ","
        text.end()


def _opened(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or type(error).__name__}") from None


class _Text:
    """The part of a file's text that is being looked at."""

    def __init__(self, path: Path, file: BinaryIO, progress: Progress | None, chunk: int) -> None:
        self.entry = "its beginning"
        """What errors name."""
        self._path, self._file, self._progress, self._chunk = path, file, progress, chunk
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._scan = json.JSONDecoder(object_pairs_hook=unique_keys).raw_decode
        self._size, self._read = path.stat().st_size, 0
        self._buffer, self._at = "", 0
        self._ended = False

    def begin(self, opening: str, closing: str, what: str) -> bool:
        """Steps over the sign that opens the whole; whether there is anything in it, otherwise it is closed at once."""
        if self._next() != opening:
            raise ValueError(f"{self._path} is no JSON file that holds {what}; {ADVICE}")
        self._at += 1
        empty = self._next() == closing
        self._at += empty
        return not empty

    def take(self) -> str:
        """Steps over the next sign and gives it."""
        sign = self._next()
        self._at += 1
        return sign

    def value(self, followers: str) -> Any:
        """The next value, once a sign that may follow it has been seen: a number may go on in the next chunk."""
        while True:
            self._next()
            try:
                value, end = self._scan(self._buffer, self._at)
                follower = self._sign_at(end)
                if follower and follower in followers:
                    self._at = end
                    return value
                reason = f"{follower!r} follows it" if follower else "the file ends after it"
            except RecursionError:
                self.refuse("it is nested too deeply")
            except json.JSONDecodeError as error:
                near = self._buffer[error.pos : error.pos + _SHOWN]
                cut = not near.strip() or error.msg.startswith("Unterminated string")
                reason = "the file ends in the middle of it" if cut else f"{error.msg}, before {near!r}"
            except ValueError as error:  # a key that comes twice, or a number with too many digits
                self.refuse(str(error))
            if len(self._buffer) - self._at > LONGEST:
                self.refuse(f"{reason}, or it has more than {LONGEST} characters")
            if not self._more():
                self.refuse(reason)

    def end(self) -> None:
        """Nothing but space may follow the whole."""
        if self._next():
            raise ValueError(f"{self._path}: something follows the end of the JSON text; {ADVICE}")

    def refuse(self, reason: str) -> NoReturn:
        """Raises ValueError for the entry that is being read."""
        raise ValueError(f"{self._path}: {self.entry} is no valid JSON: {reason}; {ADVICE}")

    def _next(self) -> str:
        """The next sign that is no space, at which the reading then stands; empty at the end of the file."""
        while not (sign := self._sign_at(self._at)) and self._more():
            pass
        self._at = self._skip(self._at)
        return sign

    def _sign_at(self, start: int) -> str:
        """The first sign from there on that is no space, as far as the text has been read."""
        place = self._skip(start)
        return self._buffer[place : place + 1]

    def _skip(self, start: int) -> int:
        found = _SPACE.match(self._buffer, start)
        return start if found is None else found.end()

    def _more(self) -> bool:
        """Reads on, the more the longer what is left over is; whether there was anything to read."""
        if self._ended:
            return False
        content = self._file.read(max(self._chunk, len(self._buffer) - self._at))
        self._ended = not content
        try:
            decoded = self._decode(content, final=self._ended)
        except UnicodeDecodeError:
            raise ValueError(f"{self._path}: there is no UTF-8 in or soon after {self.entry}; {ADVICE}") from None
        self._buffer, self._at = self._buffer[self._at :] + decoded, 0
        self._read += len(content)
        if self._progress is not None:
            self._progress(self._read, self._size)
        return not self._ended
