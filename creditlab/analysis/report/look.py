"""What all figures of a report share: size of type, looks of the entries, names as plain text, and files that repeat."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from creditlab.analysis.statistics import MeanSD
from creditlab.analysis.tables import short

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDE, NARROW = 8.0, 4.6
"""Inches: a figure over the whole column, and one of two beside each other."""
# Okabe and Ito's colours without yellow, which is too light for lines on white, and the wine of Tol's muted ones
_COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#882255")
_MARKERS: Final = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_DASHES: Final = ("solid", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (5, 1.4, 1.2, 1.4)), (0, (8, 1.5)))
_STYLE: Final[Mapping[str, Any]] = {
    "text.parse_math": False,  # names come from outside: a dollar sign is a dollar sign
    "axes.unicode_minus": True,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "sans-serif"],
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "xtick.labelsize": 8.5,
    "ytick.labelsize": 8.5,
    "svg.fonttype": "none",  # text stays text, which can be searched and copied
    "hatch.linewidth": 0.6,
}
_LEAST_RANGE: Final = 4.0
"""Points that an axis shows at least."""
ONE_SEED: Final = " Hollow: one seed, without a deviation."
"""What a caption says where `error_bars` drew a value of one seed."""
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_ID: Final = re.compile(r'(\bid="|href="#|url\(#)')
_TAG: Final = re.compile(r'<[^<>"]*(?:"[^"]*"[^<>"]*)*>')
_HEAD: Final = re.compile(r"^.*?(?=<svg\b)", re.DOTALL)


@dataclass(frozen=True)
class Look:
    """How an entry is drawn everywhere; colour, marker and dashes each tell it apart from its neighbours."""

    color: str
    marker: str
    dashes: Any


@dataclass(frozen=True)
class Drawing:
    """A figure as SVG and PNG; `caption` says what is drawn, `wide` that it takes the whole column."""

    name: str
    caption: str
    svg: bytes
    png: bytes
    wide: bool = True

    @property
    def inline(self) -> str:
        """The SVG for a page: no declarations or comments, and its ids apart from those of other figures."""
        text = _COMMENT.sub("", _HEAD.sub("", self.svg.decode(), count=1))
        head, end, rest = text.partition(">")
        head = re.sub(r'\s(?:width|height)="[^"]*"', "", head)
        return _TAG.sub(lambda tag: _ID.sub(lambda found: f"{found[1]}{self.name}-", tag[0]), f"{head}{end}{rest}")


def looks(entries: Sequence[str], baseline: str) -> dict[str, Look]:
    """A look for each entry; the baseline's is black with circles."""
    found = {baseline: Look("#000000", "o", (0, (2.5, 1.2)))}
    for index, entry in enumerate(entry for entry in entries if entry != baseline):
        found[entry] = Look(_COLORS[index % len(_COLORS)], _MARKERS[index % len(_MARKERS)], _DASHES[index % len(_DASHES)])
    return found


@contextmanager
def drawing_style() -> Iterator[None]:
    """Matplotlib's own defaults with ours, whatever the user's settings are; signs without a glyph are drawn as boxes."""
    import matplotlib.style

    with matplotlib.style.context(["default", dict(_STYLE)]), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def new_figure(width: float, height: float) -> Figure:
    """An empty figure that lays itself out; sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def finished(figure: Figure, name: str, caption: str, *, wide: bool = True) -> Drawing:
    """The figure as files; the same figure always gives the same bytes."""
    import matplotlib

    svg, png = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": name}):
        figure.savefig(svg, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    figure.savefig(png, format="png", dpi=150, metadata={"Software": "creditlab"})
    return Drawing(name, caption, svg.getvalue(), png.getvalue(), wide)


def slug(name: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "unnamed"


def tidy(axis: Axes, *, grid: str = "both") -> None:
    """A light grid behind the data, and no frame."""
    axis.grid(visible=True, axis=grid, color="0.9", linewidth=0.7)  # type: ignore[arg-type]
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def whole_updates(axis: Axes) -> None:
    """Marks only whole numbers of updates."""
    from matplotlib.ticker import MaxNLocator

    axis.xaxis.set_major_locator(MaxNLocator(nbins="auto", integer=True, steps=[1, 2, 2.5, 5, 10]))


def wide_enough(low: float, high: float, *, percent: bool) -> tuple[float, float]:
    """Limits of at least a few points, so that what is flat is drawn flat; of percents none below 0 or above 100."""
    if percent:
        low, high = max(0.0, low), min(100.0, high)
    missing = max(0.0, _LEAST_RANGE - (high - low)) / 2
    low, high = low - missing, high + missing
    shift = max(0.0, -low) + min(0.0, 100.0 - high) if percent else 0.0
    return low + shift, high + shift


def error_bars(axis: Axes, places: Sequence[float], found: Sequence[MeanSD], look: Look, *, across: bool = False) -> bool:
    """Means with bars of one sample SD along a line, or `across` without one; returns whether one had a single seed.

    A single seed has no deviation: it is drawn without a bar and hollow, so that it does not look exact.
    """
    means, bars = [one.mean for one in found], [math.nan if one.sd is None else one.sd for one in found]
    x, y = (means, places) if across else (places, means)
    style: dict[str, Any] = {"color": look.color, "marker": look.marker, "markersize": 5}
    dashes = "none" if across else look.dashes
    x_bars, y_bars = (bars, None) if across else (None, bars)
    axis.errorbar(x, y, y_bars, x_bars, linestyle=dashes, linewidth=1.5, elinewidth=1.0, capsize=2, **style)
    hollow = [at for at, one in enumerate(found) if one.sd is None]
    at_x, at_y = ([side[at] for at in hollow] for side in (x, y))
    axis.plot(at_x, at_y, linestyle="none", markerfacecolor="white", zorder=3, **style)
    return bool(hollow)


def legend(figure: Figure, names: Sequence[str], handles: Sequence[Any], *, columns: int = 0) -> None:
    """A legend above, in as many columns as its names leave room for."""
    texts = [short(name) for name in names]
    longest = max(max(map(len, text.split("\n"))) for text in texts)
    columns = columns or max(1, min(len(texts), 100 // (longest + 9)))
    # matplotlib drops labels that begin with an underscore, so the names are put in afterwards
    numbers = [str(number) for number in range(len(texts))]
    made = figure.legend(list(handles), numbers, loc="outside upper left", ncols=columns, frameon=False)
    for shown, text in zip(made.get_texts(), texts, strict=True):
        shown.set_text(text)


def sample(look: Look) -> Line2D:
    """What a legend shows of an entry."""
    from matplotlib.lines import Line2D

    return Line2D([], [], color=look.color, linestyle=look.dashes, marker=look.marker, markersize=5, linewidth=1.7)


def chunks(items: Sequence[Any], size: int) -> list[Sequence[Any]]:
    """The items in order, at most `size` together and as evenly as that allows."""
    count = max(1, -(-len(items) // size))
    each = -(-len(items) // count)
    return [items[start : start + each] for start in range(0, len(items), each)] if items else []
