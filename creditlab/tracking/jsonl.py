"""metrics.jsonl: one line per step, training and evaluation merged, on disk before the next event."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from creditlab import strict_json
from creditlab.tracking.events import Listener, Metrics, Run, Summary
from creditlab.tracking.writing import writing

STEP = "step"
"""Key of the step in every line."""


class JsonlListener(Listener):
    """Writes metrics.jsonl and events.jsonl in the run folder.

    A value that is not finite is written as null, for JSON has no NaN.
    """

    def __init__(self) -> None:
        self._file: BinaryIO | None = None
        self._folder = Path()
        self._offset = 0
        self._line: dict[str, float | int | None] = {}

    def on_start(self, run: Run) -> list[str]:
        self._folder, path = run.folder, run.folder / "metrics.jsonl"
        with writing(path):
            self._open(run, path)
        missing = set(range(0 if run.resumed is None else run.resumed + 1)) - {int(record[STEP]) for record in read(path)}
        if not missing:
            return []
        return [f"{path} lacks {len(missing)} of the steps up to {run.resumed}, the first is {min(missing)}; they are lost"]

    def _open(self, run: Run, path: Path) -> None:
        run.folder.mkdir(parents=True, exist_ok=True)
        truncate(path, -1 if run.resumed is None else run.resumed)
        events = run.folder / "events.jsonl"
        if run.resumed is None:
            events.unlink(missing_ok=True)
        elif events.exists():
            _drop_torn_line(events)
        last = read(path)[-1:]
        self._file = path.open("r+b")
        self._offset = self._file.seek(0, os.SEEK_END)
        if last:
            # an evaluation of the resumed step joins the line that is already there
            self._line = {STEP: int(last[0][STEP]), **_plain(last[0])}
            self._offset -= len(_encode(self._line))

    def on_update(self, step: int, metrics: Metrics) -> None:
        self._log(step, metrics)

    def on_evaluation(self, step: int, metrics: Metrics) -> None:
        self._log(step, metrics)

    def on_event(self, kind: str, message: str) -> None:
        if self._file is None:  # the run folder is not known yet
            return
        path = self._folder / "events.jsonl"
        with writing(path), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"kind": kind, "message": message}) + "\n")

    def on_finish(self, summary: Summary) -> None:
        if self._file is not None:
            self._file.close()

    def paths(self) -> Mapping[str, Path]:
        return {"metrics": self._folder / "metrics.jsonl"}

    def _log(self, step: int, metrics: Metrics) -> None:
        """Appends the line of a new step, or rewrites the last line in place with what was added to its step."""
        if self._file is None:
            raise ValueError("metrics arrive before the run was started; call Tracker.start(run) first")
        if STEP in metrics:
            raise ValueError(f"a metric is named {STEP!r}, which is the key of the step; rename it")
        if self._line.get(STEP) != step:
            self._offset = self._file.seek(0, os.SEEK_END)
            self._line = {STEP: step}
        self._line.update(_plain(metrics))
        with writing(self._folder / "metrics.jsonl"):
            self._file.seek(self._offset)
            self._file.write(_encode(self._line))
            self._file.truncate()
            self._file.flush()
            os.fsync(self._file.fileno())


def read(path: Path) -> list[dict[str, float]]:
    """The records of a metrics.jsonl, one per step, null as NaN; a torn last line is left out, ValueError for any other."""
    if not path.exists():
        return []
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from None
    records: list[dict[str, float]] = []
    for number, line in enumerate(lines, start=1):
        record = _decode(line)
        if record is None:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number}: not a record of metrics; repair or remove the line")
        if records and record[STEP] <= records[-1][STEP]:
            raise ValueError(
                f"{path}, line {number}: step {record[STEP]} comes after step {records[-1][STEP]}; repair the file"
            )
        records.append(record)
    return records


def truncate(path: Path, step: int) -> None:
    """Cuts a metrics.jsonl after the last line with a step of at most `step`; torn and later lines go, -1 empties it."""
    kept = [record for record in read(path) if record[STEP] <= step]
    temporary = path.with_name(path.name + ".tmp")
    try:
        with temporary.open("wb") as file:
            file.writelines(_encode({STEP: int(record[STEP]), **_plain(record)}) for record in kept)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _plain(metrics: Metrics) -> dict[str, float | None]:
    values = {name: float(value) for name, value in metrics.items() if name != STEP}
    return {name: value if math.isfinite(value) else None for name, value in values.items()}


def _encode(line: Mapping[str, float | int | None]) -> bytes:
    return (json.dumps(line, allow_nan=False) + "\n").encode()


def _decode(line: bytes) -> dict[str, float] | None:
    """One record, or None when the line is not one."""
    try:
        record: Any = strict_json.parse(line)
        if not isinstance(record, dict) or type(record.get(STEP)) is not int or record[STEP] < 0:
            return None
        return {name: record[STEP] if name == STEP else _number(value) for name, value in record.items()}
    except (ValueError, OverflowError):
        return None


def _number(value: Any) -> float:
    if value is None:
        return math.nan
    if type(value) not in (int, float) or not math.isfinite(value):
        raise ValueError("neither a finite number nor null")
    return float(value)


def _drop_torn_line(path: Path) -> None:
    """Cuts what a killed process left of its last line, so that the next one begins on its own."""
    with path.open("r+b") as file:
        file.truncate(file.read().rfind(b"\n") + 1)
