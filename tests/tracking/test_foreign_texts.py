"""What an environment named itself is shown without steering a terminal, and found again among the metrics."""

from __future__ import annotations

from creditlab.tracking.metrics import METRICS, families, family_success
from creditlab.tracking.text import encodable


def test_what_would_steer_a_terminal_is_replaced() -> None:
    assert encodable("\x1b[31mcat\x1b[0m\x07", "utf-8") == "�[31mcat�[0m�"
    assert encodable("two\nlines", "utf-8") == "two\nlines"
    assert encodable("café", "ascii") == "caf?"


def test_families_of_any_name_are_found() -> None:
    named = ["kit", "[red]kit[/red]", "a/b/c", "\x1b[31m"]
    metrics = [*METRICS, *map(family_success, named)]
    assert families(metrics) == sorted(named)
