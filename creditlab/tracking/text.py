"""Short texts for people: numbers, durations, and curves in one line."""

from __future__ import annotations

from collections.abc import Sequence

from creditlab.plaintext import printable

_BARS = "▁▂▃▄▅▆▇█"
_SMALLEST_SPAN = 0.1
"""A curve flatter than ten points is not blown up to full height."""
RATE_NOTE = "± is one standard error; where none or all of n tasks are solved, the bound is 3/n away (95 %)"
"""What the numbers beside a success rate are, to be said once below a table of `rate`."""


def encodable(text: str, encoding: str) -> str:
    """The text with `?` for what a stream of this encoding cannot show, and without what would steer a terminal."""
    harmless = "\n".join(map(printable, text.split("\n")))
    return harmless.encode(encoding, "replace").decode(encoding)


def percent(share: float) -> str:
    """A share as a percentage with one decimal."""
    return f"{100 * share:.1f} %"


def rate(share: float, error: float | None, episodes: float, tasks: float | None = None) -> str:
    """A success rate with its standard error, both in percent.

    Where none or all of the episodes were solved that error is 0 and says nothing. The 95 % bound 3/n stands there instead,
    with n the number of `tasks` where that is not the number of episodes: those of one task are no independent draws.
    """
    if 0 < share < 1:
        return percent(share) + ("" if error is None else f" ± {100 * error:.1f}")
    if not episodes:
        return percent(share)
    bound = min(1.0, 3 / (tasks or episodes))
    return f"{percent(share)} of {episodes:.0f}, bound {percent(abs(share - bound))}"


def duration(seconds: float) -> str:
    """Seconds as `4.2 s`, `3 min 05 s` or `2 h 10 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def sparkline(shares: Sequence[float]) -> str:
    """A curve of shares as one character per value, scaled from its lowest to its highest value."""
    if not shares:
        return ""
    low = min(shares)
    span = max(max(shares) - low, _SMALLEST_SPAN)
    return "".join(_BARS[round((share - low) / span * (len(_BARS) - 1))] for share in shares)
