"""Foreign text made harmless, and sizes in words; imports nothing, so that every part may use it."""

from __future__ import annotations

GIB, MIB = 1 << 30, 1 << 20


def printable(text: str) -> str:
    """Text on one line, without characters that would steer a terminal."""
    return "".join(c if c.isprintable() else " " if c.isspace() else "�" for c in text)


def clean(text: str, limit: int = 300) -> str:
    """Foreign text on one line without control characters, at most `limit` characters."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= limit else line[: limit - 1] + "…"


def reason(error: BaseException) -> str:
    """What an error says, on one line; its class where it says nothing."""
    return clean(str(error)) or type(error).__name__


def gibibytes(count: float) -> str:
    """Bytes in GiB, few in MiB."""
    return f"{count / GIB:.1f} GiB" if count >= GIB / 10 else f"{count / MIB:.1f} MiB"
