"""What all figures of a report share: size of type, looks of the entries, names as plain text, and files that repeat."""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from creditlab.plaintext import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

WIDE, NARROW = 8.0, 4.6
"""Inches: a figure over the whole column, and one of two beside each other."""
# Okabe and Ito's colours without yellow, which is too light for lines on white
_COLORS: Final = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
_MARKERS: Final = ("s", "^", "D", "v", "P", "X", "<", ">", "*", "p", "h")
_DASHES: Final = ("solid", (0, (5, 1.6)), (0, (1.4, 1.2)), (0, (5, 1.4, 1.2, 1.4)), (0, (8, 1.5)))
_NAME, _LINES = 30, 3
"""Letters on a line of a name, and lines of a name at most."""
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
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)
_ID: Final = re.compile(r'(\bid="|href="#|url\(#)')
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
        return _ID.sub(lambda found: f"{found[1]}{self.name}-", f"{head}{end}{rest}")


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


def short(name: str, width: int = _NAME, lines: int = _LINES) -> str:
    """A name on a few lines, its middle left out where it is longer than they hold."""
    text = printable(name)
    room = width * lines - lines
    if len(text) > room:
        text = f"{text[: room // 2]}…{text[-(room // 2) :]}"
    return "\n".join(textwrap.wrap(text, width)) or text


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


def legend(target: Figure | Axes, names: Sequence[str], handles: Sequence[Any], *, columns: int = 0, **place: Any) -> None:
    """A legend above, in as many columns as its names leave room for."""
    texts = [short(name) for name in names]
    longest = max(max(map(len, text.split("\n"))) for text in texts)
    columns = columns or max(1, min(len(texts), 100 // (longest + 9)))
    # matplotlib drops labels that begin with an underscore, so the names are put in afterwards
    place = {"loc": "outside upper left", **place}
    made = target.legend(list(handles), [str(n) for n in range(len(texts))], ncols=columns, frameon=False, **place)
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
