"""The page of a comparison: self-contained HTML with its figures inside, and the figures as files beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.report.look import Drawing
from creditlab.analysis.report.reading import cautions, few, named, read_setting
from creditlab.analysis.report.sections import sections, summary_rows
from creditlab.analysis.tables import Table
from creditlab.plaintext import printable
from creditlab.tracking.writing import put, writing

PAGE: Final = "report.html"
FIGURES: Final = "figures"
_AGAIN: Final = "call the command again"
_NAMED: Final = re.compile(rf'<span class="files">{FIGURES}/([a-z0-9-]+)\.svg, \.png</span>')
"""How the page names the files of a figure; text from outside cannot, for it is escaped."""


def write_report(out: Path, comparison: Comparison, facts: Mapping[str, Any], further: Sequence[Table] = ()) -> list[Path]:
    """Writes report.html and figures/*.svg, *.png into `out`; returns their paths, the page first.

    `facts` may name the `suite` or the `table` the numbers come from, the facts of each of the `runs`, and the `unfinished`
    ones; `further` are tables on how the entries differ. The report that was there before goes, its figures included. Raises
    WriteError where a file cannot be written.
    """
    html, drawings = render(comparison, facts, further)
    figures = {}
    for drawing in drawings:
        figures[out / FIGURES / f"{drawing.name}.svg"] = drawing.svg
        figures[out / FIGURES / f"{drawing.name}.png"] = drawing.png
    for path in figures_of(out):
        if path not in figures:
            with writing(path, _AGAIN):
                path.unlink(missing_ok=True)
    for path, content in figures.items():
        put(path, content, _AGAIN)
    put(out / PAGE, html.encode(), _AGAIN)  # at the end, for it names the figures that are to be removed next time
    return [out / PAGE, *figures]


def figures_of(out: Path) -> list[Path]:
    """The files of the figures that the report in a folder names; none where there is no report."""
    try:
        names = _NAMED.findall((out / PAGE).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []
    return [out / FIGURES / f"{name}.{kind}" for name in names for kind in ("svg", "png")]


def render(comparison: Comparison, facts: Mapping[str, Any], further: Sequence[Table] = ()) -> tuple[str, list[Drawing]]:
    """The page and the figures on it."""
    chapters = sections(comparison, facts, further)
    environment = Environment(
        loader=PackageLoader("creditlab.analysis.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_plain,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    html = environment.get_template("report.html").render(
        title=_title(comparison, facts),
        comparison=comparison,
        summary=list(summary_rows(comparison, facts)),
        readings=[read_setting(comparison, setting) for setting in comparison.settings],
        cautions=cautions(comparison, facts),
        sections=chapters,
        named=named,
        few=few,
        inline=lambda drawing: Markup(drawing.inline),
        figures=FIGURES,
    )
    return html, [drawing for section in chapters for drawing in section.drawings]


def _title(comparison: Comparison, facts: Mapping[str, Any]) -> str:
    name = facts.get("suite") or Path(facts.get("table", "")).name
    return f"{name}: {few(comparison.entries)}" if name else few(comparison.entries)


def _plain(value: Any) -> Any:
    """Text from outside on one line, without characters that steer; the escaping comes after it."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
