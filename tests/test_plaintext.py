"""Foreign text cannot steer a terminal, whichever command shows it."""

from __future__ import annotations

import pytest

from creditlab import plugins, stopping
from creditlab.cli import complain, warn_failed_plugins
from creditlab.doctor import __main__ as doctor
from creditlab.doctor.items import Item, Status
from creditlab.doctor.report import lines
from creditlab.memory import main as memory
from creditlab.options import ConfigError
from creditlab.plaintext import clean, gibibytes, printable, reason
from creditlab.registry import registry

HOSTILE = "a\x1b]0;title\x07b\x1b[2Jc\nd\u202ee\x9bf"


def safe(text: str, lines: int = 1) -> None:
    assert text.count("\n") == lines
    assert all(c.isprintable() for c in text.replace("\n", ""))


def test_control_characters_are_replaced_and_nothing_else() -> None:
    assert printable(HOSTILE) == "a�]0;title�b�[2Jc d�e�f"
    assert printable("two  blanks, a ü and a 漢") == "two  blanks, a ü and a 漢"
    assert clean(" a\n\n b\t") == "a b"


def test_the_reason_of_an_error_is_never_empty() -> None:
    assert reason(ValueError("several\nlines")) == "several lines"
    assert reason(KeyError()) == "KeyError"


def test_sizes_are_in_the_unit_that_suits_them() -> None:
    assert [gibibytes(size) for size in (3 << 30, 3 << 29, 1 << 20, 0)] == ["3.0 GiB", "1.5 GiB", "1.0 MiB", "0.0 MiB"]


def test_messages_of_every_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    stopping.tell(HOSTILE)
    complain(ConfigError(HOSTILE), [])
    monkeypatch.setattr(registry(), "failed", {f"plug{HOSTILE}": HOSTILE})
    warn_failed_plugins()
    memory([f"output={HOSTILE}"])
    doctor.main([HOSTILE])
    plugins.main([HOSTILE])
    told = capsys.readouterr().err
    safe(told, lines=6)
    assert [line.partition(":")[0] for line in told.splitlines()] == [
        *["creditlab"] * 3,
        "creditlab.memory",
        "creditlab.doctor",
        "creditlab.plugins",
    ]


def test_one_rank_of_a_machine_tells_unless_it_concerns_every_rank(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "1")
    stopping.tell("for all alike")
    stopping.tell("of this rank", every_rank=True)
    assert capsys.readouterr().err == "creditlab: of this rank\n"


def test_the_doctors_report() -> None:
    found = [Item("Plug-ins", f"p{HOSTILE}", Status.BROKEN, HOSTILE, HOSTILE)]
    for line, _ in lines(found):
        safe(line, lines=0)
