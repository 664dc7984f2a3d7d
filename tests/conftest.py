"""Shared fixtures; the one place that knows where the test data lies."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
