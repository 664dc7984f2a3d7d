"""Suite files, records and folders that bad luck leaves behind: one clear reason each, and nothing else is lost."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from suite_runs import planned, stand_in, whole, write_run

from creditlab import compare
from creditlab.options import ConfigError
from creditlab.suites.board import Board, State, Status
from creditlab.suites.plan import PlannedRun, plan
from creditlab.suites.processes import log_path
from creditlab.suites.record import make_record, read_record, record_path, sealed
from creditlab.suites.request import Request, read_request
from creditlab.suites.runner import LocalRunner
from creditlab.suites.suite import read_suite
from creditlab.training.manifest import write_json

BOMB = "\n".join(["a0: &a0 [x]", *(f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)), "entries: *a9"])
"""A file of a few hundred letters that stands for 9⁹ values."""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (BOMB, "its aliases repeat themselves or more than 100000 values; write them out"),
        ("entries: &all [grpo, *all]", "its aliases repeat themselves"),
        (f"entries: {'[' * 1200}{']' * 1200}", "is nested too deeply"),
        ("entries: [grpo]\nname: ..", "'..' is no name for a suite; write name: and at most 60 letters"),
        ('entries: [{method: grpo, name: "  "}]', "the name '  ' of an entry is blank"),
        ('entries: [{method: grpo, name: "a\\eb"}]', "holds U+001B, which is no character to show"),
        ('entries: [{method: grpo, name: "a\\ud800b"}]', "U+D800 is half a character"),
        (
            "entries: [grpo, gigpo]\nbaseline: gigpo\nsettings: [{name: a, entries: [grpo]}]",
            "the entry 'gigpo' takes part in no setting",
        ),
    ],
    ids=["bomb", "loop", "deep", "dots", "blank", "control", "half", "idle"],
)
def test_a_file_that_could_not_come_to_a_report_is_refused_before_anything_is_run(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError) as error:
        read_request([f"suite={path}"])
    assert str(error.value).startswith(f"suite {path}")
    assert message in str(error.value)


def test_a_name_of_the_file_that_is_none_for_a_suite_asks_for_one(tmp_path: Path) -> None:
    path = tmp_path / f"{'x' * 61}.yaml"
    path.write_text("entries: [grpo]")
    with pytest.raises(ConfigError, match="is no name for a suite; write name:"):
        read_suite(path)
    path.write_text("entries: [grpo]\nname: short")
    assert read_suite(path).name == "short"


def test_aliases_that_repeat_a_few_values_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        "entries:\n  - {name: a, method: mcgpo, overrides: &both [fold=same]}\n  - {name: b, method: rloo, overrides: *both}"
    )
    assert [entry.overrides for entry in read_suite(path).entries] == [("fold=same",), ("fold=same",)]


def test_an_entry_on_the_command_line_has_a_name_that_a_file_can_hold() -> None:
    with pytest.raises(ConfigError, match=r"holds U\+DCE4"):  # what a terminal that is not in UTF-8 hands over
        read_request(["methods=['grpo match=\udce4']"])


def kept(tmp_path: Path) -> tuple[PlannedRun, dict[str, Any]]:
    """A run and its record."""
    run = planned(tmp_path)
    write_run(run, whole(run))
    return run, make_record(run)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record | {"evaluations": None},
        lambda record: record | {"evaluations": []},
        lambda record: record | {"evaluations": ["a"]},
        lambda record: record | {"evaluations": record["evaluations"] * 2},
        lambda record: record | {"evaluations": [{"metrics": point["metrics"]} for point in record["evaluations"]]},
        lambda record: record | {"evaluations": [{"step": point["step"]} for point in record["evaluations"]]},
        lambda record: record | {"evaluations": [point | {"metrics": {}} for point in record["evaluations"]]},
        lambda record: record | {"credit": []},
        lambda record: record | {"credit": {"zero_fraction": 3}},
        lambda record: record | {"config": None},
        lambda record: record | {"manifest": {}},
        lambda record: record | {"format": True},
    ],
)
def test_a_record_with_another_content_is_refused_by_name_whoever_sealed_it(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    run, record = kept(tmp_path)
    folder = tmp_path / "records"
    write_json(record_path(folder, run), record)
    assert read_record(folder, run) == record
    content = {key: value for key, value in record.items() if key != "sha256"}
    write_json(record_path(folder, run), sealed(spoil(content)))
    with pytest.raises(ConfigError, match="is no record of a run in format 2; remove it or put back a copy") as error:
        read_record(folder, run)
    assert str(record_path(folder, run)) in str(error.value)


def test_results_are_shown_where_their_files_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["methods=[grpo,rloo]", "seeds=[0,1]", "experiment=quick", "training.updates=2", f"run_root={tmp_path}", "last=1"]
    request = read_request(words)
    assert isinstance(request, Request)
    for run in plan(request.suite, request.overrides, request.run_root):
        write_run(run, whole(run), configuration_hash=run.hash)
    taken = request.out / "comparison.json"
    taken.mkdir(parents=True)
    assert compare.main(words) == 1
    shown = capsys.readouterr()
    assert "Paired differences to grpo" in shown.out
    assert (
        shown.err
        == f"creditlab: cannot write {taken}: Is a directory; remove what is in its place and call the command again\n"
    )


def test_a_place_of_records_that_cannot_be_looked_at_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"is no record of a run: .*File name too long"):
        read_record(tmp_path / ("x" * 300), planned(tmp_path))


def test_a_run_whose_log_cannot_be_written_fails_by_itself(tmp_path: Path) -> None:
    runs = [planned(tmp_path, "grpo"), planned(tmp_path, "mcgpo")]
    log = log_path(tmp_path / "out", runs[0])
    log.mkdir(parents=True)
    statuses = [Status(run) for run in runs]
    with Board(statuses, Console(quiet=True)) as board:
        LocalRunner(tmp_path / "out", 1, stand_in).run(statuses, board, [])
    assert [status.state for status in statuses] == [State.FAILED, State.FINISHED]
    assert statuses[0].message == f"it was not started, with its log {log}: Is a directory"
