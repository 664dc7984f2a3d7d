"""What tests of figures share."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved during a test."""
    figures: list[Figure] = []
    savefig = Figure.savefig

    def keep(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        savefig(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures
