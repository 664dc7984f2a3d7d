"""Forest plots: paired differences with their intervals, and results within families of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from creditlab.analysis.comparison import MEASURES, Comparison, Difference, Measure
from creditlab.analysis.report.look import (
    WIDE,
    Drawing,
    Look,
    chunks,
    drawing_style,
    finished,
    legend,
    new_figure,
    sample,
    tidy,
    wide_enough,
)
from creditlab.analysis.tables import short, shown, shown_interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TOGETHER = 8
"""Challengers in one forest plot, which must fit on a printed page."""
_ROWS = 34
"""Rows of one plot of families."""


def forests(comparison: Comparison, setting: str, looks: dict[str, Look], name: str) -> list[Drawing]:
    """Paired differences of every challenger to the baseline, all measures; empty where nothing can be compared."""
    found = [comparison.difference(entry, setting, measure) for entry in comparison.challengers for measure in MEASURES]
    if not any(one.paired for one in found):
        return []
    parts = chunks(comparison.challengers, _TOGETHER)
    limits = _difference_limits(comparison, setting)
    return [
        _forest(comparison, part, setting, looks, limits, f"{name}-forest" + (f"-{index}" if len(parts) > 1 else ""))
        for index, part in enumerate(parts, 1)
    ]


def families(comparison: Comparison, setting: str, looks: dict[str, Look], name: str) -> list[Drawing]:
    """The mean at the end within every family of tasks, every entry; empty where none has such a mean."""
    entries = [entry for entry in comparison.entries if comparison.finished(entry, setting)]
    measured = [
        family
        for family in comparison.families(setting)
        if any(comparison.summary(entry, setting, family=family).moments for entry in entries)
    ]
    parts = chunks(measured, max(1, _ROWS // max(1, len(entries))))
    return [
        _families(comparison, entries, part, setting, looks, f"{name}-families" + (f"-{index}" if len(parts) > 1 else ""))
        for index, part in enumerate(parts, 1)
    ]


def _forest(
    comparison: Comparison,
    entries: Sequence[str],
    setting: str,
    looks: dict[str, Look],
    limits: tuple[float, float],
    name: str,
) -> Drawing:
    with drawing_style():
        figure = new_figure(WIDE, 0.8 + (0.26 * (1 + len(MEASURES)) + 0.1) * len(entries))
        axis = figure.subplots()
        places, labels, at = [], [], 0.0
        for entry in entries:
            _heading(axis, at, entry)
            for measure in MEASURES:
                at += 1
                main = measure == "last_k"
                _row(axis, at, comparison.difference(entry, setting, measure), looks[entry], comparison.digits, main=main)
                places.append(at)
                labels.append(comparison.label(measure))
            at += 1.4
        axis.set_yticks(places, labels)
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(at - 0.8, -0.6)
        axis.set_xlim(limits)
        axis.axvline(0, color="0.25", linewidth=1.0, zorder=1)
        points = " (points)" if comparison.percent else ""
        axis.set_xlabel(f"{short(f'entry minus {comparison.baseline}', 70, 2)}{points}")
        tidy(axis, grid="x")
        axis.spines["left"].set_visible(False)
        text = (
            f"{setting}: paired differences to {comparison.baseline}. Points are means over seeds, bars 95 % Student-t "
            f"intervals, small ticks single seeds; {comparison.label('last_k')} is drawn bold."
        )
        return finished(figure, name, text)


def _heading(axis: Axes, at: float, entry: str) -> None:
    """The name of an entry above its rows, where a long one has room."""
    behind = {"facecolor": "white", "edgecolor": "none", "pad": 1.5}
    beside, name = axis.get_yaxis_transform(), short(entry, 80, 1)
    text = axis.text(0.0, at, name, transform=beside, va="center", fontweight="bold", bbox=behind, zorder=4)
    text.set_in_layout(False)  # wide letters would leave the rows no room


def _row(axis: Axes, at: float, found: Difference, look: Look, digits: int, *, main: bool) -> None:
    """One difference: its seeds, its interval and mean, and both in numbers at the right."""
    paired = found.paired
    beside = axis.get_yaxis_transform()
    if paired is None:
        axis.text(1.02, at, found.reading, transform=beside, va="center", fontsize=8.5, color="0.3")
        return
    if len(paired.per_seed) > 1:
        seeds = list(paired.per_seed.values())
        axis.plot(seeds, [at + 0.27] * len(seeds), linestyle="", marker="|", markersize=5, color=look.color, alpha=0.75)
    if paired.interval:
        ends = [paired.interval.low, paired.interval.high]
        axis.plot(ends, [at, at], color=look.color, linewidth=2.4 if main else 1.2, solid_capstyle="butt")
    face = look.color if main else "white"
    axis.plot(
        [paired.mean], [at], linestyle="", marker=look.marker, markersize=7 if main else 5.5, color=look.color,
        markerfacecolor=face, zorder=3,
    )  # fmt: skip
    why = f"({paired.no_interval.partition(':')[0]})"
    numbers = (
        f"{shown(paired.mean, digits, signed=True)} {shown_interval(paired.interval, digits) if paired.interval else why}"
    )
    axis.text(1.02, at, numbers, transform=beside, va="center", fontsize=8.5, fontweight="bold" if main else "normal")


def _difference_limits(comparison: Comparison, setting: str) -> tuple[float, float]:
    """From the leftmost to the rightmost end of all intervals, zero included, with a margin."""
    ends = [0.0]
    for entry in comparison.challengers:
        for measure in MEASURES:
            paired = comparison.difference(entry, setting, measure).paired
            if paired:
                ends += paired.per_seed.values()
                ends += [paired.interval.low, paired.interval.high] if paired.interval else []
    margin = 0.05 * (max(ends) - min(ends)) or 1.0
    return min(ends) - margin, max(ends) + margin


def _families(
    comparison: Comparison, entries: Sequence[str], part: Sequence[str], setting: str, looks: dict[str, Look], name: str
) -> Drawing:
    measure: Measure = "last_k"
    with drawing_style():
        figure = new_figure(WIDE, 1.2 + 0.19 * len(part) * (len(entries) + 1.2))
        axis = figure.subplots()
        places, at = [], 0.0
        for family in part:
            places.append(at + (len(entries) - 1) / 2)
            for entry in entries:
                summary = comparison.summary(entry, setting, measure, family)
                look = looks[entry]
                if summary.moments:
                    mean, sd = summary.moments.mean, summary.moments.sd or 0.0
                    values = list(summary.per_seed.values())
                    style: dict[str, Any] = {"linestyle": "", "markersize": 5, "color": look.color, "clip_on": False}
                    axis.errorbar([mean], [at], xerr=[[sd], [sd]], fmt="none", ecolor=look.color, elinewidth=1.3, capsize=2)
                    axis.plot([mean], [at], marker=look.marker, **style)
                    axis.plot(values, [at] * len(values), marker="|", alpha=0.5, **style)
                at += 1
            axis.axhline(at + 0.1, color="0.85", linewidth=0.8)
            at += 1.2
        axis.set_yticks(places, [short(family, 26) for family in part])
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(at - 0.9, -0.9)
        axis.set_xlim(*wide_enough(*axis.get_xlim(), percent=True))
        axis.set_xlabel(f"success, {comparison.label(measure)} (%)")
        tidy(axis, grid="x")
        axis.spines["left"].set_visible(False)
        legend(figure, entries, [sample(looks[entry]) for entry in entries])
        label = comparison.label(measure)
        text = f"{setting}: {label} within families of tasks, mean ± 1 sample SD over seeds; small ticks are single seeds."
        return finished(figure, name, text)
