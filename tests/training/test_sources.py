"""What the code of a run is known by: a hash of Python files that follows their names and contents and nothing else."""

from __future__ import annotations

import importlib
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest

from creditlab.cli import compose_job
from creditlab.registry import Component, registry
from creditlab.training.manifest import manifest
from creditlab.training.sources import code_of, digest, plugins_of


def package(folder: Path) -> Path:
    """A package of two modules."""
    (folder / "parts").mkdir(parents=True)
    (folder / "__init__.py").write_text("A = 1\n")
    (folder / "parts" / "formula.py").write_text("B = 2\n")
    return folder


def test_the_hash_of_a_package_is_the_same_wherever_it_lies(tmp_path: Path) -> None:
    here, there = package(tmp_path / "one" / "mine"), package(tmp_path / "two" / "mine")
    (there / "notes.txt").write_text("no code")
    assert digest([here]) == digest([there])


@pytest.mark.parametrize("change", ["content", "name", "more", "less", "joined"])
def test_the_hash_of_a_package_follows_its_files(change: str, tmp_path: Path) -> None:
    folder = package(tmp_path / "mine")
    formula, first = folder / "parts" / "formula.py", digest([folder])
    if change == "content":
        formula.write_text("B = 3\n")
    elif change == "name":
        formula.rename(folder / "parts" / "other.py")
    elif change == "more":
        (folder / "parts" / "empty.py").write_text("")
    elif change == "less":
        formula.unlink()
    else:  # the same names and bytes one after the other, in one file
        (folder / "__init__.py").write_text("A = 1\nmine/parts/formula.pyB = 2\n")
        formula.unlink()
    assert digest([folder]) not in (None, first)


def test_what_has_no_python_files_has_no_hash(tmp_path: Path) -> None:
    (tmp_path / "mine.so").write_text("")
    (tmp_path / "empty").mkdir()
    assert digest([tmp_path / "mine.so"]) is digest([tmp_path / "empty"]) is digest([]) is None


COMPONENT = "from creditlab.credit.folds import All\nclass Mine(All):\n    pass\n"


def test_the_code_of_a_plug_in_is_its_whole_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where its component lies in a module of it; but not what lies beside it in a namespace."""
    folder = tmp_path / "shared_space" / "mine_whole"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "part.py").write_text(COMPONENT)
    (folder / "formula.py").write_text("B = 2\n")
    (tmp_path / "shared_space" / "other.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    cls = importlib.import_module("shared_space.mine_whole.part").Mine
    monkeypatch.setitem(registry().components, ("fold", "mine"), Component("fold", "mine", cls, "numpy:mine"))
    first = code_of("numpy:mine")
    assert first == {"version": version("numpy"), "sha256": digest([folder])}
    (tmp_path / "shared_space" / "other.py").write_text("C = 3\n")
    assert code_of("numpy:mine") == first
    (folder / "formula.py").write_text("B = 3\n")
    assert code_of("numpy:mine")["sha256"] not in (None, first["sha256"])


def test_a_run_names_the_plug_ins_of_its_components_and_none_of_creditlab(monkeypatch: pytest.MonkeyPatch) -> None:
    job = compose_job(["method=mcgpo"])
    assert plugins_of(job) == ()
    fold = registry().find("fold", "opposite")
    monkeypatch.setitem(registry().components, ("fold", "opposite"), replace(fold, package="mine:fold"))
    monkeypatch.setitem(registry().components, ("method", "other"), Component("method", "other", Path, "mine:unused"))
    assert plugins_of(job) == ("mine:fold",)  # a part of the pair loss, which is a part of the method


def test_a_changed_checkout_is_known_by_a_hash_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """In a copy of the sources, so that what is edited here makes no difference."""
    module = importlib.import_module("creditlab.training.manifest")
    for name in ("creditlab", "plugins"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "part.py").write_text("A = 1\n")
    monkeypatch.setattr(module, "_checkout", lambda: tmp_path)
    job = compose_job([])
    panel = type("Panel", (), {"name": "p", "tasks": (), "hash": "h"})()
    found = {}
    for revision in ("abc", "abc-modified", None):
        monkeypatch.setattr(module, "_revision", lambda revision=revision: revision)
        found[revision] = manifest(job, panel, {}, {})["sources"]
    assert found["abc"] is None
    assert found[None] is None
    (tmp_path / "plugins" / "part.py").write_text("A = 2\n")
    monkeypatch.setattr(module, "_revision", lambda: "abc-modified")
    assert manifest(job, panel, {}, {})["sources"] not in (None, found["abc-modified"])
