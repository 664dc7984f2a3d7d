"""One run of a suite as a job of a Hydra launcher, and the process that hands all of them to the launcher.

The launcher sees a configuration of two keys, a file with the commands and the number of one of them, so that any launcher
can start any run, each in a process of its own.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import hydra
from omegaconf import DictConfig

from creditlab.suites.processes import environment


def main() -> None:
    """Hands the jobs of `+jobs=<file> +index=0,1,…` to the launcher of `hydra/launcher=…`; returns when they are over."""
    hydra.main(version_base="1.3", config_path=None)(run_one)()


def run_one(cfg: DictConfig) -> int:
    """Runs one command with its output in its log; returns its exit code, for a launcher must not see a run's failure."""
    jobs = json.loads(Path(cfg.jobs).read_text(encoding="utf-8"))
    job = jobs["runs"][cfg.index]
    with Path(job["log"]).open("ab") as file:
        file.write(f"$ {shlex.join(job['command'])}\n".encode())
        file.flush()
        done = subprocess.run(
            job["command"],
            cwd=jobs["folder"],
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            env=environment(),
            check=False,
        )
    return done.returncode
