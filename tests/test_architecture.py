"""Rules of the layout: who may import whom, what the source may not contain, and what must be documented."""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from creditlab.config import SECTION_CLASSES
from creditlab.options import option_docs, options_model
from creditlab.registry import Component, registry
from creditlab.training.settings import RunSettings

ROOT = Path(__file__).resolve().parents[1]
CORE = sorted((ROOT / "creditlab").rglob("*.py"))
PLUGINS = sorted((ROOT / "plugins").rglob("*.py"))
EXAMPLES_FOLDER = ROOT / "docs" / "examples"
EXAMPLES = sorted(path for package in EXAMPLES_FOLDER.glob("*/*/__init__.py") for path in package.parent.rglob("*.py"))
"""The packages of the examples, without their tests."""
SOURCE = [*CORE, *PLUGINS, *EXAMPLES]
PLUGIN_PACKAGES = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())
LONGEST_FILE = 400

MAY_IMPORT = {
    "strict_json": set(),
    "sealed": {"strict_json"},
    "rollouts": {"strict_json"},
    "credit": {"rollouts"},
    "hookspecs": {"credit", "environments.panels", "environments.protocol", "rollouts"},
    "options": {"hookspecs"},
    "registry": {"hookspecs", "options"},
    "testing": {"credit", "environments", "hookspecs", "policy", "rollouts"},
    "limits": {"plaintext"},
    "plaintext": set(),
    "environments": {"hookspecs", "limits", "plaintext", "rollouts", "sealed", "strict_json"},
    "policy": {"hookspecs", "plaintext", "rollouts"},
    "learner": {"credit", "hookspecs", "rollouts"},
    "tracking": {"hookspecs", "plaintext", "registry", "rollouts", "strict_json"},
    "analysis": {"credit", "hookspecs", "plaintext", "registry", "rollouts", "tracking"},
}
"""Packages of the core and what each may know of the others; those that put them together are not listed."""
PURE = (
    "credit", "rollouts", "hookspecs", "testing", "environments", "options", "registry", "config", "cli", "mistakes",
    "overrides", "suites", "compare",
)  # fmt: skip
"""Parts that never load torch; `policy` and `learner` do, below their settings."""
BELOW_HOOKSPECS = ("dice", "panels", "protocol")
"""Modules of the environments that the contract is made of; the others stand above it."""
PLUGIN_MAY_IMPORT = ("creditlab.credit", "creditlab.hookspecs", "creditlab.testing")
PLUGIN_LIBRARIES = {"numpy", "scipy", "pydantic"}
FORBIDDEN_MODULES = {"pickle", "cloudpickle", "dill", "joblib", "random", "uuid", "argparse"}
RANDOM_ALLOWED = {"Generator", "default_rng", "SeedSequence", "Philox", "PCG64", "BitGenerator"}
SAME_DRAWS = {"creditlab/environments/webshop/goals.py"}
"""Files that draw as an original does, by a seeded `random.Random` of their own."""
COMMAND_LINES = {"plugins.py"}
"""Files with a command line of their own, which may parse arguments."""


def label(path: Path) -> str:
    return str(path.relative_to(ROOT))


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), filename=str(path))


def imports(path: Path, *, typing_only: bool = True) -> Iterator[str]:
    """Full names of the modules a file imports, anywhere in it; without those that only type checkers see, on request."""
    skipped: set[ast.AST] = set()
    for node in ast.walk(parse(path)):
        if not typing_only and isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            skipped.update(child for statement in node.body for child in ast.walk(statement))
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{label(path)} imports relatively"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def within(module: str, *packages: str) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def package_of(path: Path) -> str:
    return path.relative_to(ROOT / "creditlab").with_suffix("").parts[0]


DECLARED = {
    node.name: {item.name for item in node.body if isinstance(item, ast.FunctionDef) and ast.get_docstring(item)}
    for path in SOURCE
    for node in parse(path).body
    if isinstance(node, ast.ClassDef)
}
"""Documented methods of every class."""


def test_the_rules_cover_files_that_exist() -> None:
    assert {package_of(path) for path in CORE} >= {*MAY_IMPORT, *PURE}
    assert len(PLUGIN_PACKAGES) >= 4
    assert {path.relative_to(EXAMPLES_FOLDER).parts[1] for path in EXAMPLES} == {"creditlab_example", "creditlab_taxi"}


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_core_packages_import_only_what_they_may_know(package: str) -> None:
    allowed = [f"creditlab.{name}" for name in (package, *MAY_IMPORT[package])]
    for path in CORE:
        if package_of(path) == package:
            strangers = [name for name in imports(path) if within(name, "creditlab") and not within(name, *allowed)]
            assert not strangers, f"{label(path)} imports {strangers}; {package} may import {sorted(MAY_IMPORT[package])}"


@pytest.mark.parametrize("module", BELOW_HOOKSPECS)
def test_what_the_contract_takes_from_the_environments_knows_only_rollouts(module: str) -> None:
    allowed = ["creditlab.rollouts", *(f"creditlab.environments.{name}" for name in BELOW_HOOKSPECS)]
    names = list(imports(ROOT / "creditlab" / "environments" / f"{module}.py"))
    assert not [name for name in names if within(name, "creditlab") and not within(name, *allowed)]


def test_nothing_in_the_core_imports_a_plugin() -> None:
    for path in CORE:
        assert not [name for name in imports(path) if within(name, "plugins", *PLUGIN_PACKAGES)], label(path)


def test_plugins_import_credit_hookspecs_and_testing_only() -> None:
    for path in PLUGINS:
        own = path.relative_to(ROOT / "plugins").parts[0]
        assert not list(strangers_to_a_plugin(path, {own, "torch"}))


def test_packages_in_the_examples_keep_to_the_same_and_to_their_dependencies() -> None:
    for path in EXAMPLES:
        folder, own, *_ = path.relative_to(EXAMPLES_FOLDER).parts
        project = tomllib.loads((EXAMPLES_FOLDER / folder / "pyproject.toml").read_text())["project"]
        declared = {re.split(r"[^\w]", requirement)[0] for requirement in project["dependencies"]}
        assert not list(strangers_to_a_plugin(path, {own, *declared}))


def test_an_import_that_a_plugin_may_not_make_is_found(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("import numpy, gymnasium, creditlab_pair\nfrom creditlab.environments.panels import freeze_panel\n")
    inner = "creditlab.environments.panels.freeze_panel"
    assert set(strangers_to_a_plugin(path, set())) == {"gymnasium", "creditlab_pair", inner}
    assert set(strangers_to_a_plugin(path, {"gymnasium", "creditlab_pair", "creditlab"})) == {inner}


def strangers_to_a_plugin(path: Path, libraries: set[str]) -> Iterator[str]:
    """What a file imports beside the three parts of the core, the standard library and its libraries."""
    for name in imports(path):
        top = name.partition(".")[0]
        known = top in sys.stdlib_module_names or top in libraries | PLUGIN_LIBRARIES
        if not (within(name, *PLUGIN_MAY_IMPORT) if within(name, "creditlab") else known):
            yield name


def test_torch_in_plugins_belongs_to_an_auxiliary_loss() -> None:
    """And is imported where the loss is computed: listing plug-ins must not cost seconds."""
    axes: dict[str, set[str]] = {}
    for component in registry().components.values():
        axes.setdefault(component.cls.__module__.partition(".")[0], set()).add(component.axis)
    users = {
        path.relative_to(ROOT / "plugins").parts[0] for path in PLUGINS for name in imports(path) if within(name, "torch")
    }
    assert users == {package for package in users if axes[package] == {"aux"}}
    for path in PLUGINS:
        for statement in parse(path).body:
            assert not (isinstance(statement, (ast.Import, ast.ImportFrom)) and "torch" in ast.unparse(statement)), label(
                path
            )


@pytest.mark.parametrize("part", PURE)
def test_parts_without_a_model_load_no_torch(part: str) -> None:
    for path in CORE:
        if package_of(path) == part:
            heavy = [n for n in imports(path, typing_only=False) if within(n, "torch", "transformers", "deepspeed")]
            assert not heavy, f"{label(path)} imports {heavy}"


def test_credit_knows_no_configuration_and_no_logging() -> None:
    for path in CORE:
        if package_of(path) == "credit":
            foreign = [n for n in imports(path) if within(n, "hydra", "omegaconf", "logging", "pluggy", "wandb", "rich")]
            assert not foreign, f"{label(path)} imports {foreign}"


@pytest.mark.parametrize("path", SOURCE, ids=label)
def test_source_keeps_the_house_rules(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) <= LONGEST_FILE
    assert "TODO" not in text
    assert "FIXME" not in text
    forbidden = FORBIDDEN_MODULES - ({"argparse"} if path.name in COMMAND_LINES else set())
    drawing = {"random.Random"} if label(path) in SAME_DRAWS else set()
    assert not [name for name in imports(path) if name.partition(".")[0] in forbidden and name not in drawing]
    for node in ast.walk(parse(path)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            assert called not in ("print", "breakpoint", "eval", "exec"), f"line {node.lineno}: {called}"
            module, _, name = called.rpartition(".")
            if module in ("np.random", "numpy.random"):
                assert name in RANDOM_ALLOWED, f"line {node.lineno}: {called} uses the global random state"


@pytest.mark.parametrize("path", SOURCE, ids=label)
def test_everything_public_is_documented(path: Path) -> None:
    tree = parse(path)
    assert ast.get_docstring(tree), "the module has no docstring"
    assert not list(undocumented(tree))


def undocumented(scope: ast.Module | ast.ClassDef) -> Iterator[str]:
    """Public classes, functions and methods without a docstring of their own or of the base that declares them.

    A protocol documents its methods as a whole.
    """
    bases = {ast.unparse(base).rpartition(".")[2] for base in scope.bases} if isinstance(scope, ast.ClassDef) else set()
    inherited = {name for base in bases for name in DECLARED.get(base, ())}
    for node in scope.body:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_"):
            stub = ast.unparse(node.body[-1]) == "..."
            if not ast.get_docstring(node) and not stub and node.name not in inherited:
                yield f"line {node.lineno}: {node.name}"
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node)


@pytest.mark.parametrize("component", registry().components.values(), ids=lambda c: f"{c.axis}-{c.name}")
def test_every_component_and_option_says_what_it_is(component: Component) -> None:
    assert component.cls.__doc__
    assert not component.cls.__doc__.startswith(f"{component.cls.__name__}("), "that is the docstring dataclass makes up"
    assert set(options_model(component.cls).model_fields) <= set(option_docs(component.cls))


def test_every_key_of_the_sections_says_what_it_is() -> None:
    for cls in SECTION_CLASSES.values():
        assert {field.name for field in dataclasses.fields(cls)} == set(option_docs(cls)), cls.__name__
    plain = {field.name for field in dataclasses.fields(RunSettings)} - set(SECTION_CLASSES)
    assert plain == set(option_docs(RunSettings))


def test_every_plugin_package_has_an_entry_point_and_types() -> None:
    points = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["creditlab"]
    assert set(points.values()) == {"creditlab.builtin", *PLUGIN_PACKAGES}
    assert all(name == module.removeprefix("creditlab_") for name, module in points.items() if name != "builtin")
    assert all((ROOT / "plugins" / package / "py.typed").exists() for package in PLUGIN_PACKAGES)
