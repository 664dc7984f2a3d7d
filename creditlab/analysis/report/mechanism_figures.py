"""How credit came about, drawn: pairs by level, agreement, contrast and weight; the groups have a module of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from creditlab.analysis.mechanism import WINDOW, Facts, by_entry, levels_of, over_seeds, windows_of
from creditlab.analysis.report.group_figures import group_figures
from creditlab.analysis.report.look import (
    ONE_SEED,
    WIDE,
    Drawing,
    Look,
    chunks,
    drawing_style,
    error_bars,
    finished,
    legend,
    new_figure,
    sample,
    tidy,
    whole_updates,
)
from creditlab.analysis.tables import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Windows = Mapping[tuple[int, int], Sequence[Mapping[str, float]]]
"""By first and last update, the pooled diagnostics of every seed."""
_LEVELS: Final = (("#0072B2", ""), ("#E69F00", "///"), ("#009E73", "..."), ("#CC79A7", "xx"))
"""Colour and hatch of the levels of a match rule, for print in grey."""
_OUTCOMES: Final = (("wins", "#0072B2", ""), ("ties", "#BBBBBB", ".."), ("losses", "#D55E00", "///"))
_PANELS = 6
"""Entries in one figure of bars."""


def mechanism_figures(runs: Sequence[Facts], setting: str, looks: Mapping[str, Look], name: str) -> list[Drawing]:
    """Every mechanism figure of a setting for which its runs recorded something."""
    own = {entry: found for (at, entry), found in by_entry(runs).items() if at == setting}
    pairs = {entry: found for entry, found in own.items() if any("pairs/accepted" in run["mechanism"] for run in found)}
    drawings = []
    parts = chunks(list(pairs), _PANELS)
    for index, part in enumerate(parts, 1):
        numbered = f"-{index}" if len(parts) > 1 else ""
        drawings.append(_levels(pairs, part, setting, f"{name}-pairs{numbered}"))
    if pairs:
        drawings.append(_outcomes(pairs, setting, f"{name}-outcomes"))
        drawings.append(_lines(pairs, setting, looks, f"{name}-agreement", _AGREEMENT))
        drawings.append(_lines(pairs, setting, looks, f"{name}-contrast", _CONTRAST))
        drawings += _contexts(pairs, setting, looks, f"{name}-contexts")
    return [*drawings, *group_figures(own, setting, looks, name)]


_Panel = tuple[str, str, float]
"""Diagnostic, label of its axis, and scale."""
_AGREEMENT: Final[tuple[_Panel, ...]] = (
    ("pairs/agreement", "agreement (%)", 100.0),
    ("pairs/tie_share", "ties (%)", 100.0),
)
_CONTRAST: Final[tuple[_Panel, ...]] = (
    ("pairs/contrast", "mean contrast |Δu|", 1.0),
    ("pairs/confidence", "mean weight c", 1.0),
)
_WORDS: Final = {
    _AGREEMENT: "agreement of the preferences with the outcomes of their own trajectories, (W + T/2) / (W + T + L), and ties",
    _CONTRAST: "contrast and weight of the accepted pairs",
}


def _levels(pairs: Mapping[str, Sequence[Facts]], entries: Sequence[str], setting: str, name: str) -> Drawing:
    """Accepted pairs per update as stacked bars, a panel for each entry."""
    with drawing_style():
        columns = min(3, len(entries))
        rows = -(-len(entries) // columns)
        figure = new_figure(WIDE, 0.6 + 2.2 * rows)
        axes = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        levels = levels_of([run["mechanism"] for entry in entries for run in pairs[entry]])
        used, unused = list(axes.flat)[: len(entries)], list(axes.flat)[len(entries) :]
        for axis, entry in zip(used, entries, strict=True):
            bars = _stacked(axis, windows_of(pairs[entry]), levels)
            axis.set_title(short(entry, 26), loc="left", fontsize=9)
            tidy(axis, grid="y")
        for axis in unused:
            axis.set_visible(False)
        for axis in used[-columns:]:  # the lowest panel of each column
            axis.tick_params(axis="x", labelbottom=True)
            axis.set_xlabel("updates")
        for axis in axes[:, 0]:
            axis.set_ylabel("pairs per update")
        if levels:
            legend(figure, levels, bars)
        windows = f"in windows of {WINDOW} updates, mean over seeds"
        text = f"{setting}: accepted pairs per update by level of the match rule, {windows}."
        return finished(figure, name, text)


def _stacked(
    axis: Axes, windows: Mapping[tuple[int, int], Sequence[Mapping[str, float]]], levels: Sequence[str]
) -> list[Any]:
    """Bars of each level on top of the one before, one stack for each window; returns what a legend shows of them."""
    floor, found = [0.0] * len(windows), []
    for index, level in enumerate(levels):
        color, hatch = _LEVELS[index % len(_LEVELS)]
        means = [over_seeds(pooled, f"pairs/accepted_{level}", per="pairs/audited_updates") for pooled in windows.values()]
        heights = [moments.mean if moments else 0.0 for moments in means]
        style: dict[str, Any] = {"color": color, "hatch": hatch, "edgecolor": "white", "linewidth": 0.5}
        found.append(axis.bar(range(len(heights)), heights, 0.7, bottom=floor, **style))
        floor = [low + height for low, height in zip(floor, heights, strict=True)]
    ticks = [f"{first}–{last}" for first, last in windows]
    step = max(1, -(-len(ticks) // 4))
    axis.set_xticks(range(0, len(ticks), step), ticks[::step])
    return found


def _outcomes(pairs: Mapping[str, Sequence[Facts]], setting: str, name: str) -> Drawing:
    """Wins, ties and losses of the accepted pairs as shares of all, a bar for each entry."""
    with drawing_style():
        figure = new_figure(WIDE, 1.1 + 0.42 * len(pairs))
        axis = figure.subplots()
        left, handles = [0.0] * len(pairs), []
        sums = {
            entry: [sum(run["mechanism"].get(f"pairs/{kind}", 0.0) for run in found) for kind, *_ in _OUTCOMES]
            for entry, found in pairs.items()
        }
        for index, (_, color, hatch) in enumerate(_OUTCOMES):
            shares = [100 * counts[index] / (sum(counts) or 1) for counts in sums.values()]
            bars = axis.barh(range(len(shares)), shares, 0.62, left=left, color=color, hatch=hatch, edgecolor="white")
            handles.append(bars)
            left = [start + share for start, share in zip(left, shares, strict=True)]
        for at, counts in enumerate(sums.values()):
            text = " / ".join(f"{count:.0f}" for count in counts)
            axis.text(1.015, at, text, transform=axis.get_yaxis_transform(), va="center", fontsize=8.5)
        axis.set_yticks(range(len(pairs)), [short(entry) for entry in pairs])
        axis.tick_params(axis="y", length=0)
        axis.set_ylim(len(pairs) - 0.5, -0.5)
        axis.set_xlim(0, 100)
        axis.set_xlabel("share of accepted pairs (%)")
        tidy(axis, grid="x")
        legend(figure, [kind for kind, *_ in _OUTCOMES], handles)
        text = (
            f"{setting}: accepted pairs by outcome over all updates and seeds. Win: the preferred decision's own trajectory "
            "succeeded and the other's failed; tie: same outcome; loss: the reverse. The numbers are their counts."
        )
        return finished(figure, name, text)


def _lines(
    pairs: Mapping[str, Sequence[Facts]], setting: str, looks: Mapping[str, Look], name: str, panels: tuple[_Panel, ...]
) -> Drawing:
    """Two ratios over windows, one line for each entry."""
    with drawing_style():
        figure = new_figure(WIDE, 3.1)
        axes = figure.subplots(1, len(panels), sharex=True)
        single = False
        for axis, (diagnostic, label, scale) in zip(axes, panels, strict=True):
            single |= _over_windows(axis, pairs, looks, diagnostic, scale)
            axis.set_ylabel(label)
        if panels is _AGREEMENT:
            axes[0].axhline(50, color="0.25", linewidth=0.8, linestyle=":")
        legend(figure, list(pairs), [sample(looks[entry]) for entry in pairs])
        dotted = "; dotted: chance" if panels is _AGREEMENT else ""
        text = (
            f"{setting}: {_WORDS[panels]}, in windows of {WINDOW} updates; counts are pooled within a seed, "
            f"mean ± 1 sample SD over seeds{dotted}.{ONE_SEED if single else ''}"
        )
        return finished(figure, name, text)


def _contexts(pairs: Mapping[str, Sequence[Facts]], setting: str, looks: Mapping[str, Look], name: str) -> list[Drawing]:
    """First visits by level: how many fall into one context, and which share is not alone."""
    levels = levels_of([run["mechanism"] for found in pairs.values() for run in found])
    if not any(name.startswith("pairs/first_visits_") for found in pairs.values() for name in found[0]["mechanism"]):
        return []
    with drawing_style():
        figure = new_figure(WIDE, 0.7 + 2.3 * len(levels))
        axes = figure.subplots(len(levels), 2, sharex=True, squeeze=False)
        single = False
        for row, level in zip(axes, levels, strict=True):
            single |= _over_windows(row[0], pairs, looks, f"pairs/first_visit_group_size_{level}", 1.0)
            single |= _over_windows(row[1], pairs, looks, f"pairs/non_singleton_share_{level}", 100.0)
            row[0].set_title(f"level {short(level, 26)}", loc="left", fontsize=9)
            row[0].set_ylabel("first visits per context")
            row[1].set_ylabel("not alone (%)")
        for axis in axes[:-1].flat:
            axis.set_xlabel("")
        legend(figure, list(pairs), [sample(looks[entry]) for entry in pairs])
        text = (
            f"{setting}: sizes of the contexts that candidate records fall into, by level, in windows of {WINDOW} updates; "
            f"mean ± 1 sample SD over seeds.{ONE_SEED if single else ''}"
        )
        return [finished(figure, name, text)]


def _over_windows(
    axis: Axes, pairs: Mapping[str, Sequence[Facts]], looks: Mapping[str, Look], diagnostic: str, scale: float
) -> bool:
    """A diagnostic over the windows, one line for each entry; returns whether a window had one seed only."""
    single = False
    for place, (entry, found) in enumerate(pairs.items()):
        points = {
            (first + last) / 2: moments
            for (first, last), pooled in windows_of(found).items()
            if (moments := over_seeds(pooled, diagnostic, scale=scale))
        }
        shift = 0.5 * (place - (len(pairs) - 1) / 2)  # bars of several entries stand beside each other
        single |= error_bars(axis, [at + shift for at in points], list(points.values()), looks[entry])
    axis.set_xlabel("updates")
    whole_updates(axis)
    tidy(axis)
    return single
