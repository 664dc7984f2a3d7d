"""Shared fixtures; the one place that knows where the test data lies."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: more threads slow tiny models down many times

TEST_DATA = Path(os.environ.get("CREDITLAB_TEST_DATA", "../shared/data"))
"""Folder with real games and golden numbers; tests that need it skip where it is absent."""
DATA_ROOT = TEST_DATA if TEST_DATA.is_absolute() else Path(__file__).resolve().parents[1] / TEST_DATA


def data_path(*parts: str) -> Path:
    """A file of the test data; skips the test where it is absent, or fails under CREDITLAB_REQUIRE_DATA=1."""
    path = DATA_ROOT.joinpath(*parts)
    if not path.exists():
        reason = f"test data {'/'.join(parts)} not found; set CREDITLAB_TEST_DATA to the folder that holds it"
        if os.environ.get("CREDITLAB_REQUIRE_DATA") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    return path


def benchmark_module(name: str) -> ModuleType:
    """A module of the benchmarks folder, which is no package: plain transcriptions that tests compare with as well."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    """The figures that were saved during a test."""
    from matplotlib.figure import Figure  # here: numpy reads the number of threads as it is imported

    figures: list[Figure] = []
    savefig = Figure.savefig

    def keep(self: Figure, *arguments: object, **options: object) -> None:
        figures.append(self)
        savefig(self, *arguments, **options)

    monkeypatch.setattr(Figure, "savefig", keep)
    return figures
