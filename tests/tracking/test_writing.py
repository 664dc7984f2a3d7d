"""A file is written whole or not at all, by several processes at once and after one that was killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from creditlab.tracking.writing import WriteError, put

MANY = """
import sys
from pathlib import Path
from creditlab.tracking.writing import put
for number in range(150):
    put(Path(sys.argv[1]), sys.argv[2].encode() * (1 + number), "")
"""


def test_two_processes_may_write_the_same_file(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    writers = [subprocess.Popen([sys.executable, "-c", MANY, str(path), letter]) for letter in "ab"]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    assert path.read_bytes() in (b"a" * 150, b"b" * 150)
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_process_left_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    put(path, b"first", "")
    (tmp_path / ".record.json.tmp").write_bytes(b"half of something longer")
    put(path, b"second", "")
    assert path.read_bytes() == b"second"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(WriteError, match=r"cannot write .*folder: Is a directory; remove what is in its place and go on"):
        put(path, b"content", "go on")
    assert list(tmp_path.iterdir()) == [path]
