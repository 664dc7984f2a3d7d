"""From records of runs to what a comparison reads: evaluation curves, and how credit was assigned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from creditlab.analysis.curves import Curve
from creditlab.analysis.mechanism import mechanism, mechanism_windows
from creditlab.options import ConfigError
from creditlab.suites.plan import PlannedRun
from creditlab.suites.record import manifest_hash
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import STEP
from creditlab.training.manifest import identity, made_with
from creditlab.training.sources import code_of, known_code


@dataclass(frozen=True)
class FinishedRun:
    """A run of the suite that is over, with its record."""

    run: PlannedRun
    record: Mapping[str, Any]

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """What made the run, as plain data; the terminal, the files and the page all read it."""
        made = self.record["manifest"]
        credit = {name: column[: self.run.updates] for name, column in self.record["credit"].items()}
        return {
            "setting": self.run.setting,
            "entry": self.run.entry.name,
            "method": self.run.entry.method,
            "overrides": list(self.run.entry.overrides),
            "seed": self.run.seed,
            "run": self.record["run"],
            "configuration_hash": self.record["configuration_hash"],
            "manifest_hash": manifest_hash(self.record),
            "panel": made["panel"],
            "warm_start": made["warm_start"],
            "environment": made["environment"],
            "made_with": made_with(made),
            "plugin_code": self._plugin_code(),
            "mechanism": mechanism(credit),
            "mechanism_windows": mechanism_windows(credit),
        }

    def _plugin_code(self) -> dict[str, dict[str, Any]]:
        """By plug-in: what its code was known by in the sittings of the run, each once, and what that is now."""
        made = self.record["manifest"]
        sittings = [known_code(sitting) for sitting in (*made.get("sittings", ()), made)]
        now = known_code({"plugin_code": {name: code_of(name) for name in self.run.plugins}})
        codes = {name: [code[name] for code in sittings if name in code] for name in sorted({n for c in sittings for n in c})}
        return {name: {"made_with": list(dict.fromkeys(of)), "installed": now.get(name)} for name, of in codes.items()}


def curve_of(finished: FinishedRun) -> Curve:
    """The scheduled evaluations of a run up to the last update of the plan; success in percent.

    Raises ConfigError where the record holds what no curve can be.
    """
    run, record = finished.run, finished.record
    points = [point for point in record["evaluations"] if point[STEP] in run.schedule]
    families = m.families(points[0]["metrics"])
    try:
        return Curve(
            method=run.entry.name,
            setting=run.setting,
            seed=run.seed,
            updates=tuple(int(point[STEP]) for point in points),
            values=_percent(points, m.VAL_SUCCESS),
            transitions=tuple(int(point["transitions"]) for point in points),
            seconds=tuple(float(point["seconds"]) for point in points),
            families={family: _percent(points, m.family_success(family)) for family in families},
            score=_percent(points, m.VAL_SCORE) if m.VAL_SCORE in points[0]["metrics"] else None,
            panel=record["manifest"]["panel"].get("hash"),
            warm_start=_start(record["manifest"]["warm_start"]),
            task_order=task_order_digest(run, record),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ConfigError(f"{run.label}: its record holds no curve: {error}") from None


def task_order_digest(run: PlannedRun, record: Mapping[str, Any]) -> str:
    """What the training tasks and their order follow from: the environment's games, the seed and the groups of an update.

    `creditlab.training.seeds.task_order` reads nothing else.
    """
    facts = [identity(record["manifest"]["environment"]), run.seed, record["config"]["rollout"]["groups"]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _start(facts: Mapping[str, Any]) -> str | None:
    """The hash of the initial weights; None where the run did not record it.

    The hash of what they were made from does not stand for it: the same may come to other weights on another machine.
    """
    found = facts.get("weights")
    return None if found is None else str(found)


def _percent(points: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(100.0 * point["metrics"][name] for point in points)
