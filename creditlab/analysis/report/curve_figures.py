"""Learning curves of the entries of a setting: all of them together, and each beside the baseline with the difference."""

from __future__ import annotations

from typing import TYPE_CHECKING

from creditlab.analysis.comparison import Band, Comparison
from creditlab.analysis.report.look import (
    NARROW,
    WIDE,
    Drawing,
    Look,
    drawing_style,
    finished,
    legend,
    new_figure,
    sample,
    slug,
    tidy,
    whole_updates,
    wide_enough,
)
from creditlab.analysis.tables import short, shown
from creditlab.plaintext import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_X = "policy updates"


def overview(comparison: Comparison, setting: str, looks: dict[str, Look], name: str) -> Drawing:
    """The learning curve of every entry that finished a run in the setting, with bands of ± one sample SD."""
    with drawing_style():
        figure = new_figure(WIDE, 4.3)
        axis = figure.subplots()
        drawn = [entry for entry in comparison.entries if comparison.band(entry, setting)]
        for entry in reversed(drawn):  # the first ones on top
            _curve(axis, comparison, entry, setting, looks[entry], alpha=0.1, seeds=len(drawn) == 1)
        tidy(axis)
        whole_updates(axis)
        axis.set_xlabel(_X)
        axis.set_ylabel(comparison.quantity)
        axis.set_ylim(*wide_enough(*axis.get_ylim(), percent=comparison.percent))
        axis.margins(x=0.02)
        legend(figure, drawn, [sample(looks[entry]) for entry in drawn])
        widths = any(band.low for entry in drawn if (band := comparison.band(entry, setting)))
        words = "mean over seeds; bands are ± 1 sample SD" if widths else "one seed each, so without bands"
        thin = " Thin lines are the seeds." if len(drawn) == 1 and widths else ""
        text = f"{setting}: learning curves, {words}.{thin}"
        return finished(figure, f"{name}-curves", text)


def paired(comparison: Comparison, setting: str, looks: dict[str, Look], name: str) -> list[Drawing]:
    """For every challenger its curve beside the baseline's, and below it the paired difference over the same updates."""
    limits = _panel_limits(comparison, setting)
    return [
        _pair(comparison, entry, setting, looks, limits, f"{name}-pair-{index}-{slug(entry)}")
        for index, entry in enumerate(comparison.challengers, 1)
        if comparison.band(entry, setting)
    ]


def _pair(
    comparison: Comparison,
    entry: str,
    setting: str,
    looks: dict[str, Look],
    limits: tuple[tuple[float, float], tuple[float, float]],
    name: str,
) -> Drawing:
    with drawing_style():
        figure = new_figure(NARROW, 4.3)
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2, 1.15])
        sides = [side for side in (comparison.baseline, entry) if comparison.band(side, setting)]
        for side in sides:
            _curve(above, comparison, side, setting, looks[side], alpha=0.16, seeds=True)
        tidy(above)
        above.set_ylabel(comparison.quantity)
        above.set_ylim(limits[0])
        legend(figure, sides, [sample(looks[side]) for side in sides], columns=1 if len("".join(sides)) > 34 else 2)
        band = comparison.difference_band(entry, setting)
        tidy(below)
        below.axhline(0, color="0.25", linewidth=0.9)
        if band:
            _difference(below, comparison, entry, setting, band, looks[entry])
            below.set_ylim(limits[1])
        else:
            below.set_yticks([])
            below.text(0.5, 0.6, "not paired with the baseline", transform=below.transAxes, ha="center", color="0.25")
        below.set_ylabel("difference\n(points)" if comparison.percent else "difference")
        whole_updates(below)
        below.set_xlabel(_X)
        below.margins(x=0.03)
        return finished(figure, name, _pair_caption(comparison, entry, setting, band, limits[1]), wide=False)


def _pair_caption(comparison: Comparison, entry: str, setting: str, band: Band | None, limits: tuple[float, float]) -> str:
    several = any(len(comparison.finished(side, setting)) > 1 for side in (entry, comparison.baseline))
    words = "mean ± 1 sample SD, thin lines are the seeds" if several else "one seed each"
    text = f"{entry} and {comparison.baseline}, {setting}. Above: {words}. Below: "
    if band is None:
        reasons = comparison.difference(entry, setting).remarks
        return f"{text}nothing, for the runs do not pair ({clean('; '.join(reasons[1:] or reasons), 200)})."
    count = len(band.seeds)
    if band.low is None:
        return f"{text}the paired difference of one seed, without an interval."
    cut = min(band.low) < limits[0] or max(band.high or ()) > limits[1]
    wider = ", cut where it is wider than the panel" if cut else ""
    return f"{text}the paired difference over {count} seeds with the 95 % interval at each evaluation{wider}."


def _curve(axis: Axes, comparison: Comparison, entry: str, setting: str, look: Look, *, alpha: float, seeds: bool) -> None:
    band = comparison.band(entry, setting)
    if band is None:
        return
    if band.low and band.high:
        axis.fill_between(band.updates, band.low, band.high, color=look.color, alpha=alpha, linewidth=0)
    if seeds and len(band.seeds) > 1:
        for run in comparison.finished(entry, setting).values():
            axis.plot(run.updates, run.values, color=look.color, linewidth=0.6, alpha=0.4)
    every = max(1, len(band.updates) // 12)
    axis.plot(
        band.updates,
        band.mean,
        color=look.color,
        linestyle=look.dashes,
        linewidth=1.8,
        marker=look.marker,
        markersize=4.5,
        markevery=every,
        markeredgecolor="white",
        markeredgewidth=0.4,
        clip_on=False,  # a marker at 0 or 100 % stays whole
    )


def _difference(axis: Axes, comparison: Comparison, entry: str, setting: str, band: Band, look: Look) -> None:
    if band.low and band.high:
        axis.fill_between(band.updates, band.low, band.high, color=look.color, alpha=0.2, linewidth=0)
    single = comparison.seed_differences(entry, setting)
    for points in single.values() if len(single) > 1 else ():
        axis.plot(list(points), list(points.values()), color=look.color, linewidth=0.6, alpha=0.4)
    axis.plot(band.updates, band.mean, color=look.color, linewidth=1.8, marker=look.marker, markersize=4, markevery=2)
    found = comparison.difference(entry, setting).paired
    if found:
        text = f"{comparison.label('last_k')} {shown(found.mean, comparison.digits, signed=True)}"
        axis.set_title(short(text), loc="right", fontsize=8.5, color="0.25", pad=3)


def _panel_limits(comparison: Comparison, setting: str) -> tuple[tuple[float, float], tuple[float, float]]:
    """The same limits for all panels of a setting, of curves and of differences, so that they can be compared by eye.

    An interval of two seeds may be as wide as it likes; the panel is cut at twice the range of the single differences.
    """
    values = [value for curve in comparison.curves if curve.setting == setting for value in curve.values]
    single, edges = [0.0], [0.0]
    for entry in comparison.challengers:
        band = comparison.difference_band(entry, setting)
        if band is None:
            continue
        for points in comparison.seed_differences(entry, setting).values():
            single += points.values()
        edges += [*(band.low or ()), *(band.high or ())]
    reach = 2 * max(map(abs, single))
    low, high = min(single + edges), max(single + edges)
    return _padded(min(values), max(values), percent=comparison.percent), _padded(max(low, -reach), min(high, reach))


def _padded(low: float, high: float, *, percent: bool = False) -> tuple[float, float]:
    margin = 0.05 * (high - low)
    return wide_enough(low - margin, high + margin, percent=percent)
