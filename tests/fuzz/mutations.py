"""Damage, as disks, editors and typing hands do it: to bytes, to JSON, to parenthesised text and to words."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fuzzing import Rng

ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 10**30, -(10**400), 1.5, 1e308, float("nan"), float("inf"), "", " ", "null", "x" * 5000,
    "ä\u202eß\u0000", "\ud800", "{}", "0", "-3", [], {}, [[]], {"": {}}, [1, "a", None], {"name": 3},
)  # fmt: skip
"""What nobody expects where something else should stand."""


def pick(rng: Rng, options: Any) -> Any:
    """One of the options."""
    return options[int(rng.integers(len(options)))]


def damaged(content: bytes, rng: Rng) -> bytes:
    """Bytes after one to three accidents."""
    for _ in range(int(rng.integers(1, 4))):
        content = pick(rng, BYTE_DAMAGES)(content, rng)
    return content


def _span(content: bytes, rng: Rng, longest: int = 64) -> tuple[int, int]:
    start = int(rng.integers(len(content) + 1))
    return start, min(len(content), start + int(rng.integers(1, longest)))


def _flip(content: bytes, rng: Rng) -> bytes:
    if not content:
        return b"\x01"
    position = int(rng.integers(len(content)))
    return content[:position] + bytes([content[position] ^ (1 << int(rng.integers(8)))]) + content[position + 1 :]


def _cut(content: bytes, rng: Rng) -> bytes:
    return content[: int(rng.integers(len(content) + 1))]


def _behead(content: bytes, rng: Rng) -> bytes:
    return content[int(rng.integers(len(content) + 1)) :]


def _delete(content: bytes, rng: Rng) -> bytes:
    start, end = _span(content, rng)
    return content[:start] + content[end:]


def _repeat(content: bytes, rng: Rng) -> bytes:
    start, end = _span(content, rng, 4000)
    return content[:end] + content[start:end] + content[end:]


def _insert(content: bytes, rng: Rng) -> bytes:
    start, _ = _span(content, rng)
    return content[:start] + rng.bytes(int(rng.integers(1, 64))) + content[start:]


def _blank(content: bytes, rng: Rng) -> bytes:
    start, end = _span(content, rng, 4096)
    return content[:start] + bytes(end - start) + content[end:]


def _exchange(content: bytes, rng: Rng) -> bytes:
    middle = int(rng.integers(len(content) + 1))
    return content[middle:] + content[:middle]


BYTE_DAMAGES: tuple[Callable[[bytes, Rng], bytes], ...] = (
    _flip, _flip, _cut, _behead, _delete, _repeat, _insert, _blank, _exchange,
    lambda content, rng: b"", lambda content, rng: content + content, lambda content, rng: b"[" * 100_000,
)  # fmt: skip


def damaged_json(value: Any, rng: Rng) -> str:
    """The text of a JSON value that is no longer what it was, and perhaps no JSON."""
    text = json.dumps(_changed(value, rng))
    match int(rng.integers(12)):
        case 0:
            return text.replace('": ', '": {"a": ', 1)
        case 1 if text.startswith("{"):
            key = json.dumps(pick(rng, sorted(value))) if value else '""'
            return f"{{{key}: {json.dumps(pick(rng, ODD_VALUES))}, {text[1:]}"  # a key given twice
        case 2:
            return f"{text}{text}"
        case 3:
            return text[: int(rng.integers(len(text)))]
        case 4:
            return "[" * 5000 + text + "]" * 5000
    return text


def _changed(value: Any, rng: Rng) -> Any:
    """The value with one thing in it left out, renamed, repeated or replaced."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = pick(rng, sorted(value))
        if isinstance(value[key], (dict, list)) and rng.random() < 0.6:
            return {**value, key: _changed(value[key], rng)}
        match int(rng.integers(4)):
            case 0:
                return {k: v for k, v in value.items() if k != key}
            case 1:
                return {(misspelt(k, rng) if k == key else k): v for k, v in value.items()}
            case 2:
                return {**value, key: value[pick(rng, sorted(value))]}
        return {**value, key: pick(rng, ODD_VALUES)}
    if isinstance(value, list) and value and rng.random() < 0.8:
        place = int(rng.integers(len(value)))
        return [*value[:place], *([_changed(value[place], rng)] * int(rng.integers(3))), *value[place + 1 :]]
    return pick(rng, ODD_VALUES)


def misspelt(word: str, rng: Rng) -> str:
    """A word with one letter missing, twice, exchanged or replaced."""
    place = int(rng.integers(len(word) + 1))
    match int(rng.integers(4)):
        case 0:
            return word[:place] + word[place + 1 :]
        case 1:
            return word[:place] + word[place : place + 1] * 2 + word[place + 1 :]
        case 2:
            return word[:place] + word[place + 1 : place + 2] + word[place : place + 1] + word[place + 2 :]
    return word[:place] + pick(rng, "aZ_-.=@${}[]'\"\\ ,:é\n\0") + word[place + 1 :]


def damaged_text(text: str, rng: Rng) -> str:
    """Parenthesised text after one to three accidents among its words."""
    words = text.replace("(", " ( ").replace(")", " ) ").split()
    for _ in range(int(rng.integers(1, 4))):
        if not words:
            break
        here, there = int(rng.integers(len(words))), int(rng.integers(len(words)))
        match int(rng.integers(9)):
            case 0:
                del words[here]
            case 1:
                words.insert(here, words[there])
            case 2:
                words[here], words[there] = words[there], words[here]
            case 3:
                words[here] = misspelt(words[here], rng)
            case 4:
                words[here] = pick(rng, ("(", ")", "-", ";", "not", "?x", "=", ":init", "agent1", "x" * 3000, "ä", "9" * 500))
            case 5:
                del words[min(here, there) : max(here, there)]
            case 6:
                words[here:here] = ["("] * int(rng.integers(1, 3000))
            case 7:
                words[here:here] = words[min(here, there) : min(here, there) + 40]
            case 8:
                words[here] = words[here].upper()
    return " ".join(words)
