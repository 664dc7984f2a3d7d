"""`python -m creditlab.plugins`: what it lists, how it reads, and what a broken plug-in does to it."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from creditlab.options import option_docs, options_model
from creditlab.plugins import main
from creditlab.registry import Registry, registry


def listing(*words: str, width: int = 80, found: Registry | None = None) -> str:
    out = io.StringIO()
    assert main(words, Console(file=out, width=width), found) == 0
    return out.getvalue()


def test_an_option_reads_as_declared_with_its_meaning_below() -> None:
    assert listing("weighting=evidence", width=100).splitlines()[:4] == [
        "weighting=evidence   from creditlab:builtin",
        "  Contrast × shrunk support × resolution: c = |Δu| · n*/(n* + κ) · q (MCGPO).",
        "    kappa: float ≥ 0 = 2.0",
        "        Support κ at which a contrast counts half, in evidence records (MCGPO, Table 6).",
    ]


def test_axes_parts_needs_and_scope_are_listed() -> None:
    lines = [line.strip() for line in listing("mcgpo", width=140).splitlines()]
    assert "axes: match=state_rubric, fold=opposite, weighting=evidence" in lines
    assert "parts: task (method=graphgpo), task.match (match=graph_state), pair (aux=pair)" in lines
    assert "needs: group" in lines
    assert "scope: group" in lines
    assert "scope: update; group where contexts hold no hidden state" in listing("ccpo", width=140)


@pytest.mark.parametrize("width", [80, 140])
def test_every_option_of_every_component_fits_the_width(width: int) -> None:
    text = listing(width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    words = " ".join(text.split())
    for (axis, name), component in registry().components.items():
        assert f"{axis}={name} from {component.package}" in words
        docs = option_docs(component.cls)
        for option in options_model(component.cls).model_fields:
            assert f" {option}: " in words
            assert docs[option] in words


def test_words_choose_an_axis_a_name_or_both() -> None:
    assert listing("grpo") == listing("method=grpo") == listing("method", "grpo")
    heads = [line.split()[0] for line in listing("fold").splitlines() if line[:1].strip()]
    assert heads == ["fold=all", "fold=leave_one_out", "fold=opposite", "fold=other_trajectories", "fold=same"]


def test_a_word_that_fits_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["grpoo"]) == 2
    assert capsys.readouterr().err == (
        "creditlab.plugins: nothing is called 'grpoo', did you mean 'grpo'?; without a word all are listed\n"
    )


def test_failed_plugins_stand_at_the_end_with_their_reason() -> None:
    found = Registry().load()
    found.failed["mine:broken"] = "ImportError: no [module]"
    assert listing("grpo", width=200, found=found).splitlines()[-1] == "failed to load mine:broken: ImportError: no [module]"


BROKEN = {
    "import_error": "import no_such_module_anywhere",
    "misspelt": """
from creditlab.hookspecs import hookimpl
@hookimpl
def creditlab_component():
    return []
""",
    "duplicate": """
from dataclasses import dataclass
from typing import ClassVar
from creditlab.hookspecs import hookimpl
@dataclass(frozen=True)
class GRPO:
    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "grpo"
    def __call__(self, rows): ...
@hookimpl
def creditlab_components():
    return [GRPO]
""",
    "no_default": """
from dataclasses import dataclass
from typing import ClassVar
from creditlab.hookspecs import hookimpl
@dataclass(frozen=True)
class Required:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "required"
    size: int
@hookimpl
def creditlab_components():
    return [Required]
""",
    "working": """
from dataclasses import dataclass
from typing import ClassVar
from creditlab.hookspecs import hookimpl
@dataclass(frozen=True)
class Everyone:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "everyone"
@hookimpl
def creditlab_components():
    return [Everyone]
""",
}
REASONS = {
    "mine:duplicate": "ValueError: method=grpo is already provided by creditlab:grpo",
    "mine:import_error": "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
    "mine:misspelt": "PluginValidationError: unknown hook 'creditlab_component' in plugin",
    "mine:no_default": "ValueError: component Required: option 'size' has no default",
}


@pytest.fixture
def installed(tmp_path: Path) -> Mapping[str, str]:
    """An environment in which a package with one working and four broken plug-ins is installed."""
    points = "".join(f"{name} = mine_{name}\n" for name in BROKEN)
    for name, text in BROKEN.items():
        (tmp_path / f"mine_{name}.py").write_text(text)
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[creditlab]\n{points}")
    return {**os.environ, "PYTHONPATH": str(tmp_path), "COLUMNS": "200"}


def run(environment: Mapping[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def test_broken_plugins_are_named_and_the_rest_works(installed: Mapping[str, str]) -> None:
    shown = run(installed, "creditlab.plugins")
    assert shown.returncode == 0
    assert "fold=everyone   from mine:working" in shown.stdout
    assert "method=mcgpo   from creditlab:mcgpo" in shown.stdout
    for name, reason in REASONS.items():
        assert f"failed to load {name}: {reason}" in shown.stdout

    named = run(installed, "creditlab.plugins", "required")
    assert named.returncode == 2
    assert named.stderr.endswith(f"; failed to load: {', '.join(REASONS)}\n")

    page = run(installed, "creditlab.reference")
    assert page.stdout == (Path(__file__).parents[2] / "docs" / "reference.md").read_text()
    assert [line.split()[2] for line in page.stderr.splitlines()] == list(REASONS)

    composed = run(installed, "creditlab", "fold=everyone", "--cfg", "job")
    assert composed.returncode == 0
    assert "fold:\n  name: everyone\n" in composed.stdout
    lines = composed.stderr.splitlines()
    assert len(lines) == len(REASONS)
    for line, (name, reason) in zip(lines, REASONS.items(), strict=True):
        assert line.startswith(f"creditlab: plug-in {name} failed to load and is left out: {reason}")

    refused = run(installed, "creditlab", "fold=required")
    assert refused.returncode == 2
    assert not refused.stdout
    assert refused.stderr.splitlines()[-1].startswith(
        "creditlab: unknown fold 'required'; available: all, everyone, leave_one_out, opposite, other_trajectories, same."
    )
