"""Signals that arrive while a command is still importing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("signal", ["SIGINT", "SIGTERM"])
@pytest.mark.parametrize(("rank", "said"), [("0", "creditlab: interrupted\n"), ("1", "")])
def test_a_signal_during_imports_ends_quietly(signal: str, rank: str, said: str, tmp_path: Path) -> None:
    """The signal comes from within the import of a library, in a place where an exception would be swallowed."""
    (tmp_path / "hydra.py").write_text(
        f"import os, signal\ntry:\n    os.kill(os.getpid(), signal.{signal})\nexcept BaseException:\n    pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "creditlab"],
        cwd=tmp_path,
        env={**os.environ, "LOCAL_RANK": rank},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", said)
