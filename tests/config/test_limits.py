"""Values that lie outside what a run can do are refused before anything starts, each by its key."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import jobs_of, mistake

from creditlab.limits import user_path

REFUSED = {
    "model.hidden_size=15 model.heads=5": "model.heads=5 must divide model.hidden_size=15 into an even width each, not 3",
    "model.hidden_size=16 model.heads=3": "model.heads=3 must divide model.hidden_size=16",
    "prompt.max_prompt_tokens=1000 prompt.max_response_tokens=25": "prompt.max_prompt_tokens=1000 and "
    "prompt.max_response_tokens=25 make 1025 tokens, more than model.max_positions=1024; shorten one or raise it",
    "training.threads=1025": "training.threads: must be less than or equal to 1024, got 1025",
    "evaluation.panel_seed=-1": "evaluation.panel_seed: must be greater than or equal to 0, got -1",
    "warm_start.seed=-1": "warm_start.seed: must be greater than or equal to 0, got -1",
    "run_root=": "run_root: string should have at least 1 character, got ''",
    "env.games=": "env.games is empty; give a path or auto, or leave it out for generated games",
    "env.eval_games=": "env.eval_games is empty; give a path or auto, or leave it out for generated games",
}
"""Command line to message."""


@pytest.mark.parametrize("line", REFUSED)
def test_the_message_names_the_keys(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert mistake(line, capsys) == REFUSED[line]


def test_the_limits_themselves_are_allowed() -> None:
    allowed = "model.hidden_size=20 model.heads=5 prompt.max_prompt_tokens=1000 prompt.max_response_tokens=24 "
    code, jobs = jobs_of(allowed + "training.threads=1024 evaluation.panel_seed=0 warm_start.seed=0")
    assert (code, len(jobs)) == (0, 1)


@pytest.mark.parametrize("text", ["~nobody-of-this-name/x", "x" * 5000])
def test_what_can_be_no_path_names_its_key(text: str) -> None:
    with pytest.raises(ValueError, match=r"^env\.games: .* is no path: "):
        user_path("env.games", text)


def test_a_path_is_filled_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("WHERE", "here")
    assert user_path("env.games", "~/$WHERE") == tmp_path / "here"
