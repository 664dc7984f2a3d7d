"""How credit was assigned and what the runs were made with, as tables; from the facts of each run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from creditlab.analysis.mechanism import (
    WINDOW,
    Facts,
    by_entry,
    counted,
    levels_of,
    over_seeds,
    share_of_decisions,
    sizes_of,
    windows_of,
)
from creditlab.analysis.statistics import MeanSD
from creditlab.analysis.tables import NOTHING, Table, shown, shown_mean

_SHORT = 12
"""Letters of a hash in a table; the JSON file has all of them."""
_SEEDS = "Mean ± sample SD over seeds."


def tables(runs: Sequence[Facts]) -> list[Table]:
    """Every table about the runs that is not empty."""
    return [*mechanism_tables(runs), *(table for table in (runs_table(runs),) if table.rows)]


def mechanism_tables(runs: Sequence[Facts]) -> list[Table]:
    """How the credit of the runs came about; without the tables that would be empty."""
    found = (groups_table(runs), sizes_table(runs), pairs_table(runs), levels_table(runs), windows_table(runs))
    return [table for table in found if table.rows]


def groups_table(runs: Sequence[Facts]) -> Table:
    """What decisions were compared with: sizes of comparison groups and shares of decisions without credit."""
    rows = []
    for (setting, entry), found in by_entry(runs).items():
        pooled = [run["mechanism"] for run in found]
        if not any("group_size" in one or "singleton_rate" in one for one in pooled):
            continue
        names = ("group_size_lower", "group_size_median", "group_size_upper")
        quartiles = [over_seeds(pooled, name) for name in names]
        cells = [
            _cell(over_seeds(pooled, "group_size"), 1),
            " / ".join(shown(one.mean, 1) if one else NOTHING for one in quartiles),
            *(
                _cell(over_seeds(pooled, name, scale=100), 1)
                for name in ("singleton_rate", "zero_fraction", "informative_groups")
            ),
        ]
        rows.append((setting, entry, *cells, _weights(pooled), str(len(found))))
    columns = (
        "setting",
        "entry",
        "group size",
        "its quartiles over updates",
        "alone, %",
        "zero advantage, %",
        "informative task groups, %",
        "weight of an update",
        "seeds",
    )
    notes = (
        "Group size: mean number of decisions compared with each other, repeat visits included; for methods that compare "
        "whole trajectories, the number of these.",
        "Group size, alone and zero advantage weigh an update by its decisions, or equally where some update did not record "
        "their number. Informative task groups weigh all updates equally.",
        _SEEDS,
    )
    return Table("Comparison groups of the credit", columns, tuple(rows), notes)


def sizes_table(runs: Sequence[Facts]) -> Table:
    """Distribution of decisions over the sizes of their comparison groups, of the entries whose seeds all recorded it."""
    pools = {place: [run["mechanism"] for run in found] for place, found in by_entry(runs).items()}
    pools = {place: pooled for place, pooled in pools.items() if counted(pooled)}
    sizes = sizes_of([one for pooled in pools.values() for one in pooled])
    rows = [
        (*place, *(_cell(share_of_decisions(pooled, name), 1) for name in sizes), str(len(pooled)))
        for place, pooled in pools.items()
    ]
    notes = (
        "Share of decisions in comparison groups of that size, %; the decisions of all updates are pooled within a seed.",
        "Runs that did not record it are left out.",
        _SEEDS,
    )
    columns = ("setting", "entry", *(f"of {label}" if label != "1" else "alone" for label in sizes.values()), "seeds")
    return Table("Decisions by size of their comparison group", columns, tuple(rows), notes)


def pairs_table(runs: Sequence[Facts]) -> Table:
    """The preferences of the pair loss over whole runs, ratios from counts within each seed."""
    rows = [
        (
            setting,
            entry,
            _per_update(pooled, "accepted"),
            f"{_sum(pooled, 'pairs/active_updates')} / {_sum(pooled, 'pairs/audited_updates')}",
            *_ratios(pooled, ("exact_share", 100, 1), ("contrast", 1, 3), ("confidence", 1, 3)),
            " / ".join(_sum(pooled, f"pairs/{name}") for name in ("wins", "ties", "losses")),
            *_ratios(pooled, ("agreement", 100, 1), ("tie_share", 100, 1)),
        )
        for setting, entry, pooled in _with_pairs(runs)
    ]
    columns = (
        "setting",
        "entry",
        "pairs per update",
        "active / audited updates",
        "exact, %",
        "contrast |Δu|",
        "weight c",
        "W / T / L",
        "agreement, %",
        "ties, %",
    )
    notes = (
        "W, T, L: the preferred decision's own trajectory succeeded and the other's failed, same outcome, the reverse; "
        "summed over seeds, as are the updates. Agreement is (W + T/2) / (W + T + L).",
        f"Ratios pool the counts of all updates within a seed. {_SEEDS}",
    )
    return Table("Accepted preference pairs", columns, tuple(rows), notes)


def levels_table(runs: Sequence[Facts]) -> Table:
    """Pairs and contexts by level of the match rule."""
    rows = [
        (
            setting,
            entry,
            level,
            _per_update(pooled, f"accepted_{level}"),
            _per_update(pooled, f"supported_{level}"),
            *_ratios(pooled, (f"first_visit_group_size_{level}", 1, 2), (f"non_singleton_share_{level}", 100, 1)),
        )
        for setting, entry, pooled in _with_pairs(runs)
        for level in levels_of(pooled)
    ]
    columns = (
        "setting",
        "entry",
        "level",
        "accepted per update",
        "supported per update",
        "first visits per context",
        "not alone, %",
    )
    notes = ("Supported pairs are counted before threshold and quota; levels overlap there.", _SEEDS)
    return Table("Pairs by level of the match rule", columns, tuple(rows), notes, labels=3)


def windows_table(runs: Sequence[Facts]) -> Table:
    """The pairs over the course of training."""
    ratios = (("agreement", 100, 1), ("tie_share", 100, 1), ("contrast", 1, 3), ("confidence", 1, 3))
    rows = [
        (setting, entry, f"{first}–{last}", _per_update(pooled, "accepted"), *_ratios(pooled, *ratios))
        for (setting, entry), found in by_entry(runs).items()
        for (first, last), pooled in windows_of(found).items()
        if any("pairs/accepted" in one for one in pooled)
    ]
    columns = ("setting", "entry", "updates", "pairs per update", "agreement, %", "ties, %", "contrast |Δu|", "weight c")
    notes = (f"Windows of {WINDOW} updates, counts pooled within a seed. {_SEEDS}",)
    return Table("Pairs over training", columns, tuple(rows), notes, labels=3)


def runs_table(runs: Sequence[Facts]) -> Table:
    """Every run with the hashes of what made it."""
    rows = []
    for run in runs:
        made, start = run.get("made_with") or {}, run["warm_start"]
        weights = start.get("weights") or start.get("hash")
        hashes = (run["configuration_hash"], run["manifest_hash"], run["panel"].get("hash"), weights, made.get("revision"))
        rows.append((run["setting"], run["entry"], str(run["seed"]), str(run["run"]), *map(_short, hashes)))
    columns = ("setting", "entry", "seed", "run", "configuration", "manifest", "panel", "initial weights", "revision")
    notes = (f"Hashes by their first {_SHORT} letters; comparison.json has all of them, with the versions of each run.",)
    return Table("Runs and what made them", columns, tuple(rows), notes, labels=len(columns))


def _with_pairs(runs: Sequence[Facts]) -> Iterator[tuple[str, str, list[Mapping[str, float]]]]:
    for (setting, entry), found in by_entry(runs).items():
        pooled = [run["mechanism"] for run in found if "pairs/accepted" in run["mechanism"]]
        if pooled:
            yield setting, entry, pooled


def _weights(pooled: Sequence[Mapping[str, float]]) -> str:
    """How the updates of the seeds of an entry were pooled."""
    weighed = sum("trained_decisions" in one for one in pooled)
    if 0 < weighed < len(pooled):
        return f"its decisions in {weighed} of {len(pooled)} seeds, else equal"
    return "its decisions" if weighed else "equal"


def _ratios(pooled: Sequence[Mapping[str, float]], *wanted: tuple[str, float, int]) -> list[str]:
    """Cells of diagnostics of the pair loss: their name, scale and decimals."""
    return [_cell(over_seeds(pooled, f"pairs/{name}", scale=scale), digits) for name, scale, digits in wanted]


def _per_update(pooled: Sequence[Mapping[str, float]], name: str) -> str:
    return _cell(over_seeds(pooled, f"pairs/{name}", per="pairs/audited_updates"), 2)


def _cell(moments: MeanSD | None, digits: int) -> str:
    return shown_mean(moments, digits) if moments else NOTHING


def _sum(pooled: Sequence[Mapping[str, float]], name: str) -> str:
    values = [one[name] for one in pooled if name in one]
    return shown(math.fsum(values), 0) if values else NOTHING


def _short(digest: object) -> str:
    """The beginning of a hash; a revision with changes keeps its mark."""
    if not digest:
        return NOTHING
    head, dash, mark = str(digest).partition("-")
    return f"{head[:_SHORT]}{dash}{mark}"
