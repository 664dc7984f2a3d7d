"""`python -m creditlab.evaluate run=…` or `model.path=…`: plays the frozen panel with a model and prints what came of it."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from creditlab.cli import complain, run_hydra
from creditlab.config import TOP_LEVEL, Job
from creditlab.limits import try_writing, user_path
from creditlab.options import ConfigError, unknown_key
from creditlab.overrides import check_seeds, read_value, written
from creditlab.plaintext import clean
from creditlab.registry import registry
from creditlab.stopping import EXIT_FAILED, run_command
from creditlab.tracking import ConsoleListener, Metrics
from creditlab.tracking import metrics as m
from creditlab.tracking.text import RATE_NOTE, duration, encodable, percent, rate
from creditlab.tracking.writing import WriteError
from creditlab.training.manifest import made_with, manifest, write_json
from creditlab.training.past_run import LAST, Chosen, PastRun, open_run

if TYPE_CHECKING:
    from creditlab.training.standalone import Evaluation

USAGE = """\
python -m creditlab.evaluate run=<run folder> [checkpoint=…] [seeds=…] [json=…] [key=value …]
python -m creditlab.evaluate model.path=<model folder> [seeds=…] [json=…] [key=value …]

Plays the frozen panel of evaluation games and prints success with its standard error, per family too.

  run         a run folder; every setting is the run's own unless given here
  checkpoint  last (default), best, warm_start, or the number of an update
  model.path  any folder with a model in Hugging Face format; settings are the defaults unless given here
  seeds       sampling seeds, such as [0,1,2]; 0 (default) is what the run itself plays, the panel is the same for all
  json        file for the results, - for stdout; with run= they go into its folder evaluations/ unless given

Keys that an evaluation reads: env, prompt, engine and evaluation (such as env.games=auto evaluation.episodes=134
evaluation.temperature=0.4), rollout.batch_size, training.threads, learner.precision, warm_start.cache; and with
model.path also model and experiment. -m before them plays every combination: -m evaluation.temperature=0,0.4,1
"""
OWN = ("run", "checkpoint", "seeds", "json")
"""Keys of this command, which no run has."""
PARTS = ("env", "model", "engine")
"""Components that take part in an evaluation."""
SINGLE = ("rollout.batch_size", "training.threads", "learner.precision", "warm_start.cache")
READ = ("env", "engine", "prompt", "evaluation", *SINGLE)
"""What an evaluation reads of a run's configuration, beside the model."""
_ANY_LENGTH = 1 << 30
"""Positions of a model that is not known yet; its own are checked when it is loaded."""
SUCCESS = "held-out success"


@dataclass(frozen=True)
class Request:
    """What is to be evaluated, and where the result goes."""

    run: PastRun | None
    checkpoint: str
    path: str | None
    """The model where it is not the run's or the configuration's own."""
    seeds: tuple[int, ...]
    json: str | None
    changed: tuple[str, ...]
    """The overrides given beside the run's own settings."""


def main(arguments: Sequence[str]) -> int:
    """Evaluates; returns the exit code, as for the main command."""
    if {"-h", "--help"} & set(arguments):
        sys.stdout.write(USAGE)
        return 0
    try:
        request, overrides = read_request(arguments)
    except ValueError as error:
        return complain(error, arguments)
    return run_hydra(lambda job: _evaluate(job, request), overrides)


def read_request(arguments: Sequence[str]) -> tuple[Request, list[str]]:
    """The request, and the Hydra overrides that compose its configuration; raises ConfigError for what makes no sense."""
    own: dict[str, str] = {}
    rest: list[str] = []
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if key in OWN and equals:
            if key in own:
                raise ConfigError(f"{key} is given twice; keep one")
            own[key] = value
        else:
            rest.append(argument)
    run = open_run(user_path("run", own["run"])) if "run" in own else None
    _check_read(rest, READ if run else (*READ, "model", "experiment"))
    given, keys = tuple(rest), next((i for i, a in enumerate(rest) if "=" in a or a.startswith("~")), len(rest))
    flags, rest = rest[:keys], rest[keys:]
    path, rest = (None, rest) if run else _take_path(rest)
    if run is None and path is None and not any(a.startswith(("model=", "experiment=")) for a in rest):
        raise ConfigError("nothing to evaluate: give run=<run folder> or model.path=<model folder>; --help lists the rest")
    if run is None and "checkpoint" in own:
        raise ConfigError("checkpoint= names a model of a run; give run=<run folder>, or leave it out beside model.path=")
    if {"-m", "--multirun"} & set(flags) and own.get("json", "-") != "-":
        raise ConfigError("json= names one file, but -m makes several results; leave json= out, or give json=-")
    request = Request(run, own.get("checkpoint", LAST), path, _seeds(own.get("seeds", "[0]")), own.get("json"), given)
    return request, [*flags, *_undemanding_method(), *(_settings_of(run.config, rest) if run else ()), *rest]


def _take_path(rest: list[str]) -> tuple[str | None, list[str]]:
    """The model of `model.path=` where no kind of model is chosen beside it, and what remains to be composed."""
    given = [a.partition("=")[2] for a in rest if a.startswith("model.path=")]
    if not given or any(a.startswith(("model=", "experiment=")) for a in rest):
        return None, rest
    if (user_path("model.path", given[-1]) / "checkpoints").is_dir():
        raise ConfigError(f"model.path={given[-1]} is a run folder: evaluate it with run={given[-1]}")
    others = [a for a in rest if not a.startswith("model.path=")]
    return given[-1], [*others, f"model.max_positions={_ANY_LENGTH}"]


def _check_read(overrides: Iterable[str], read: Sequence[str]) -> None:
    """Refuses keys that would have no effect; what is wrong with the others is found when they are composed."""
    for override in overrides:
        key = override.partition("=")[0].lstrip("+~")
        if override.startswith("-") or ("=" not in override and not override.startswith("~")):
            continue
        if any(key == name or key.startswith((f"{name}.", f"{name}@")) for name in read):
            continue
        top = re.split(r"[.@]", key)[0]
        if top == "seed":
            raise ConfigError("seed is that of training; seeds=[0,1,2] names the sampling seeds of an evaluation")
        if top not in (*TOP_LEVEL, "experiment", "preset", "tuning"):
            raise ConfigError(unknown_key("", key, (*OWN, "model.path", *read)))
        reads = ", ".join(dict.fromkeys((*read, *OWN)))
        raise ConfigError(f"{key} has no effect on an evaluation; it reads {reads}")


def _seeds(text: str) -> tuple[int, ...]:
    wrong = f"seeds={text}"
    try:
        value = read_value("seeds", text)
    except ConfigError:
        value = None
    return check_seeds(value, wrong)


def _undemanding_method() -> list[str]:
    """The choice of a method that every environment satisfies: a configuration needs one, an evaluation reads none."""
    for name in registry().names("method"):
        component = registry().find("method", name)
        if set(component.needs) <= {"group"} and not component.axes and not component.parts:
            return [f"method={name}"]
    return []


def _settings_of(config: Mapping[str, Any], given: Sequence[str]) -> list[str]:
    """The overrides that give a run's own settings; a component that is chosen anew starts from its defaults."""
    overrides = []
    for part in PARTS:
        node = config[part]
        if any(a.startswith(f"{part}=") for a in given):
            continue
        overrides.append(f"{part}={node['name']}")
        overrides += _leaves(part, {key: value for key, value in node.items() if key != "name"})
    for section in ("prompt", "evaluation"):
        overrides += _leaves(section, config[section])
    for key in SINGLE:
        section, _, name = key.partition(".")
        if name in config.get(section, {}):
            overrides += _leaves(key, config[section][name])
    return overrides


def _leaves(key: str, value: Any) -> list[str]:
    if isinstance(value, Mapping):
        return [leaf for name, below in value.items() for leaf in _leaves(f"{key}.{name}", below)]
    return [f"{key}={written(value)}"]


def _evaluate(job: Job, request: Request) -> int:
    """Plays on all ranks, and on the first one prints the table and writes the results; returns the exit code."""
    from creditlab.learner.distributed import rank  # brings torch along, which a mistake should not have to wait for
    from creditlab.training.ranks import on_all_ranks

    errors = Console(stderr=True, highlight=False)

    def report(message: str) -> None:
        if rank() == 0:
            errors.print(Text(f"creditlab: {clean(message)}", style="yellow"), soft_wrap=True)

    if request.path:  # composed with the embedded defaults, but loaded as any model is
        job = replace(job, model=registry().create("model", "hf", path=request.path))
    return on_all_ranks(job, lambda: _play(job, request, errors, report))


def _play(job: Job, request: Request, errors: Console, report: Callable[[str], None]) -> int:
    from creditlab.learner.distributed import rank
    from creditlab.training.failure import agreed
    from creditlab.training.standalone import evaluate_model

    with agreed():
        chosen = request.run.model(request.checkpoint, job.settings.warm_start.cache, report) if request.run else None
        folder = chosen.folder if chosen else job.model.ready()
        if folder is None:
            raise ConfigError(f"model={job.model.name} has nothing to evaluate; give model.path=<model folder>")
        if request.json not in (None, "-"):
            _check_writable(Path(str(request.json)))
    logged = _logged(request.run, chosen, report) if request.run and chosen else None
    with _bar(errors, quiet=rank() != 0) as progress:
        outcome = evaluate_model(job, folder, request.seeds, progress, report)
    if not outcome.together[m.VAL_EPISODES]:
        report("every episode failed")
        return EXIT_FAILED
    if rank() != 0:
        return 0
    facts = _facts(job, request, chosen, folder, outcome, logged)
    _print(errors if request.json == "-" else Console(highlight=False), facts)
    return _write(request, facts, report)


@contextmanager
def _bar(console: Console, *, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Shows how many episodes are over: a bar on a terminal, now and then a line elsewhere."""
    if quiet or not console.is_terminal:
        lines = ConsoleListener("quiet" if quiet else "plain", console=console)
        yield lambda done, total: lines.on_progress("evaluation", done, total, "")
        return
    with Progress(
        TextColumn("evaluation"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console, transient=True
    ) as bars:
        bar = bars.add_task("")
        yield lambda done, total: bars.update(bar, completed=done, total=total)


def _logged(run: PastRun, chosen: Chosen, report: Callable[[str], None]) -> float | None:
    """What the run itself logged of the model; metrics that cannot be read are reported, for nothing else depends on them."""
    try:
        return run.logged_success(chosen.update)
    except ValueError as error:
        report(f"what the run logged is not shown: {error}")
        return None


def _facts(
    job: Job, request: Request, chosen: Chosen | None, folder: Path, outcome: Evaluation, logged: float | None
) -> dict[str, Any]:
    """The results as plain data, with everything they depend on."""
    run, panel = request.run, outcome.panel
    own_panel = run.manifest.get("panel", {}).get("hash") if run else None
    return {
        "run": str(run.folder) if run else None,
        "checkpoint": chosen.label if chosen else None,
        "update": chosen.update if chosen else None,
        "model": str(folder),
        "changed": list(request.changed),
        "panel": {
            "name": panel.name,
            "episodes": len(panel.tasks),
            "hash": panel.hash,
            "of_the_run": None if own_panel is None else own_panel == panel.hash,
        },
        "temperature": job.settings.evaluation.temperature,
        "seeds": list(request.seeds),
        "metrics": outcome.together,
        "by_seed": {str(seed): metrics for seed, metrics in outcome.by_seed.items()},
        "logged_success_rate": logged,
        "seconds": round(outcome.seconds, 3),
        "environment": job.env.describe(),
        "configuration": {key: job.config[key] for key in ("env", "model", "engine", "prompt", "evaluation")},
        "made_with": made_with(manifest(job, panel, {}, {})),
    }


def _print(console: Console, facts: Mapping[str, Any]) -> None:
    """What was played, then the numbers; of several seeds their lowest and highest beside all of them together."""
    panel, together = facts["panel"], facts["metrics"]
    whose = {None: "", True: ", the run's own", False: ", not the run's"}[panel["of_the_run"]]
    lines = {
        "model": f"{facts['run']}, {facts['checkpoint']}" if facts["run"] else facts["model"],
        "panel": f"{panel['name']}, {panel['hash'][:12]}{whose}",
        "sampling": f"temperature {facts['temperature']:g}, seeds {', '.join(map(str, facts['seeds']))}",
        "prompt": f"{facts['configuration']['prompt']['layout']}, {facts['configuration']['prompt']['style']}",
        "time": duration(facts["seconds"]),
    }
    for label, text in lines.items():
        console.print(Text(encodable(f"{label:<9} {text}", console.encoding)), soft_wrap=True)
    several = len(facts["by_seed"]) > 1
    table = Table("", "all seeds" if several else "result", *(("lowest", "highest") if several else ()))
    for label, value, show in _rows(together):
        cells = [show(value(together))]
        if label == SUCCESS:
            episodes = together[m.VAL_EPISODES]
            tasks = min(episodes, panel["episodes"])
            cells[0] = rate(together[m.VAL_SUCCESS], together[m.VAL_SUCCESS_SE], episodes, tasks)
        if several:
            each = [value(metrics) for metrics in facts["by_seed"].values()]
            cells += [show(min(each)), show(max(each))]
        table.add_row(*(Text(encodable(cell, console.encoding)) for cell in (label, *cells)))
    if facts["logged_success_rate"] is not None and not facts["changed"]:
        table.add_row("logged by the run", percent(facts["logged_success_rate"]))
    console.print(table)
    console.print(Text(encodable(RATE_NOTE, console.encoding)), soft_wrap=True)


def _rows(metrics: Metrics) -> list[tuple[str, Callable[[Metrics], float], Callable[[float], str]]]:
    """Label, value and written form of every row of the table."""

    def of(name: str) -> Callable[[Metrics], float]:
        return lambda metrics: metrics[name]

    families = m.families(metrics)
    return [
        (SUCCESS, of(m.VAL_SUCCESS), percent),
        *((f"  {family}", of(m.family_success(family)), percent) for family in families),
        ("decisions per episode", of(m.VAL_TURNS), "{:.1f}".format),
        ("decisions", lambda metrics: metrics[m.VAL_TURNS] * metrics[m.VAL_EPISODES], "{:.0f}".format),
        ("valid responses", lambda metrics: 1 - metrics[m.VAL_INVALID], percent),
        ("commands without effect", of(m.VAL_INEFFECTIVE), percent),
        ("episodes", of(m.VAL_EPISODES), "{:.0f}".format),
        ("episodes lost to an error", of(m.VAL_ERRORS), "{:.0f}".format),
    ]


def _write(request: Request, facts: Mapping[str, Any], report: Callable[[str], None]) -> int:
    """Puts the results where they belong; returns the exit code."""
    if request.json == "-":
        sys.stdout.write(json.dumps(facts, indent=2) + "\n")
        return 0
    path = Path(request.json) if request.json else _place(request.run, facts)
    if path is None:
        return 0
    try:
        write_json(path, facts, "evaluate again, or write elsewhere with json=<file>")
    except WriteError as error:
        report(str(error))
        return EXIT_FAILED
    return 0


def _place(run: PastRun | None, facts: Mapping[str, Any]) -> Path | None:
    """A file in the run's folder, the same one whenever the same is evaluated in the same way; none without a run."""
    if run is None:
        return None
    text = json.dumps({key: facts[key] for key in ("panel", "seeds", "configuration")}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return run.folder / "evaluations" / f"{facts['checkpoint']}-{digest}.json"


def _check_writable(path: Path) -> None:
    """Refuses a place for the results in which nothing can be written, before anything is played."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try_writing(path.parent)
    except OSError as error:
        raise ConfigError(f"json={path}: cannot write there: {error.strerror}; choose another file, or json=-") from None


if __name__ == "__main__":
    run_command(main)
