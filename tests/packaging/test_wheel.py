"""The wheel carries the code, the first-party plug-ins and the configuration; a third party's plug-in joins it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from creditlab.rollouts.store import RolloutStore, load
from creditlab.testing import METHOD_CHECKS

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
OURS = sorted(path.name.removeprefix("creditlab_") for path in (ROOT / "plugins").iterdir() if path.name != "creditlab_pair")
"""The methods that come with the project, a package each."""
TUTORIALS = {"creditlab-example": "plugins.md", "creditlab-taxi": "environment-tutorial.md"}
"""The page that goes through each example."""
SMALLEST = (
    "training.updates=1 rollout.groups=2 rollout.group_size=2 evaluation.episodes=4 warm_start.games=2 warm_start.steps=4 "
    "warm_start.cache=warm checkpoint.rollouts_every=1 tracking.wandb=disabled name=smallest"
)
"""A run that goes through everything once."""
Run = Callable[..., subprocess.CompletedProcess[str]]

WHERE = """
import creditlab, creditlab_pair, importlib.metadata
from creditlab.config import config_dir
print(creditlab.__file__, creditlab_pair.__file__, config_dir(), importlib.metadata.distribution("creditlab").locate_file(""))
"""


def execute(command: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, timeout=300, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheels of creditlab and of the examples installed, built from the sources of this checkout."""
    wheels, site = tmp_path_factory.mktemp("wheels"), tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(wheels)]
    for source in (ROOT, *(EXAMPLES / name for name in TUTORIALS)):
        built = execute([*build, str(source)], wheels)
        assert built.returncode == 0, built.stdout + built.stderr
    names = sorted(path.name for path in wheels.iterdir())
    assert [name.partition("-")[0] for name in names] == ["creditlab", "creditlab_example", "creditlab_taxi"]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(site)]
    installed = execute([*install, *(str(wheels / name) for name in names)], wheels)
    assert installed.returncode == 0, installed.stderr
    return site


@pytest.fixture
def run(site: Path, tmp_path: Path) -> Run:
    """Runs python from an empty folder, with the installed wheels before the checkout."""

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return execute([sys.executable, *arguments], tmp_path, PYTHONPATH=str(site), COLUMNS="120")

    return python


def test_code_plugins_and_configuration_are_those_of_the_wheel(run: Run, site: Path) -> None:
    shown = run("-c", WHERE)
    assert shown.returncode == 0, shown.stderr
    code, pair, conf, metadata = shown.stdout.split()
    assert code == str(site / "creditlab" / "__init__.py")
    assert pair == str(site / "creditlab_pair" / "__init__.py")
    assert conf == str(site / "creditlab" / "conf")
    assert Path(metadata) == site


def test_the_wheel_holds_every_file_of_the_sources(site: Path) -> None:
    for source, target in (("creditlab", "creditlab"), ("plugins", "."), ("conf", "creditlab/conf")):
        files = [
            p.relative_to(ROOT / source)
            for p in (ROOT / source).rglob("*")
            if p.suffix in (".py", ".yaml", ".typed", ".html", ".css")
        ]
        assert files
        assert not [str(name) for name in files if not (site / target / name).exists()]
    assert not list(site.glob("tests*"))


@pytest.mark.parametrize(
    "line", ["method=mcgpo match=state_rubric weighting=uniform", "method=grpo aux=pair", "method=graphgpo"]
)
def test_the_wheel_composes_from_another_folder(line: str, run: Run) -> None:
    shown = run("-m", "creditlab", *line.split(), "--cfg", "job")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert yaml.safe_load(shown.stdout)["method"]["name"] == line.split()[0].removeprefix("method=")


def test_the_wheel_shows_where_its_configuration_comes_from(run: Run, site: Path) -> None:
    shown = run("-m", "creditlab", "--info", "searchpath")
    assert str(site / "creditlab" / "conf") in shown.stdout
    assert str(ROOT / "conf") not in shown.stdout
    assert "pkg://creditlab_example.conf" in shown.stdout
    assert "pkg://creditlab_taxi.conf" in shown.stdout


def test_a_mistake_is_one_line_from_the_wheel_too(run: Run) -> None:
    shown = run("-m", "creditlab", "method=fadin")
    assert shown.returncode == 2
    assert shown.stderr == (
        f"creditlab: unknown method 'fadin', did you mean 'fading'?; available: {', '.join(sorted(['fading', *OURS]))}\n"
    )


def test_the_list_names_the_package_of_every_component(run: Run) -> None:
    shown = run("-m", "creditlab.plugins", "method")
    assert shown.returncode == 0, shown.stderr
    heads = [line for line in shown.stdout.splitlines() if line.startswith("method=")]
    packages = {"fading": "creditlab-example:fading", **{name: f"creditlab:{name}" for name in OURS}}
    assert heads == [f"method={name}   from {package}" for name, package in sorted(packages.items())]
    assert "    gamma: float > 0, ≤ 1 = 0.95\n        Fading γ per turn that follows; 1 is GRPO.\n" in shown.stdout
    assert "failed to load" not in shown.stdout


@pytest.mark.parametrize(
    ("line", "gamma"),
    [("method=fading", 0.9), ("experiment=fading_look", 0.8), ("experiment=fading_look method.gamma=0.7", 0.7)],
)
def test_the_example_brings_its_own_configuration(line: str, gamma: float, run: Run) -> None:
    shown = run("-m", "creditlab", *line.split(), "--cfg", "job")
    assert (shown.returncode, shown.stderr) == (0, "")
    config = yaml.safe_load(shown.stdout)
    assert (config["method"]["name"], config["method"]["gamma"]) == ("fading", gamma)


def test_the_example_may_be_the_task_of_mcgpo(run: Run) -> None:
    """Nested parts come from any package: the tuning and the match of the default task are taken away."""
    line = ["method@method.task=fading", "~match@method.task.match", "~tuning@method"]
    program = "import sys; from creditlab.cli import compose_job; print(type(compose_job(sys.argv[1:]).method.task).__name__)"
    shown = run("-c", program, *line)
    assert (shown.stdout, shown.stderr) == ("Fading\n", "")


def test_the_example_environment_trains_from_end_to_end(run: Run, tmp_path: Path) -> None:
    shown = run("-m", "creditlab", "env=taxi", "method=graphgpo", *SMALLEST.split())
    assert (shown.returncode, shown.stderr) == (0, "")
    [folder] = (tmp_path / "runs").iterdir()
    facts = json.loads((folder / "manifest.json").read_text())
    assert (facts["environment"]["environment"], facts["environment"]["training"]) == ("taxi", 200)
    assert "creditlab-taxi:taxi" in facts["plugins"]
    batch = load(RolloutStore(folder / "rollouts").path(1))
    views = {name for trajectory in batch.trajectories for state in trajectory.states for name in state.views}
    assert views == {"observation", "graph", "leg"}


def test_a_method_that_needs_a_rubric_is_refused_as_the_tutorial_shows(run: Run) -> None:
    shown = run("-m", "creditlab", "env=taxi", "method=mcgpo")
    assert shown.returncode == 2
    assert f"$ python -m creditlab env=taxi method=mcgpo\n{shown.stderr}```" in tutorial("creditlab-taxi")


@pytest.mark.parametrize(("example", "passed"), [("creditlab-example", len(METHOD_CHECKS) + 1), ("creditlab-taxi", 33)])
def test_the_tests_of_the_examples_pass(example: str, passed: int, run: Run) -> None:
    shown = run("-m", "pytest", "-q", "-o", "addopts=", "-p", "no:cacheprovider", str(EXAMPLES / example / "tests"))
    assert shown.returncode == 0, shown.stdout
    assert f"{passed} passed" in shown.stdout


def tutorial(example: str) -> str:
    return (ROOT / "docs" / TUTORIALS[example]).read_text()


@pytest.mark.parametrize(("example", "blocks"), [("creditlab-example", 4), ("creditlab-taxi", 5)])
def test_the_code_of_the_tutorials_is_that_of_the_examples(example: str, blocks: int) -> None:
    sources = "".join(path.read_text() for path in (EXAMPLES / example).rglob("*") if path.suffix in (".py", ".toml"))
    shown = re.findall(r"```(?:python|toml)\n(.*?)```", tutorial(example), re.DOTALL)
    assert len(shown) == blocks
    assert [block for block in shown if block not in sources] == []


@pytest.mark.parametrize(
    ("example", "names"),
    [
        ("creditlab-example", [["fading-alfworld"]] * 4 + [["grpo-alfworld"] * 2 + ["fading-alfworld"] * 2]),
        ("creditlab-taxi", [["graphgpo-taxi"], ["gigpo-taxi"], ["grpo-taxi"] * 2 + ["graphgpo-taxi"] * 2]),
    ],
)
def test_the_commands_of_the_tutorials_compose(example: str, names: list[list[str]], run: Run) -> None:
    """All in one process, up to the point where training would start."""
    commands = re.findall(r"^python -m creditlab (.*)$", tutorial(example), re.MULTILINE)
    assert len(commands) == len(names)
    program = (
        "import sys; from creditlab.cli import run_hydra\n"
        "for line in sys.argv[1:]: print(run_hydra(lambda job: print(job.name) or 0, line.split()))"
    )
    shown = run("-c", program, *commands)
    assert shown.stderr == ""
    assert shown.stdout.split() == [word for runs in names for word in (*runs, "0")]
