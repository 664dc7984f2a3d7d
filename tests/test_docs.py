"""What the documentation says is so: links, tests and commands it names, its tables, and its examples."""

from __future__ import annotations

import ast
import doctest
import functools
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console

from creditlab import evaluate, memory, plugins
from creditlab.cli import compose_job, run_hydra
from creditlab.credit.conventions import PRESETS
from creditlab.environments.alfworld.families import ALIASES
from creditlab.environments.alfworld.generator import rooms_of
from creditlab.environments.alfworld.rubric import TEMPLATES
from creditlab.environments.alfworld.scenes import ROOMS
from creditlab.hookspecs import AXES
from creditlab.registry import registry
from creditlab.rollouts import RolloutBatch
from creditlab.rollouts.table import to_table
from creditlab.suites.plan import plan
from creditlab.suites.request import Request, read_request
from creditlab.suites.suite import with_seeds
from creditlab.tracking.metrics import METRICS

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", *DOCS.glob("*.md"), *DOCS.glob("methods/*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAMED_TEST = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")
MENTIONED_TEST = re.compile(r"tests/[\w/]+\.py")
OWN_MACHINE = re.compile(r"(?<![\w.~])/(?:home|root|work|tmp|opt|mnt|Users)/|file://|/simple/")
"""Paths and addresses that mean something on one machine alone."""


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def label(page: Path) -> str:
    return str(page.relative_to(ROOT))


def table_after(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table whose header row starts with the given cells, without header and rule."""
    lines = read(DOCS / page).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(heading))
    rows = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return rows


def bare(cell: str) -> str:
    """A cell without its code marks; a dash stands for nothing."""
    return cell.replace("`", "").replace("–", "").strip()


def anchors(page: Path) -> set[str]:
    """The addresses of a page's headings, as Markdown viewers make them."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", read(page), flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=label)
def test_links_lead_somewhere(page: Path) -> None:
    for link in LINK.findall(read(page)):
        if link.startswith(("http://", "https://")):
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        assert target.exists(), f"{label(page)} links to {link}, which does not exist"
        if anchor:
            assert anchor in anchors(target), f"{label(page)} links to {link}, but {path} has no such heading"


@functools.cache
def named_in(path: str) -> set[str]:
    """Names of the tests of a file, with their class where they have one."""
    found: set[str] = set()
    for node in ast.parse(read(ROOT / path)).body:
        if isinstance(node, ast.FunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.ClassDef):
            found |= {f"{node.name}::{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return found


def test_every_test_that_is_named_exists() -> None:
    named = [(label(page), *match) for page in PAGES for match in NAMED_TEST.findall(read(page))]
    assert len(named) > 50
    for page, path, name in named:
        assert (ROOT / path).is_file(), f"{page} names {path}, which does not exist"
        assert name in named_in(path), f"{page} names {path}::{name}, which does not exist"


def test_every_pitfall_names_a_test_or_says_why_not() -> None:
    text = read(DOCS / "pitfalls.md")
    cases = re.split(r"^(?=\d+\. )", text.partition("## Faults measured")[0], flags=re.MULTILINE)[1:]
    assert [int(case.partition(".")[0]) for case in cases] == list(range(1, 43))
    for case in [*cases, *(" ".join(row) for row in table_after("pitfalls.md", "| fault | here | test |"))]:
        excused = ("oncerns a later part", "ot applicable", "See the\n    [glossary]", "See the\n   [glossary]")
        assert NAMED_TEST.search(case) or any(words in case for words in excused), case
    assert len(MENTIONED_TEST.findall(text)) == len(NAMED_TEST.findall(text)), "a test is named in a form that is not checked"


COMMANDS = {
    tuple(shlex.split(line, comments=True)): label(page)
    for page in PAGES
    if page.name not in ("plugins.md", "environment-tutorial.md")  # their commands are tested with the example packages
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```$", read(page), flags=re.DOTALL | re.MULTILINE)
    if not language
    for line in block.splitlines()
    if line.startswith("python -m creditlab")
}
"""Every different command, with a page that shows it."""


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_command_composes(command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, module, *words = command
    if module == "creditlab.plugins":
        assert plugins.main(words, Console(quiet=True)) == 0
        return
    if module == "creditlab.memory":
        assert memory.main(words, Console(quiet=True)) == 0
        return
    if module == "creditlab.doctor":
        assert {word.partition("=")[0] for word in words} <= {"json", "run_root"}
        return
    if module == "creditlab.evaluate":
        write_run(tmp_path, words)
        monkeypatch.chdir(tmp_path)
        _, overrides = evaluate.read_request(words)
        assert run_hydra(lambda job: 0, overrides) == 0
        return
    if module == "creditlab.compare":
        write_suite(tmp_path)
        monkeypatch.chdir(tmp_path)
        request = read_request(words)
        if isinstance(request, Request):
            assert plan(with_seeds(request.suite, (0,)), request.overrides, request.run_root)
        return
    assert module == "creditlab"
    if words == ["--help"]:
        with pytest.raises(SystemExit) as ended:
            run_hydra(lambda job: 1, words)
        assert not ended.value.code
    elif words[:1] == ["--config-dir"]:
        write_experiment(tmp_path)
        monkeypatch.chdir(tmp_path)
        assert run_hydra(lambda job: 1, words) == 0
    elif "-m" in words:
        assert run_hydra(lambda job: 0, words) == 0
    else:
        compose_job([word for word in words if word not in ("--cfg", "job")])


def write_run(folder: Path, words: list[str]) -> None:
    """The configuration of a run where the words of a command expect one."""
    for word in words:
        if word.startswith("run="):
            path = folder / word.removeprefix("run=") / "config.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(compose_job([]).config))


def write_suite(folder: Path) -> None:
    """The suite of the comparisons page, in the place that its first line names."""
    suite = re.search(r"```yaml\n# (\S+)\n(.*?)```", read(DOCS / "comparisons.md"), flags=re.DOTALL)
    assert suite
    (folder / suite[1]).write_text(suite[2])


def write_experiment(folder: Path) -> None:
    """The experiment of the configuration page, in the place that its first line names."""
    experiment = re.search(r"```yaml\n# (\S+)\n(.*?)```", read(DOCS / "configuration.md"), flags=re.DOTALL)
    assert experiment
    path = folder / experiment[1]
    path.parent.mkdir(parents=True)
    path.write_text(experiment[2])


@functools.cache
def keys() -> set[str]:
    """Every key and section that some composition has."""
    lines = ["", "method=grpo aux=pair shaping=rubric_progress", "method=covgpo method@base=gigpo match=similar_state"]
    lines += [f"method={name}" for name in registry().names("method")]
    lines += [f"match={name}" for name in ("hidden_state", "shuffled_rubric")]
    lines += ["model=hf model.path=x", "weighting=uniform fold=same", "env=webshop"]
    return {key for line in lines for key in sections(compose_job(line.split()).config)}


def sections(node: object, prefix: str = "") -> Iterator[str]:
    if isinstance(node, Mapping):
        for key, value in node.items():
            yield f"{prefix}{key}"
            yield from sections(value, f"{prefix}{key}.")


def test_every_key_that_is_named_exists() -> None:
    groups = "|".join(sorted({key.partition(".")[0] for key in keys() if "." in key}))
    named = [(label(page), key) for page in PAGES for key in re.findall(rf"`((?:{groups})\.[\w.]+)(?:=[^`]*)?`", read(page))]
    assert len(named) > 60
    for page, key in named:
        assert key in keys(), f"{page} names {key}, which does not exist"


def test_there_are_commands_to_try() -> None:
    assert len(COMMANDS) > 30


def test_the_examples_about_rollouts_hold() -> None:
    outcome = doctest.testfile(str(DOCS / "rollouts.md"), module_relative=False)
    assert outcome.attempted > 30
    assert outcome.failed == 0


def test_every_column_of_the_store_is_documented() -> None:
    text = read(DOCS / "rollouts.md")
    schema = to_table(RolloutBatch((), update=0, seed=0)).schema
    for column in schema:
        inner = column.type.value_type if isinstance(column.type, pa.LargeListType) else None
        names = [column.name, *([inner.field(i).name for i in range(inner.num_fields)] if inner else [])]
        for name in names:
            assert f"`{name}`" in text, name


def test_every_metric_is_documented() -> None:
    rows = table_after("metrics.md", "| name | meaning |")
    assert {bare(name): meaning for name, meaning in rows} == dict(METRICS)


def test_every_diagnostic_of_the_pair_loss_is_documented() -> None:
    documented = read(DOCS / "metrics.md").partition("## Credit diagnostics")[2]
    source = read(ROOT / "creditlab" / "credit" / "preferences.py")
    names = {re.sub(r"\{.*?\}", "<level>", name) for name in re.findall(r"\"pairs/([\w{}.]+)\"", source)}
    assert len(names) > 10
    for name in names:
        assert f"`{name}`" in documented, name


def test_the_axes_of_the_methods_are_those_of_the_table() -> None:
    rows = table_after("configuration.md", "| method | match | fold | weighting |")
    documented = {bare(name): {axis: bare(cell) for axis, cell in zip(AXES, cells, strict=True)} for name, *cells in rows}
    components = {name: registry().find("method", name) for name in registry().names("method")}
    components["aux=pair"] = registry().find("aux", "pair")
    assert documented == {name: {axis: c.axes.get(axis, "") for axis in AXES} for name, c in components.items()}


def test_the_parts_of_each_axis_are_those_of_the_table() -> None:
    rows = {bare(row[0]): row for row in table_after("configuration.md", "| axis | question |")}
    for axis in AXES:
        documented = re.findall(r"`(\w+)`", rows[axis][3])
        assert sorted(documented) == [
            n for n in registry().names(axis) if registry().find(axis, n).package == "creditlab:builtin"
        ]


def test_the_conventions_are_those_of_the_table() -> None:
    rows = table_after("configuration.md", "| field | `default` |")
    documented = {
        bare(row[0]): dict(zip(("default", "paper", "reference"), map(bare, row[1:4]), strict=True)) for row in rows
    }
    assert documented == {field: dict(choices) for field, choices in PRESETS.items()}


def test_families_and_rooms_are_those_of_the_table() -> None:
    for family, alias, _, rooms in table_after("alfworld.md", "| family | alias |"):
        assert ALIASES[bare(alias)] == bare(family)
        assert tuple(rooms.split(", ")) == rooms_of(bare(family)) or (rooms == "all four" and rooms_of(bare(family)) == ROOMS)


def test_the_folder_of_the_default_run_is_the_one_that_pages_name() -> None:
    pages = [page for page in PAGES if page.name != "results.md"]  # which names the runs that were made, and their controls
    named = {name for page in pages for name in re.findall(r"mcgpo-alfworld-[0-9a-f]{10}-s0", page.read_text())}
    assert named == {compose_job([]).folder.name}


def test_every_rubric_channel_is_documented() -> None:
    documented = {bare(row[0]) for row in table_after("alfworld.md", "| channel | value | full |")}
    assert documented == {name for template in TEMPLATES.values() for name in template.channels}


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=label)
def test_pages_name_no_place_on_one_machine(page: Path) -> None:
    assert not OWN_MACHINE.search(read(page)), OWN_MACHINE.search(read(page))
