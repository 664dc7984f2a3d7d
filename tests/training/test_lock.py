"""One process at a time in a run folder, whatever happened to the one before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from creditlab.registry import ConfigError
from creditlab.training.folder import locked

HOLD = """
import sys, time
from pathlib import Path
from creditlab.training.folder import locked
with locked(Path(sys.argv[1])):
    sys.stdout.write("held\\n")
    sys.stdout.flush()
    time.sleep(120)
"""


def test_a_folder_in_use_is_refused_and_free_again_after_a_kill(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a-run"
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="a-run is in use by another process; wait for it"), locked(folder):
            pass
        os.kill(other.pid, signal.SIGKILL)
        other.wait(timeout=30)
        with locked(folder):
            assert list(folder.parent.iterdir()) == [folder]  # nothing else lies about
        assert not folder.exists()  # nothing was written, so nothing stays
    finally:
        other.kill()
        other.wait(timeout=30)
