"""The runs of a suite: composed and validated before any of them starts, and what keeps them from being compared."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from creditlab.cli import compose_job
from creditlab.config import Job
from creditlab.options import ConfigError, shown
from creditlab.overrides import gives_several, written
from creditlab.suites.differences import differences
from creditlab.suites.suite import Entry, Setting, Suite
from creditlab.training.sources import plugins_of

OF_THE_SUITE = {
    "method": "methods=[grpo,mcgpo] names them",
    "seed": "seeds=[0,1,2] gives every entry the same seeds",
    "resume": "a suite goes on where its runs stand",
    "overwrite": "remove the folder of a run to have it made again",
    "name": "the names of an entry and a setting stand in the suite's file",
    "run_root": "run_root= is that of all runs",
    "tracking.group": "it is the suite's name",
    "tracking.job_type": "it is the entry's method",
}
"""Keys that no run of a suite may set, each with the reason."""
SHARED = {
    "env": "setting",
    "evaluation": "panel and schedule",
    "warm_start": "initial weights",
    "training.updates": "number of updates",
    "experiment": "setting",
}
"""Keys that an entry may not set, for all entries of a setting share them, and what they set."""
_SHARE = (
    "which all entries share, or their runs cannot be compared seed by seed; give it for all runs, or make a setting of it"
)
_LONGEST_TAG = 64
"""Characters of a tag in W&B."""


@dataclass(frozen=True)
class PlannedRun:
    """One run of a suite."""

    suite: str
    setting: str
    entry: Entry
    seed: int
    hash: str
    """Hash of its configuration (`Job.hash`)."""
    folder: Path
    updates: int
    every: int
    """Updates between evaluations; 0 is at the start and the end alone."""
    config: Mapping[str, Any]
    """Its resolved configuration."""
    overrides: tuple[str, ...]
    """What composes it, with the keys that the suite adds."""
    plugins: tuple[str, ...] = ()
    """Plug-ins beside creditlab's own that its components come from."""

    @property
    def label(self) -> str:
        """The run in a few words."""
        return f"{self.setting} · {self.entry.name} · seed {self.seed}"

    @property
    def schedule(self) -> frozenset[int]:
        """Updates after which it is evaluated; 0 is the warm start."""
        return scheduled(self.updates, self.every)

    @property
    def start(self) -> str:
        """The same for runs that share a warm start: all that it may depend on, as text."""
        kept = {key: self.config.get(key) for key in ("env", "model", "prompt", "warm_start")}
        return json.dumps(kept, sort_keys=True)


def scheduled(updates: int, every: int) -> frozenset[int]:
    """Updates after which a run of this length is evaluated: the start, every n-th update, and the last."""
    return frozenset({0, updates, *(range(every, updates + 1, every) if every else ())})


def plan(suite: Suite, overrides: Sequence[str], run_root: str) -> list[PlannedRun]:
    """Every run of a suite, seed by seed, so that entries can be compared early.

    `overrides` come from the command line and hold for all runs; those of an entry win over them, they over the suite's.
    Raises ConfigError naming the setting and entry at fault, and where two runs would be the same.
    """
    _check_keys(suite, overrides)
    runs: list[PlannedRun] = []
    for setting in suite.settings:
        by_entry = [list(_runs(suite, setting, entry, overrides, run_root)) for entry in suite.entries_of(setting)]
        _refuse_own_share(suite, setting, [of_entry[0] for of_entry in by_entry], overrides, run_root)
        runs += [run for of_a_seed in zip(*by_entry, strict=True) for run in of_a_seed]
    _refuse_same(runs)
    return runs


def _runs(suite: Suite, setting: Setting, entry: Entry, given: Sequence[str], run_root: str) -> Iterator[PlannedRun]:
    """The runs of one entry in one setting; composed once for all seeds where nothing depends on the seed."""
    own = merge(suite.overrides, setting.overrides, given, [f"method={entry.method}"], entry.overrides)
    seeds = suite.seeds_of(setting)
    where = f"{f'{setting.name}, ' if setting.name else ''}{entry.name}"

    def composed(seed: int) -> Job:
        try:
            return compose_job([*own, f"run_root={written(run_root)}", f"seed={seed}"])
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}") from None

    first = composed(seeds[0])
    same = len(seeds) == 1 or composed(seeds[-1]).hash == first.hash
    for seed in seeds:
        job = _with_seed(first, seed) if same else composed(seed)
        name = setting.name or str(job.choices["env"])
        yield PlannedRun(
            suite=suite.name,
            setting=name,
            entry=entry,
            seed=seed,
            hash=job.hash,
            folder=job.folder,
            updates=job.settings.training.updates,
            every=job.settings.evaluation.every,
            config=job.config,
            overrides=(*own, *_added(suite, name, entry, job, run_root, seed)),
            plugins=plugins_of(job),
        )


def _with_seed(job: Job, seed: int) -> Job:
    return replace(job, settings=replace(job.settings, seed=seed), config={**job.config, "seed": seed})


def _added(suite: Suite, setting: str, entry: Entry, job: Job, run_root: str, seed: int) -> list[str]:
    """What the suite adds to the overrides of a run."""
    tags = [*job.config["tracking"]["tags"], *tags_of(setting, entry)]
    return [
        f"run_root={written(run_root)}",
        f"seed={seed}",
        "resume=auto",
        f"tracking.group={written(suite.name)}",
        f"tracking.job_type={written(entry.method)}",
        f"tracking.tags={written(tags)}",
    ]


def tags_of(setting: str, entry: Entry) -> list[str]:
    """The tags of a run in W&B: its setting, and in what its entry differs from the method, as key=value."""
    return [tag[:_LONGEST_TAG] for tag in (f"setting={setting}", *entry.overrides)]


def merge(*levels: Sequence[str]) -> list[str]:
    """Overrides of several levels, a later one in place of an earlier one of the same key."""
    found: dict[str, str] = {}
    for level in levels:
        for override in level:
            key = key_of(override)
            found.pop(key, None)  # it stands where its level stands
            found[key] = override
    return list(found.values())


def key_of(override: str) -> str:
    """The key of an override, without the signs that add or remove it."""
    return override.partition("=")[0].lstrip("+~")


def _check_keys(suite: Suite, given: Sequence[str]) -> None:
    """Refuses overrides that no run of a suite can have, wherever they stand, and those that no entry can have."""
    sources = [("", given), (f"suite {suite.name}: ", suite.overrides)]
    sources += [(f"setting {setting.name}: ", setting.overrides) for setting in suite.settings]
    sources += [(f"{entry.name}: ", entry.overrides) for entry in suite.entries]
    for where, overrides in sources:
        seen: dict[str, str] = {}
        for override in overrides:
            key = key_of(override)
            if not key:
                raise ConfigError(f"{where}{override!r} names no key; write key=value")
            if key in OF_THE_SUITE:
                raise ConfigError(f"{where}{key} is not for a run of a suite to set: {OF_THE_SUITE[key]}")
            if re.match(r"hydra\b", key):
                raise ConfigError(f"{where}{key} is no setting of a run; {_of_hydra(key)}")
            if key in seen:
                raise ConfigError(f"{where}{key} is given twice: {seen[key]} {override}; keep one")
            if gives_several(override):
                raise ConfigError(
                    f"{where}{override!r} gives several values, but a run takes one: write [a,b] for a list, or make each "
                    "of them one of the settings in a suite's file"
                )
            seen[key] = override
    for entry in suite.entries:
        for override in entry.overrides:
            if part := _shared(key_of(override)):
                raise ConfigError(f"{entry.name}: {key_of(override)} sets the {part}, {_SHARE}")


def _refuse_own_share(
    suite: Suite, setting: Setting, runs: Sequence[PlannedRun], given: Sequence[str], run_root: str
) -> None:
    """Refuses overrides that change what all entries share without naming it, such as `training={updates:2}`.

    What follows from the method itself, as in the configurations of papers, is not the entry's to answer for.
    """
    shares = [{name: _at(run.config, name) for name in SHARED} for run in runs]
    if all(share == shares[0] for share in shares):
        return
    for run in runs:
        if not run.entry.overrides:
            continue
        bare = next(_runs(suite, setting, replace(run.entry, overrides=()), given, run_root))
        for key, values in differences({"with": run.config, "without": bare.config}).items():
            if part := _shared(key):
                now, otherwise = (shown(values.get(side)) for side in ("with", "without"))
                change = f"its overrides make {key} {now} instead of {otherwise}"
                raise ConfigError(f"{run.entry.name}: {change}, and with it the {part}, {_SHARE}")


def _shared(key: str) -> str | None:
    """What a key that all entries share stands for; None for any other."""
    return next((part for name, part in SHARED.items() if key == name or key.startswith((f"{name}.", f"{name}@"))), None)


def _at(config: Mapping[str, Any], key: str) -> Any:
    node: Any = config
    for step in key.split("."):
        node = node.get(step) if isinstance(node, Mapping) else None
    return node


def _of_hydra(key: str) -> str:
    """What to do with a key of Hydra's own."""
    if key.startswith("hydra.launcher."):
        return "options of a launcher belong beside launcher= on the command line"
    return "launcher= on the command line chooses one" if key == "hydra/launcher" else "remove it"


def _refuse_same(runs: Sequence[PlannedRun]) -> None:
    seen: dict[Path, PlannedRun] = {}
    for run in runs:
        other = seen.setdefault(run.folder, run)
        if other is not run:
            raise ConfigError(f"{other.label} and {run.label} are the same run, {run.folder.name}; leave one out")
