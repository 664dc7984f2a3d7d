"""What must hold in a fresh process: no simulator is needed, and plug-ins are found wherever a run lands."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from creditlab.cli import compose_job
from creditlab.registry import registry

PLAY = """
import sys
for name in ("alfworld", "textworld", "gymnasium"):
    sys.modules[name] = None  # importing it raises ImportError
from creditlab.environments.alfworld.environment import ALFWorld
env = ALFWorld()
episode = env.episode(env.panel(1, 0).tasks[0])
assert episode.start().view.actions
assert "torch" not in sys.modules
"""


def test_the_default_environment_needs_neither_simulator_nor_torch() -> None:
    done = subprocess.run([sys.executable, "-c", PLAY], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr


def composed(overrides: list[str]) -> tuple[str, list[str]]:
    """The run's hash and the methods that are known, in whatever process this is called."""
    return compose_job(overrides).hash, registry().names("method")


def test_a_spawned_process_finds_the_same_plugins_and_composes_the_same_run() -> None:
    overrides = ["method=graphgpo", "match=state_rubric", "method.omega=0.3"]
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        assert pool.submit(composed, overrides).result(timeout=120) == composed(overrides)
