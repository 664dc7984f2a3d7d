"""Credit is pure, and a method has no privileges: who imports whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CREDIT = sorted((ROOT / "creditlab" / "credit").glob("*.py"))
PLUGINS = [
    path for name in ("grpo", "graphgpo", "mcgpo", "pair") for path in (ROOT / "plugins" / f"creditlab_{name}").glob("*.py")
]


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
    assert len(path.read_text(encoding="utf-8").splitlines()) < 120
