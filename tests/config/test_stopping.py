"""Signals that arrive while a command is still importing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "words",
    [
        ["creditlab", "--help"],
        ["creditlab", "--cfg", "job"],
        ["creditlab.compare", "--help"],
        ["creditlab.evaluate", "--help"],
        ["creditlab.doctor", "--help"],
        ["creditlab.plugins"],
        ["creditlab.reference"],
    ],
    ids=" ".join,
)
def test_a_reader_that_is_gone_ends_a_command_quietly(words: list[str], tmp_path: Path) -> None:
    """As `| head` does: a shell shows 141 for it, and 1 is what the library of tables chooses."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=120,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stderr == ""
    assert done.returncode in (141, 1)


def test_a_pipe_of_the_program_itself_that_breaks_is_told(tmp_path: Path) -> None:
    code = "from creditlab.stopping import run_command\ndef main(words): raise BrokenPipeError('a worker')\nrun_command(main)"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("BrokenPipeError: a worker\n")


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
