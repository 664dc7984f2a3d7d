"""Runs of a suite through one of Hydra's launchers: joblib on this machine, submitit on a cluster, Ray."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hydra import compose, initialize
from hydra.errors import HydraException

from creditlab.options import ConfigError, did_you_mean
from creditlab.overrides import written
from creditlab.suites.board import Board, State, Status
from creditlab.suites.processes import Command, last_line, log_path, train_command
from creditlab.suites.runner import LOOK, TICK, settle
from creditlab.suites.standing import in_use, warm
from creditlab.tracking.writing import put, writing

LOCAL = "local"
"""Name of the launcher that is none of Hydra's."""


@dataclass(frozen=True)
class Plugin:
    """One of Hydra's launchers."""

    choice: str
    """Its name in Hydra."""
    package: str
    requirement: str
    own_jobs: bool
    """Whether its jobs live on when the process that handed them over ends."""


PLUGINS = {
    "joblib": Plugin("joblib", "hydra_joblib_launcher", "hydra-joblib-launcher==1.2.0", False),
    "submitit": Plugin("submitit_slurm", "hydra_submitit_launcher", "hydra-submitit-launcher==1.2.0", True),
    "submitit_local": Plugin("submitit_local", "hydra_submitit_launcher", "hydra-submitit-launcher==1.2.0", True),
    "ray": Plugin("ray", "hydra_ray_launcher", "hydra-ray-launcher==1.2.2", True),
}
"""What `launcher=` may name beside `local`."""


def check_launcher(name: str, options: Sequence[str]) -> None:
    """Refuses a launcher that does not exist or is not installed, and options for none; raises ConfigError."""
    if name == LOCAL:
        if options:
            raise ConfigError(f"{options[0]} is for a launcher of Hydra: launcher={'|'.join(PLUGINS)}")
        return
    if name not in PLUGINS:
        near = did_you_mean(name, (LOCAL, *PLUGINS))
        raise ConfigError(f"unknown launcher {name!r}{near}; available: {', '.join((LOCAL, *PLUGINS))}")
    plugin = PLUGINS[name]
    if find_spec("hydra_plugins") is None or find_spec(f"hydra_plugins.{plugin.package}") is None:
        command = shlex.join([sys.executable, "-m", "pip", "install", plugin.requirement])
        raise ConfigError(f"launcher={name} needs a package that is not installed: {command}")
    _check_options(name, options)


def _check_options(name: str, options: Sequence[str]) -> None:
    """Refuses options that the launcher does not have, or not with this value, before it is started."""
    choice = f"hydra/launcher={PLUGINS[name].choice}"
    with initialize(version_base="1.3", config_path=None):
        known = [key for key in compose(overrides=[choice], return_hydra_config=True).hydra.launcher if key != "_target_"]
        for option in options:
            if option.partition("=")[0].endswith("_target_"):
                raise ConfigError(f"{option}: what a launcher is made of cannot be set")
            try:
                compose(overrides=[choice, option], return_hydra_config=True)
            except HydraException as error:
                reason = str(error.__cause__ or error).partition("\n")[0]
                listed = ", ".join(known)
                raise ConfigError(f"{option}: {reason}; options of launcher={name}, below hydra.launcher: {listed}") from None


class HydraRunner:
    """Hands all runs to one of Hydra's launchers, which decides where and when each of them works.

    Before that it has every warm start made once, by a run of no updates that the run itself then continues.
    """

    def __init__(
        self, folder: Path, name: str, options: Sequence[str] = (), parallel: int = 1, command: Command = train_command
    ) -> None:
        self._folder, self._plugin, self._command = folder, PLUGINS[name], command
        self._options = [f"hydra.launcher.n_jobs={parallel}"] if name == "joblib" else []
        self._options += options
        self._begins: dict[Path, int] = {}
        """Where in a log begins what this call had written."""

    def run(self, statuses: Sequence[Status], board: Board, stop: Sequence[int]) -> None:
        """Works until the launcher is done with every run, or until something is in `stop`."""
        todo = [status for status in statuses if status.state is State.WAITING]
        for status in todo:
            if in_use(status.run.folder):
                board.become(status, State.ELSEWHERE)
        _await([status for status in todo if status.state is State.ELSEWHERE], board, stop)
        for status in todo:
            if status.state is State.ELSEWHERE:
                settle(status, board, "", State.WAITING)
        todo = [status for status in todo if status.state is State.WAITING]
        firsts = list({status.run.start: status for status in reversed(todo)}.values())
        cold = [status for status in firsts if not any(warm(s.run) and s.run.start == status.run.start for s in statuses)]
        if cold and not stop and len(todo) > 1:
            board.say(f"warm start{'s' * (len(cold) != 1)}: {', '.join(status.run.label for status in cold)}")
            self._hand_over(cold, board, stop, ("training.updates=0",))
            todo = todo if stop else self._with_start(todo, cold, board)
        if todo and not stop:
            self._hand_over(todo, board, stop)
        left = [status for status in todo if status.state not in (State.FINISHED, State.FAILED)]
        for status in left:
            if in_use(status.run.folder) and not stop:  # another process was faster
                board.become(status, State.ELSEWHERE)
        _await([status for status in left if status.state is State.ELSEWHERE], board, stop)
        for status in left:
            why = self._last_words(status)
            if status.state is State.ELSEWHERE:
                why = "the process that was at work on it ended before the run was over; call the command again"
            settle(status, board, "" if stop else why, State.INTERRUPTED if stop else State.FAILED)

    def _with_start(self, todo: Sequence[Status], cold: Sequence[Status], board: Board) -> list[Status]:
        """The runs whose warm start is made; the others would only fail as its own run did."""
        for status in todo:
            first = next((one for one in cold if one.run.start == status.run.start), None)
            if first is None or warm(first.run):
                continue
            why = self._last_words(status) if status is first else f"its warm start was not made, see {first.run.label}"
            settle(status, board, why)
        return [status for status in todo if status.state is State.WAITING]

    def _last_words(self, status: Status) -> str:
        """The last line that a run wrote in this call."""
        log = log_path(self._folder, status.run)
        line = last_line(log, self._begins.get(log, 0))
        return f"{line}; {log} has the rest" if line else "the launcher did not start it"

    def _hand_over(self, todo: Sequence[Status], board: Board, stop: Sequence[int], extra: Sequence[str] = ()) -> None:
        """Starts the launcher with these runs and waits for it."""
        runs = [
            {"command": [*self._command(status.run), *extra], "log": str(log_path(self._folder, status.run).resolve())}
            for status in todo
        ]
        jobs = self._write_jobs(runs)
        log = self._folder / "logs" / "launcher.log"
        with writing(log, "call the command again"):
            log.parent.mkdir(parents=True, exist_ok=True)
            log.open("ab").close()
        for path in (log, *(log_path(self._folder, status.run) for status in todo)):
            self._begins[path] = path.stat().st_size if path.exists() else 0
        with log.open("ab") as file:
            process = subprocess.Popen(
                self._arguments(jobs.resolve(), len(todo)),
                stdout=file,
                stderr=subprocess.STDOUT,
                env={**os.environ, "HYDRA_FULL_ERROR": "1"},  # else its last line says how to see the reason, not the reason
                start_new_session=True,
            )
        try:
            self._watch(process, todo, board, stop, whole=not extra)
        except BaseException:
            _signal(process, signal.SIGKILL)
            raise
        if process.returncode and not stop:
            reason = last_line(log, self._begins[log])
            board.say(f"the launcher ended with code {process.returncode}: {reason}; {log} has the rest", "red")

    def _write_jobs(self, runs: Sequence[Mapping[str, Any]]) -> Path:
        """The file of these jobs, named by what it holds: jobs that are still queued read theirs when their turn comes."""
        content = json.dumps({"folder": str(Path.cwd()), "runs": runs}).encode()
        path = self._folder / "launcher" / f"jobs-{hashlib.sha256(content).hexdigest()[:16]}.json"
        put(path, content, "call the command again")
        return path

    def _arguments(self, jobs: Path, count: int) -> list[str]:
        folder = self._folder / "launcher"
        return [
            sys.executable,
            "-c",
            "from creditlab.suites.hydra_jobs import main; main()",
            "--multirun",
            f"hydra/launcher={self._plugin.choice}",
            f"hydra.sweep.dir={written(str(folder.resolve()))}",
            *self._options,
            f"+jobs={written(str(jobs))}",
            f"+index={','.join(map(str, range(count)))}",
        ]

    def _watch(
        self, process: subprocess.Popen[bytes], todo: Sequence[Status], board: Board, stop: Sequence[int], *, whole: bool
    ) -> None:
        while process.poll() is None and not stop:
            for status in todo if whole else ():
                if status.state is State.WAITING and in_use(status.run.folder):
                    board.become(status, State.RUNNING)
                elif status.state is State.RUNNING and not in_use(status.run.folder):
                    settle(status, board, "")
            board.refresh()
            _pause(LOOK, process, stop)
        if process.poll() is not None:
            return
        _signal(process, signal.SIGTERM)
        if self._plugin.own_jobs:
            board.say("jobs that were handed over go on; the next call waits for them, cancel them where they are")
        else:
            board.say("ending the runs after the update in progress; again to end at once")
            while len(stop) < 2 and any(in_use(status.run.folder) for status in todo):
                time.sleep(TICK)
            _signal(process, signal.SIGKILL)
        process.wait()


def _await(statuses: Sequence[Status], board: Board, stop: Sequence[int]) -> None:
    """Waits until no other process is at work on these runs."""
    while not stop and any(in_use(status.run.folder) for status in statuses):
        board.refresh()
        time.sleep(LOOK)


def _pause(seconds: float, process: subprocess.Popen[bytes], stop: Sequence[int]) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None and not stop:
        time.sleep(TICK)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Sends a signal to the launcher and all that it started in its process group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)
