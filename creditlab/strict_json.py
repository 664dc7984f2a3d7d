"""JSON as the project writes it: whatever else a damaged file may hold is refused with one ValueError."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn


def parse(text: str | bytes) -> Any:
    """The value of a JSON text in UTF-8; raises ValueError with the reason for anything else.

    Refused beside syntax errors: NaN and infinities, a key given twice, nesting too deep to read, text that is no Unicode.
    """
    decoded = text.decode() if isinstance(text, bytes) else text
    try:
        value = json.loads(decoded, parse_constant=_refuse, object_pairs_hook=unique_keys)
        if "\\ud" in decoded.lower():  # an escape may stand for half a character, which no file can hold
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    return value


def unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """The JSON object of its keys and values, for a decoder's hook; raises ValueError where a key comes twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(key for key in keys if keys.count(key) > 1)[:40]!r} appears twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")
