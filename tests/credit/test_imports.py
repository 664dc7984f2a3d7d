"""Credit is pure, and a method has no privileges: who imports whom."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CREDIT = sorted((ROOT / "creditlab" / "credit").glob("*.py"))
PACKAGES = sorted((ROOT / "plugins").glob("creditlab_*"))
PLUGINS = [path for package in PACKAGES for path in sorted(package.glob("*.py"))]
LINES = 120
"""Lines of code that a plug-in may have, without empty ones, comments and docstrings."""
SYMBOLS = {
    "grpo": "A N R ρ·inv", "rloo": "A e", "gigpo": "A^E A^S Q_t ρ·inv_t γ w", "hgpo": "a_k ŵ_k Q_t γ",
    "graphgpo": "β_G β_E ω d(s′) d(s) 10·ω", "g2po": "A_EP A_NC A_EC w V y δ γ",
    "ccpo": "A_EP H F η Y Z K_F V z γ", "covgpo": "λ q_fail τ_R τ_P P", "progpo": "A_E w₁ w₂ Q_t γΦ_{t+1} r_t Φ_t",
    "bipace": "A^E w Q̂ V̂ ε γ", "mcgpo": "λ", "pair": "d⁺ d⁻ ⌊|B|/2⌋ c λ |Δu| m",
}  # fmt: skip
"""The papers' names, as the specification of the methods has them, which a reader should meet in each plug-in."""


def imported(path: Path) -> set[str]:
    """Modules imported at run time; imports under `if TYPE_CHECKING` are for the type checker alone."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    names: set[str] = set()
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
    return names


@pytest.mark.parametrize("path", CREDIT, ids=lambda p: p.stem)
def test_credit_knows_only_rollouts(path: Path) -> None:
    ours = {name for name in imported(path) if name.split(".")[0].startswith("creditlab")}
    assert all(name.startswith(("creditlab.credit", "creditlab.rollouts")) for name in ours), ours
    assert not imported(path) & {"torch", "hydra", "omegaconf", "logging", "random"}


@pytest.mark.parametrize("path", PLUGINS, ids=lambda p: f"{p.parent.name}.{p.stem}")
def test_plugins_know_only_the_contract_and_the_credit_core(path: Path) -> None:
    allowed = ("creditlab.credit", "creditlab.hookspecs", "creditlab.testing", path.parent.name)
    ours = {name for name in imported(path) if name.split(".")[0].startswith(("creditlab", "plugins"))}
    assert all(name.startswith(allowed) for name in ours), ours
    assert "torch" not in imported(path) or path.stem == "loss", "only an auxiliary loss may import torch"


@pytest.mark.parametrize("package", PACKAGES, ids=lambda p: p.name)
def test_a_plugin_is_short(package: Path) -> None:
    assert 0 < sum(len(code_lines(path)) for path in package.glob("*.py")) <= LINES


def code_lines(path: Path) -> list[str]:
    text = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(text.splitlines(), start=1)
    return [line for number, line in lines if number not in docstrings and line.strip() and not line.strip().startswith("#")]


def test_every_plugin_has_its_symbols_listed() -> None:
    assert {f"creditlab_{name}" for name in SYMBOLS} == {package.name for package in PACKAGES}


@pytest.mark.parametrize("name", SYMBOLS)
def test_a_reader_of_the_paper_finds_its_symbols(name: str) -> None:
    """As words of the plug-in's docstrings and comments."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "plugins" / f"creditlab_{name}").glob("*.py"))
    for symbol in SYMBOLS[name].split():
        assert re.search(rf"(?<![\w^]){re.escape(symbol)}(?!\w)", text), symbol
