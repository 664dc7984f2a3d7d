"""One process at a time in a run folder, whatever happened to the one before."""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import signal
import subprocess
import sys
import threading
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


def test_one_who_only_looks_keeps_nobody_out(tmp_path: Path) -> None:
    """A suite looks whether a run is at work by taking a shared lock for a moment."""
    looking = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)
    end = threading.Timer(0.15, os.close, [looking])
    end.start()
    with locked(tmp_path):
        end.join()


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EIO])
def test_a_file_system_without_locks_is_no_process_at_work(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(handle: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with caplog.at_level(logging.WARNING), locked(tmp_path / "a-run"):
        assert (tmp_path / "a-run").is_dir()
    [warning] = caplog.messages
    assert warning.startswith(f"{tmp_path / 'a-run'} cannot be locked ({os.strerror(number)}); see to it")


@pytest.mark.parametrize("number", [errno.EWOULDBLOCK, errno.EACCES])
def test_both_answers_of_a_taken_lock_are_understood(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(handle: int, kind: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(ConfigError, match="is in use by another process"), locked(tmp_path / "a-run"):
        pass
