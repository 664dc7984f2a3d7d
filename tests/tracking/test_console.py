"""The console: readable without a terminal, harmless with foreign text, and right in its final table."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from creditlab.plaintext import clean
from creditlab.tracking import ConsoleListener, JsonlListener, Run, Summary, Tracker
from creditlab.tracking.console import Mode
from creditlab.tracking.text import duration, sparkline


class Clock:
    """A clock that a test moves by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Stream(io.StringIO):
    """A text stream with a chosen encoding."""

    def __init__(self, encoding: str = "utf-8") -> None:
        super().__init__()
        self._encoding = encoding

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding


def listen(mode: Mode = "plain", stream: Stream | None = None, clock: Clock | None = None) -> tuple[ConsoleListener, Stream]:
    stream = stream or Stream()
    console = Console(file=stream, force_terminal=mode == "live", width=100, _environ={})
    return ConsoleListener(mode, every=2, console=console, clock=clock or Clock()), stream


def make_run(folder: Path, resumed: int | None = None) -> Run:
    return Run(name="demo", folder=folder, config={}, manifest={}, seed=3, updates=5, resumed=resumed)


UPDATE = {
    "episode/success_rate": 0.5,
    "episode/reward/mean": 4.25,
    "actor/pg_loss": 0.5,
    "actor/loss": -0.0125,
    "timing_s/gen": 1.0,
    "timing_s/env": 0.25,
    "timing_s/update_actor": 1.0,
    "timing_s/adv": 0.5,
}


def test_plain_output_has_a_line_every_k_updates_and_no_control_codes(tmp_path: Path) -> None:
    listener, stream = listen()
    listener.on_start(make_run(tmp_path))
    for step in range(1, 6):
        listener.on_update(step, UPDATE)
    text = stream.getvalue()
    assert [line.split("  ")[0] for line in text.splitlines()[2:]] == ["update 2/5", "update 4/5", "update 5/5"]
    assert "success 50.0 %  reward 4.25  loss -0.0125  2.0 s: env 12 %, generation 38 %, training 50 %" in text
    assert all(character.isprintable() for character in text.replace("\n", ""))


def test_evaluations_show_success_its_error_and_the_curve_so_far(tmp_path: Path) -> None:
    listener, stream = listen()
    listener.on_start(make_run(tmp_path))
    listener.on_evaluation(0, {"val/success_rate": 0.25, "val/success_rate_se": 0.03})
    listener.on_evaluation(4, {"val/success_rate": 0.6, "val/success_rate_se": 0.031, "val/turns": 8.25})
    first, second = stream.getvalue().splitlines()[2:]
    assert first == "warm start  success 25.0 % ± 3.0  ▁"
    assert second == "evaluation after 4  success 60.0 % ± 3.1  turns 8.2  ▁█"


def test_a_rate_without_a_spread_shows_its_bound_and_the_signs_are_explained_once(tmp_path: Path) -> None:
    """Rule of three: after 0 of 16 the rate is below 3/16 = 18.75 % with 95 % confidence, after 2 of 2 anything above 0."""
    listener, stream = listen()
    listener.on_start(make_run(tmp_path))
    for step, (success, episodes) in enumerate(((0.0, 16.0), (1.0, 40.0), (1.0, 2.0))):
        listener.on_evaluation(step, {"val/success_rate": success, "val/success_rate_se": 0.0, "val/episodes": episodes})
    listener.on_evaluation(3, {"val/success_rate": 0.5, "val/success_rate_se": 0.125, "val/episodes": 16.0})
    listener.on_finish(Summary("finished"))
    text = stream.getvalue()
    assert "│ warm start               │ 0.0 % of 16, bound 18.8 %   │" in text
    assert "│ after update 1           │ 100.0 % of 40, bound 92.5 % │" in text
    assert "│ after update 2           │ 100.0 % of 2, bound 0.0 %   │" in text
    assert "│ after update 3           │ 50.0 % ± 12.5               │" in text
    assert "± 0.0" not in text
    assert text.count("standard error") == 1


@pytest.mark.parametrize("mode", ["plain", "live"])
def test_foreign_text_is_neither_markup_nor_control_code(tmp_path: Path, mode: Mode) -> None:
    listener, stream = listen(mode)
    listener.on_start(make_run(tmp_path))
    listener.on_event("warning", "[bold]x[/bold] \x1b[2Jcleared\x07 :smile:")
    listener.on_progress("rollouts", 1, 2, "[red]y[/red]\x1b[31m")
    listener.on_finish(Summary("finished"))
    text = stream.getvalue()
    assert "[bold]x[/bold] �[2Jcleared� :smile:" in text
    assert "\x1b[2J" not in text
    assert "\x07" not in text
    assert "\x1b[31m" not in text
    if mode == "live":
        assert "[red]y[/red]�[31m" in text


def test_a_long_silence_within_a_phase_is_broken(tmp_path: Path) -> None:
    clock = Clock()
    listener, stream = listen(clock=clock)
    listener.on_start(make_run(tmp_path))
    for second in range(0, 26, 5):
        clock.now = second
        listener.on_progress("warm start", second, 60, "loss 1.2")
    assert stream.getvalue().splitlines()[2:] == ["  warm start 10/60  loss 1.2", "  warm start 20/60  loss 1.2"]


def test_the_end_shows_results_time_and_paths(tmp_path: Path) -> None:
    """Mean of the last three .50 .60 .64 is .58, gain over .36 is 22 points; the rest of 100 s is `other`."""
    listener, stream = listen()
    listener.on_start(make_run(tmp_path))
    listener.on_evaluation(0, {"val/success_rate": 0.36, "timing_s/warm_start": 40.0, "timing_s/testing": 5.0})
    for step, success in enumerate((0.7, 0.5, 0.6, 0.64), start=1):
        listener.on_update(
            step, {"timing_s/gen": 4.0, "timing_s/env": 1.0, "timing_s/adv": 0.5, "timing_s/update_actor": 5.0}
        )
        listener.on_evaluation(step, {"val/success_rate": success})
    listener.on_finish(Summary("finished", {"timing_s/total": 100.0}, {"curve": Path("run") / "curve.png"}, "resume=true"))
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in stream.getvalue().splitlines() if "│" in line]
    assert cells == [
        ["warm start", "36.0 %"],
        ["after update 2", "50.0 %"],
        ["after update 3", "60.0 %"],
        ["after update 4", "64.0 %"],
        ["mean of the last 3", "58.0 %"],
        ["best, after update 1", "70.0 %"],
        ["gain over the warm start", "+22.0 points"],
        ["warm start", "40.0 s", "40.0 %"],
        ["rollouts", "16.0 s", "16.0 %"],
        ["credit", "2.0 s", "2.0 %"],
        ["learner", "20.0 s", "20.0 %"],
        ["evaluation", "5.0 s", "5.0 %"],
        ["other", "17.0 s", "17.0 %"],
    ]
    assert stream.getvalue().splitlines()[-2:] == ["curve  run/curve.png", "resume=true"]


def test_sums_in_the_summary_go_before_those_that_were_heard(tmp_path: Path) -> None:
    """A resumed run knows the seconds of its earlier sessions; the listener heard only the last one."""
    listener, stream = listen()
    listener.on_start(make_run(tmp_path))
    listener.on_update(1, {"timing_s/gen": 4.0})
    listener.on_finish(Summary("finished", {"timing_s/total": 20.0, "timing_s/gen": 10.0}))
    assert "rollouts   │ 10.0 s │ 50.0 %" in stream.getvalue()


def test_the_end_of_a_resumed_run_tells_its_own_time_and_that_of_all_sittings(tmp_path: Path) -> None:
    """20 s in all, 14 s of them before; 10 s of rollouts and 1 s of credit leave 9 s, 45 %."""
    listener, stream = listen()
    listener.on_start(make_run(tmp_path, resumed=1))
    sums = {"timing_s/total": 20.0, "timing_s/gen": 10.0, "timing_s/adv": 1.0}
    listener.on_finish(Summary("finished", sums, before=14.0))
    text = stream.getvalue()
    assert "finished in 6.0 s, 20.0 s with the sittings before\n" in text
    assert "rollouts   │ 10.0 s │ 50.0 %" in text
    assert "other      │ 9.0 s  │ 45.0 %" in text


def test_a_resumed_run_counts_its_earlier_evaluations(tmp_path: Path) -> None:
    first = Tracker([JsonlListener()])
    first.start(make_run(tmp_path))
    first.evaluation(0, {"val/success_rate": 0.4})
    first.evaluation(1, {"val/success_rate": 0.5})
    first.evaluation(2, {"val/success_rate": 0.9})
    listener, stream = listen()
    second = Tracker([JsonlListener(), listener])
    second.start(make_run(tmp_path, resumed=1))
    second.evaluation(2, {"val/success_rate": 0.6})
    second.finish(Summary("finished"))
    text = stream.getvalue()
    assert "resumes after update 1" in text
    assert "gain over the warm start │ +15.0 points" in text


def test_live_bars_end_complete_and_give_the_cursor_back(tmp_path: Path) -> None:
    listener, stream = listen("live")
    listener.on_start(make_run(tmp_path))
    for step in range(1, 6):
        listener.on_progress("rollouts", 1, 2, "")
        listener.on_update(step, UPDATE)
    listener.on_finish(Summary("finished"))
    text = stream.getvalue()
    assert "5/5" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_quiet_shows_warnings_only(tmp_path: Path) -> None:
    listener, stream = listen("quiet")
    listener.on_start(make_run(tmp_path))
    listener.on_update(2, UPDATE)
    listener.on_evaluation(2, {"val/success_rate": 0.5})
    listener.on_event("info", "checkpoint written")
    listener.on_event("skipped_update", "loss is nan")
    listener.on_finish(Summary("finished"))
    assert stream.getvalue() == "skipped_update: loss is nan\n"


def test_a_stream_without_unicode_is_served(tmp_path: Path) -> None:
    listener, stream = listen(stream=Stream("ascii"))
    listener.on_start(make_run(tmp_path))
    listener.on_evaluation(0, {"val/success_rate": 0.25, "val/success_rate_se": 0.03})
    listener.on_finish(Summary("finished"))
    assert stream.getvalue().isascii()


def test_texts() -> None:
    assert clean("a\tb\nc\x00") == "a b c�"
    assert clean("x" * 9, limit=4) == "xxx…"
    assert [duration(s) for s in (0.04, 59.9, 59.96, 185, 7830)] == [
        "0.0 s",
        "59.9 s",
        "1 min 00 s",
        "3 min 05 s",
        "2 h 10 min",
    ]
    assert sparkline([]) == ""
    assert sparkline([0.5, 0.5]) == "▁▁"
    assert sparkline([0.0, 0.5, 1.0]) == "▁▅█"
    assert sparkline([0.5, 0.55]) == "▁▅"
