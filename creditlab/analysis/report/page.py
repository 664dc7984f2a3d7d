"""The page of a comparison: self-contained HTML with its figures inside, and the figures as files beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from creditlab.analysis.comparison import Comparison
from creditlab.analysis.report.look import Drawing
from creditlab.analysis.report.reading import cautions, named, read_setting
from creditlab.analysis.report.sections import sections, summary_rows
from creditlab.analysis.tables import Table
from creditlab.plaintext import printable
from creditlab.tracking.writing import put

PAGE: Final = "report.html"
FIGURES: Final = "figures"
_AGAIN: Final = "call the command again"


def write_report(out: Path, comparison: Comparison, facts: Mapping[str, Any], further: Sequence[Table] = ()) -> list[Path]:
    """Writes report.html and figures/*.svg, *.png into `out`; returns their paths, the page first.

    `facts` may name the `suite` or the `table` the numbers come from, the facts of each of the `runs`, and the `unfinished`
    ones; `further` are tables on how the entries differ. Raises WriteError where a file cannot be written.
    """
    html, drawings = render(comparison, facts, further)
    files = {out / PAGE: html.encode()}
    for drawing in drawings:
        files[out / FIGURES / f"{drawing.name}.svg"] = drawing.svg
        files[out / FIGURES / f"{drawing.name}.png"] = drawing.png
    for path, content in files.items():
        put(path, content, _AGAIN)
    return list(files)


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
        inline=lambda drawing: Markup(drawing.inline),
        figures=FIGURES,
    )
    return html, [drawing for section in chapters for drawing in section.drawings]


def _title(comparison: Comparison, facts: Mapping[str, Any]) -> str:
    name = facts.get("suite") or Path(facts.get("table", "")).name
    return f"{name}: {named(comparison.entries)}" if name else named(comparison.entries)


def _plain(value: Any) -> Any:
    """Text from outside on one line, without characters that steer; the escaping comes after it."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
