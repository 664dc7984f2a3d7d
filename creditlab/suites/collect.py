"""From records of runs to what a comparison reads: evaluation curves, and how credit was assigned."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from creditlab.analysis.curves import Curve
from creditlab.options import ConfigError
from creditlab.suites.plan import PlannedRun
from creditlab.suites.record import manifest_hash
from creditlab.tracking import metrics as m
from creditlab.tracking.jsonl import STEP

Columns = Mapping[str, Sequence[float | None]]
_MEANS_OF_PAIRS = ("contrast", "confidence", "exact_share")
"""Diagnostics of the pair loss that are means over the accepted pairs of an update."""
_MEANS = ("singleton_rate", "zero_fraction", "informative_groups")
"""Shares over the decisions or groups of an update, every update the same in number."""


@dataclass(frozen=True)
class FinishedRun:
    """A run of the suite that is over, with its record."""

    run: PlannedRun
    record: Mapping[str, Any]

    @property
    def facts(self) -> dict[str, Any]:
        """What made the run, as plain data."""
        made = self.record["manifest"]
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
            "made_with": {key: made.get(key) for key in ("creditlab", "revision", "python", "platform", "packages")},
            "mechanism": mechanism({name: column[: self.run.updates] for name, column in self.record["credit"].items()}),
        }


def curve_of(finished: FinishedRun) -> Curve:
    """The scheduled evaluations of a run up to the last update of the plan; success in percent.

    Raises ConfigError where the record holds what no curve can be.
    """
    run, record = finished.run, finished.record
    points = [point for point in record["evaluations"] if point[STEP] in run.schedule]
    families = sorted(name.split("/")[1] for name in points[0]["metrics"] if name.count("/") == 2)
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
    facts = [record["manifest"]["environment"], run.seed, record["config"]["rollout"]["groups"]]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def mechanism(credit: Columns) -> dict[str, float]:
    """The credit diagnostics of a whole run.

    Counts are summed over updates; shares of pairs are taken from the sums, for a mean of shares would weigh an update with
    one pair like one with thirty; the size of comparison groups comes with its quartiles over updates.
    """
    found: dict[str, float] = {}
    for name in _MEANS:
        if values := _numbers(credit.get(name, ())):
            found[name] = float(np.mean(values))
    if sizes := _numbers(credit.get("group_size", ())):
        quartiles = (float(q) for q in np.quantile(sizes, (0.25, 0.5, 0.75)))
        found |= dict(zip(("group_size_lower", "group_size_median", "group_size_upper"), quartiles, strict=True))
        found["group_size"] = float(np.mean(sizes))
    found |= _pairs({name.removeprefix("pairs/"): column for name, column in credit.items() if name.startswith("pairs/")})
    return found


def _pairs(columns: Columns) -> dict[str, float]:
    """The diagnostics of the pair loss over all updates."""
    counts = {
        name: math.fsum(_numbers(column))
        for name, column in columns.items()
        if name not in (*_MEANS_OF_PAIRS, "agreement", "tie_share", "active")
        and not name.startswith(("first_visit_group_size_", "non_singleton_share_"))
    }
    accepted = counts.get("accepted", 0.0)
    found = {f"pairs/{name}": value for name, value in counts.items()}
    for level in (name.removeprefix("first_visit_groups_") for name in counts if name.startswith("first_visit_groups_")):
        records, groups = counts[f"first_visits_{level}"], counts[f"first_visit_groups_{level}"]
        if groups:
            found[f"pairs/first_visit_group_size_{level}"] = records / groups
        if records:
            found[f"pairs/non_singleton_share_{level}"] = counts[f"non_singleton_{level}"] / records
    if not accepted:
        return found
    for name in _MEANS_OF_PAIRS:
        weighted = [
            value * weight
            for value, weight in zip(columns.get(name, ()), columns["accepted"], strict=False)
            if value is not None and weight
        ]
        if weighted:
            found[f"pairs/{name}"] = math.fsum(weighted) / accepted
    if "wins" in counts:
        found["pairs/agreement"] = (counts["wins"] + counts["ties"] / 2) / accepted
        found["pairs/tie_share"] = counts["ties"] / accepted
    return found


def _start(facts: Mapping[str, Any]) -> str | None:
    """The identity of the initial weights: the hash of the weights themselves, where the run recorded it."""
    found = facts.get("weights") or facts.get("hash")
    return None if found is None else str(found)


def _percent(points: Sequence[Mapping[str, Any]], name: str) -> tuple[float, ...]:
    return tuple(100.0 * point["metrics"][name] for point in points)


def _numbers(column: Sequence[float | None]) -> list[float]:
    return [value for value in column if value is not None]
