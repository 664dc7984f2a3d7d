"""Figures of a run, drawn without a display."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from creditlab.tracking import metrics as names
from creditlab.tracking.jsonl import STEP, read
from creditlab.tracking.summary import evaluations, summarise

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Records = Sequence[Mapping[str, float]]

# Okabe and Ito's colours, which remain apart under every common colour blindness
_HELD_OUT, _TRAINING, _WARM, _OTHER = "#0072B2", "#D55E00", "#000000", "#009E73"
_WINDOW = 5
"""Updates in the moving mean of training values, which are noisy: one batch each."""
_TURNS = {names.LENGTH: ("training", _TRAINING), names.VAL_TURNS: ("held-out", _HELD_OUT)}
_CREDIT = {names.SINGLETON_RATE: ("singletons", _TRAINING), names.ZERO_FRACTION: ("zero advantage", _OTHER)}


def learning_curve(source: Path | Records, out: Path, title: str = "") -> Path:
    """Draws held-out success (± 1 standard error) and training success over updates as a PNG, and returns its path.

    `source` is a metrics.jsonl or its records. Smaller panels below show the length of episodes and the share of decisions
    without credit, where they were recorded. Raises ValueError when the records hold no success rate at all.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    records = read(source) if isinstance(source, Path) else list(source)
    if not any(names.VAL_SUCCESS in record or names.SUCCESS_RATE in record for record in records):
        raise ValueError(
            f"no success rate to draw in {source if isinstance(source, Path) else 'the records'}; run an update first"
        )
    panels = [panel for panel in (_TURNS, _CREDIT) if any(name in record for record in records for name in panel)]
    figure = Figure(figsize=(8, 4.4 + 1.5 * len(panels)), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(1 + len(panels), 1, sharex=True, squeeze=False, height_ratios=[3.2] + [1] * len(panels))[:, 0]
    _draw_success(axes[0], records)
    heading = "\n".join([*textwrap.wrap(title or "Learning curve", 72), *_findings(records)])
    figure.suptitle(heading, x=0.01, horizontalalignment="left", fontsize="medium")
    for axis, panel in zip(axes[1:], panels, strict=True):
        _draw_panel(axis, records, panel)
    if _TURNS in panels:
        axes[1 + panels.index(_TURNS)].set_ylabel("turns per\nepisode")
    if _CREDIT in panels:
        axes[1 + panels.index(_CREDIT)].set_ylabel("share of\ndecisions (%)")
    axes[-1].set_xlabel("policy updates")
    last = max(1.0, *(record[STEP] for record in records))
    axes[-1].set_xlim(-0.015 * last, 1.015 * last)
    axes[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    out.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(out, format="png", metadata={"Software": "creditlab"})
    return out


def smooth(values: NDArray[np.float64], window: int = _WINDOW) -> NDArray[np.float64]:
    """Moving mean [N] over the last `window` values, fewer at the start, so that no value sees a later one."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    ends = np.arange(1, len(values) + 1)
    starts = np.maximum(ends - window, 0)
    return np.asarray((sums[ends] - sums[starts]) / (ends - starts), dtype=np.float64)


def _findings(records: Records) -> list[str]:
    """The line below the title: where the curve ends and what was gained."""
    result = summarise(records)
    if "gain" not in result:
        return []
    count = min(3, int(result["evaluations"]) - 1)
    ends = "last evaluation" if count == 1 else f"mean of the last {count} evaluations"
    return [f"{ends} {100 * result['last_three']:.1f} %, {100 * result['gain']:+.1f} points over the warm start"]


def _draw_success(axis: Axes, records: Records) -> None:
    steps, values = _series(records, names.SUCCESS_RATE)
    if len(steps):
        axis.plot(steps, 100 * values, color=_TRAINING, linewidth=0.6, alpha=0.35)
        label = f"training batch, mean of {_WINDOW} updates"
        axis.plot(steps, 100 * smooth(values), color=_TRAINING, linewidth=1.2, linestyle="--", label=label)
    curve = np.array(evaluations(records), dtype=np.float64).reshape(-1, 3)
    if len(curve):
        at, success, error = curve[:, 0], 100 * curve[:, 1], 100 * curve[:, 2]
        axis.fill_between(at, success - error, success + error, color=_HELD_OUT, alpha=0.2, linewidth=0)
        axis.plot(
            at,
            success,
            color=_HELD_OUT,
            linewidth=2.2,
            marker="o",
            markersize=4.5,
            label="held-out tasks, ± 1 standard error",
        )
    result = summarise(records)
    if "warm_start" in result:
        warm = 100 * result["warm_start"]
        axis.axhline(warm, color=_WARM, linewidth=0.9, linestyle=":", label=f"warm start {warm:.1f} %")
    axis.set_ylabel("episodes solved (%)")
    axis.set_ylim(0, 102)  # a marker at 100 % stays whole
    _finish(axis)


def _draw_panel(axis: Axes, records: Records, panel: Mapping[str, tuple[str, str]]) -> None:
    scale = 100 if panel is _CREDIT else 1
    for name, (label, color) in panel.items():
        steps, values = _series(records, name)
        if len(steps):
            held_out = name.startswith("val/")
            drawn = values if held_out else smooth(values)
            marker = "o" if held_out else None
            axis.plot(steps, scale * drawn, color=color, linewidth=1.3, marker=marker, markersize=3, label=label)
    axis.set_ylim(0, 1.1 * axis.get_ylim()[1])
    _finish(axis)


def _series(records: Records, name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Steps and finite values of one metric."""
    points = np.array([(r[STEP], r[name]) for r in records if name in r], dtype=np.float64).reshape(-1, 2)
    points = points[np.isfinite(points[:, 1])]
    return points[:, 0], points[:, 1]


def _finish(axis: Axes) -> None:
    axis.grid(visible=True, color="0.9", linewidth=0.7)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)
    # above the axes, where no curve can run into it
    axis.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=3, frameon=False, fontsize="small", borderpad=0.2)
