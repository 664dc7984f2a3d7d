"""The comparison groups of the credit, drawn: how many decisions stand in groups of which size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from creditlab.analysis.mechanism import Facts, counted, over_seeds, share_of_decisions, sizes_of
from creditlab.analysis.report.look import (
    ONE_SEED,
    WIDE,
    Drawing,
    Look,
    drawing_style,
    error_bars,
    finished,
    legend,
    new_figure,
    tidy,
)
from creditlab.analysis.tables import short
from creditlab.plaintext import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CLASSES: Final = (
    ("#E69F00", "///", "black"),
    ("#DCE9F5", "", "black"),
    ("#A9CDE6", "", "black"),
    ("#67A9D3", "", "black"),
    ("#2F75B5", "", "white"),
    ("#0B2F63", "", "white"),
)
"""Fill, hatch and ink of the classes of sizes: blue from light to dark, which stays in order in grey; hatched: alone."""
_ROOM: Final = 6.0
"""Percent that a share takes at least to have its number on it."""


def group_figures(own: Mapping[str, Sequence[Facts]], setting: str, looks: Mapping[str, Look], name: str) -> list[Drawing]:
    """Distribution of the sizes for entries whose seeds all recorded it, quartiles of their means for the others."""
    pools = {entry: [run["mechanism"] for run in found] for entry, found in own.items()}
    sizes = {entry: pooled for entry, pooled in pools.items() if counted(pooled)}
    rest = {
        entry: [one for one in pooled if "group_size" in one]
        for entry, pooled in pools.items()
        if entry not in sizes and any("group_size" in one for one in pooled)
    }
    drawings = []
    if sizes:
        drawings.append(_distribution(sizes, list(rest), setting, f"{name}-sizes"))
    if rest:
        drawings.append(_quartiles(rest, setting, looks, f"{name}-groups"))
    return drawings


def _distribution(
    pools: Mapping[str, Sequence[Mapping[str, float]]], absent: Sequence[str], setting: str, name: str
) -> Drawing:
    """Shares of the decisions of each entry by size of their comparison group, a bar for each entry."""
    classes = sizes_of([one for pooled in pools.values() for one in pooled])
    with drawing_style():
        figure = new_figure(WIDE, 1.1 + 0.42 * len(pools))
        axis = figure.subplots()
        left, handles = [0.0] * len(pools), []
        for index, key in enumerate(classes):
            color, hatch, ink = _CLASSES[min(index, len(_CLASSES) - 1)]
            shares = [moments.mean if (moments := share_of_decisions(pooled, key)) else 0.0 for pooled in pools.values()]
            style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.7}
            handles.append(axis.barh(range(len(shares)), shares, 0.62, left=left, **style))
            for at, (start, share) in enumerate(zip(left, shares, strict=True)):
                if share >= _ROOM:
                    behind = {"facecolor": color, "edgecolor": "none", "pad": 1.0}
                    middle = start + share / 2
                    axis.text(middle, at, f"{share:.0f}", color=ink, ha="center", va="center", fontsize=8.5, bbox=behind)
            left = [start + share for start, share in zip(left, shares, strict=True)]
        _entries(axis, list(pools))
        axis.set_xlim(0, 100)
        axis.set_xlabel("share of decisions (%)")
        tidy(axis, grid="x")
        labels = [f"in groups of {label}" if label != "1" else "alone" for label in classes.values()]
        legend(figure, labels, handles)
        text = (
            f"{setting}: decisions by the size of the group they were compared in, pooled over the updates of a seed, mean "
            "over seeds. Alone: compared with no other."
        )
        if absent:
            text += f" Not drawn here, for not all of their runs recorded it: {clean(', '.join(absent), 200)}."
        return finished(figure, name, text)


def _quartiles(
    pools: Mapping[str, Sequence[Mapping[str, float]]], setting: str, looks: Mapping[str, Look], name: str
) -> Drawing:
    """Where the distribution is not known: quartiles of the updates' mean sizes for every seed; and who was alone."""
    single = False
    with drawing_style():
        figure = new_figure(WIDE, 1.0 + 0.5 * len(pools))
        sizes, alone = figure.subplots(1, 2, sharey=True, width_ratios=[1.5, 1])
        for at, (entry, pooled) in enumerate(pools.items()):
            look = looks[entry]
            for index, one in enumerate(pooled):
                place = at + 0.7 * ((index + 0.5) / len(pooled) - 0.5)
                ends = [one["group_size_lower"], one["group_size_upper"]]
                sizes.plot(ends, [place, place], color=look.color, linewidth=2.2, solid_capstyle="butt")
                middle = [one["group_size_median"]]
                sizes.plot(middle, [place], marker="|", color=look.color, markersize=6, markeredgewidth=1.6)
            if moments := over_seeds(pooled, "singleton_rate", scale=100):
                single |= error_bars(alone, [at], [moments], look, across=True)
        _entries(sizes, list(pools))
        sizes.set_xlabel("decisions compared with each other")
        alone.set_xlabel("decisions compared with no other (%)")
        alone.tick_params(axis="y", length=0)
        for axis in (sizes, alone):
            axis.set_xlim(left=0)
            tidy(axis, grid="x")
        text = (
            f"{setting}: size of the comparison groups of the credit, for entries whose runs did not all record its "
            "distribution. Left: for each seed, the quartiles over updates of the mean size in an update, with the median. "
            f"Right: decisions compared with no other, mean ± 1 sample SD over seeds.{ONE_SEED if single else ''}"
        )
        return finished(figure, name, text)


def _entries(axis: Axes, entries: Sequence[str]) -> None:
    """One row for each entry, the first one on top."""
    axis.set_yticks(range(len(entries)), [short(entry) for entry in entries])
    axis.set_ylim(len(entries) - 0.5, -0.5)
    axis.tick_params(axis="y", length=0)
