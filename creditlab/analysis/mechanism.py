"""How credit was assigned in runs: diagnostics pooled over updates, first within each seed, then over seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from creditlab.analysis.statistics import MeanSD, mean_sd

Facts = Mapping[str, Any]
"""What is known of a run, as plain data; its pooled diagnostics are under `mechanism` and `mechanism_windows`."""
Columns = Mapping[str, Sequence[float | None]]
"""Credit diagnostics by name, one value per update; None where an update has none."""

WINDOW: Final = 25
"""Updates that are pooled in a window (MCGPO, mechanism figures)."""
_MEANS_OF_PAIRS = ("contrast", "confidence", "exact_share")
"""Diagnostics of the pair loss that are means over the accepted pairs of an update."""
_BY_DECISION = ("singleton_rate", "zero_fraction", "group_size")
"""Means over the trained decisions of an update, which differ in number from update to update."""
_DECISIONS: Final = "trained_decisions"
_SIZES: Final = "group_sizes/"


def mechanism(credit: Columns) -> dict[str, float]:
    """The credit diagnostics of several updates, pooled.

    Counts are summed over updates; shares of pairs are taken from the sums, for a mean of shares would weigh an update with
    one pair like one with thirty. Means over decisions weigh an update by its decisions where `trained_decisions` is among
    the results, and all updates alike where it is not, because some update did not record it. The share of informative task
    groups weighs all updates alike, for they have the same number of task groups.
    """
    found = _groups(credit)
    if values := _numbers(credit.get("informative_groups", ())):
        found["informative_groups"] = float(np.mean(values))
    if sizes := _numbers(credit.get("group_size", ())):
        quartiles = (float(q) for q in np.quantile(sizes, (0.25, 0.5, 0.75)))
        found |= dict(zip(("group_size_lower", "group_size_median", "group_size_upper"), quartiles, strict=True))
    found |= _pairs({name.removeprefix("pairs/"): column for name, column in credit.items() if name.startswith("pairs/")})
    return found


def mechanism_windows(credit: Columns, size: int = WINDOW) -> list[dict[str, float]]:
    """The same for each stretch of `size` updates, the last one shorter where the run ends within it.

    `first` and `last` are the updates it begins and ends with, counted from 1.
    """
    length = max((len(column) for column in credit.values()), default=0)
    return [
        {
            "first": start + 1,
            "last": min(start + size, length),
            **mechanism({name: column[start : start + size] for name, column in credit.items()}),
        }
        for start in range(0, length, size)
    ]


def over_seeds(pooled: Sequence[Mapping[str, float]], name: str, *, per: str = "", scale: float = 1.0) -> MeanSD | None:
    """Mean ± sample SD over the seeds that have a diagnostic, divided by that called `per` where one is named."""
    values = [
        scale * one[name] / (one[per] if per else 1.0) for one in pooled if name in one and (not per or one.get(per, 0.0))
    ]
    return mean_sd(values) if values else None


def by_entry(runs: Sequence[Facts]) -> dict[tuple[str, str], list[Facts]]:
    """Runs by setting and entry, in their order."""
    found: dict[tuple[str, str], list[Facts]] = {}
    for run in runs:
        found.setdefault((run["setting"], run["entry"]), []).append(run)
    return found


def windows_of(runs: Sequence[Facts]) -> dict[tuple[int, int], list[Mapping[str, float]]]:
    """Windows of the runs of one entry by first and last update, every one with its seeds' values."""
    found: dict[tuple[int, int], list[Mapping[str, float]]] = {}
    for run in runs:
        for window in run.get("mechanism_windows", ()):
            found.setdefault((int(window["first"]), int(window["last"])), []).append(window)
    return dict(sorted(found.items()))


def levels_of(pooled: Sequence[Mapping[str, float]]) -> list[str]:
    """Names of the levels of the match rule, in their order."""
    prefix = "pairs/accepted_"
    return list(dict.fromkeys(name.removeprefix(prefix) for one in pooled for name in one if name.startswith(prefix)))


def counted(pooled: Sequence[Mapping[str, float]]) -> bool:
    """Whether every one of several seeds counted its decisions by the size of their comparison group."""
    return bool(pooled) and all(_DECISIONS in one and any(name.startswith(_SIZES) for name in one) for one in pooled)


def sizes_of(pooled: Sequence[Mapping[str, float]]) -> dict[str, str]:
    """Names of the classes of group sizes in ascending order, each with its label, such as `3–4`."""
    found = {name.removeprefix(_SIZES) for one in pooled for name in one if name.startswith(_SIZES)}
    ordered = sorted(found, key=lambda name: int(name.partition("_")[0]))
    return {f"{_SIZES}{name}": name.replace("_up", "+").replace("_", "–") for name in ordered}


def share_of_decisions(pooled: Sequence[Mapping[str, float]], name: str) -> MeanSD | None:
    """Mean ± sample SD over seeds of the share of decisions (%) in one class of group sizes."""
    return over_seeds(pooled, name, per=_DECISIONS, scale=100)


def _groups(credit: Columns) -> dict[str, float]:
    """Means over decisions, and the numbers of decisions where every update with such a mean recorded them."""
    columns = {name: credit[name] for name in _BY_DECISION if _numbers(credit.get(name, ()))}
    length = max(map(len, columns.values()), default=0)
    weights = [weight or 0.0 for weight in (*credit.get(_DECISIONS, ()), *[0.0] * length)]
    if not all(weights[at] for column in columns.values() for at, value in enumerate(column) if value is not None):
        return {name: float(np.mean(_numbers(column))) for name, column in columns.items()}
    found = {name: math.fsum(_numbers(credit[name])) for name in credit if name == _DECISIONS or name.startswith(_SIZES)}
    for name, column in columns.items():
        values = [(value * weight, weight) for value, weight in zip(column, weights, strict=False) if value is not None]
        found[name] = math.fsum(product for product, _ in values) / math.fsum(weight for _, weight in values)
    return found


def _pairs(columns: Columns) -> dict[str, float]:
    """The diagnostics of the pair loss over all updates."""
    counts = {
        name: math.fsum(_numbers(column))
        for name, column in columns.items()
        if name not in (*_MEANS_OF_PAIRS, "agreement", "tie_share", "active")
        and not name.startswith(("first_visit_group_size_", "non_singleton_share_"))
    }
    found = {f"pairs/{name}": value for name, value in counts.items()}
    if audited := _numbers(columns.get("accepted", ())):
        found["pairs/audited_updates"] = float(len(audited))
        found["pairs/active_updates"] = float(sum(count > 0 for count in audited))
    for level in (name.removeprefix("first_visit_groups_") for name in counts if name.startswith("first_visit_groups_")):
        records, groups = counts[f"first_visits_{level}"], counts[f"first_visit_groups_{level}"]
        if groups:
            found[f"pairs/first_visit_group_size_{level}"] = records / groups
        if records:
            found[f"pairs/non_singleton_share_{level}"] = counts[f"non_singleton_{level}"] / records
    accepted = counts.get("accepted", 0.0)
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


def _numbers(column: Sequence[float | None]) -> list[float]:
    return [value for value in column if value is not None]
