"""What a comparison comes to: its files and what a terminal shows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from creditlab.analysis import comparison_tables, mechanism_tables
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.report import write_report
from creditlab.analysis.report.reading import LONGEST_NAME, cautions
from creditlab.analysis.tables import Table, json_text, latex, markdown, short, without_setting
from creditlab.suites.board import Status, say
from creditlab.suites.collect import FinishedRun
from creditlab.suites.differences import differences, differences_table
from creditlab.suites.plan import PlannedRun, tags_of
from creditlab.tracking.comparison import log_comparison
from creditlab.tracking.config import TrackingConfig
from creditlab.tracking.text import encodable
from creditlab.tracking.writing import put

_SUMMARY = (
    "setting", "entry", "measure", "family", "seeds", "mean", "sd",
    "pairs", "difference", "difference_low", "difference_high", "reading",
)  # fmt: skip
"""Columns of the table of results in W&B."""

Configs = dict[str, dict[str, Mapping[str, Any]]]
"""The resolved configuration of every entry, by setting and entry."""


def configs_of(finished: Sequence[FinishedRun]) -> Configs:
    """The configuration of every entry by setting, that of its first finished seed."""
    found: Configs = {}
    for run in finished:
        found.setdefault(run.run.setting, {}).setdefault(run.run.entry.name, run.record["config"])
    return found


def write_suite(
    out: Path, suite: str, finished: Sequence[FinishedRun], comparison: Comparison, unfinished: Sequence[Status] = ()
) -> list[Path]:
    """The comparison of a suite with what made its runs, and those that take no part; raises WriteError."""
    configs = configs_of(finished)
    facts = {
        "suite": suite,
        **facts_of(finished, unfinished),
        "configuration_differences": {setting: differences(by_entry) for setting, by_entry in configs.items()},
    }
    return write(out, comparison, facts, [differences_table(setting, by_entry) for setting, by_entry in configs.items()])


def facts_of(finished: Sequence[FinishedRun], unfinished: Sequence[Status] = ()) -> dict[str, Any]:
    """What made the runs of a suite, and which take no part: what a reader is to be cautioned of follows from it."""
    return {"runs": [run.facts for run in finished], "unfinished": [_unfinished(status) for status in unfinished]}


def write(out: Path, comparison: Comparison, facts: Mapping[str, Any], further: Sequence[Table] = ()) -> list[Path]:
    """A comparison as JSON with further facts, as Markdown and LaTeX with further tables, and as a page with its figures.

    Returns the paths of the files; raises WriteError.
    """
    further = [table for table in further if table.rows]
    tables = [*comparison_tables.tables(comparison), *further, *mechanism_tables.tables(facts.get("runs", ()))]
    texts = {
        "comparison.json": json_text({**facts, **comparison_tables.as_record(comparison)}),
        "comparison.md": "\n".join(map(markdown, tables)),
        "comparison.tex": "\n".join(map(latex, tables)),
    }
    for name, text in texts.items():
        put(out / name, text.encode(), "call the command again")
    return [*write_report(out, comparison, facts, further), *(out / name for name in texts)]


def track(out: Path, runs: Sequence[PlannedRun], comparison: Comparison, files: Sequence[Path]) -> list[str]:
    """The comparison of a suite in W&B, where and how the suite's runs are tracked; returns warnings."""
    section = runs[0].config["tracking"]
    tracking = TrackingConfig(**{key: section[key] for key in ("wandb", "project", "tags", "wandb_timeout")})
    entries = {run.entry.name: {"method": run.entry.method, "overrides": list(run.entry.overrides)} for run in runs}
    facts = {
        "suite": runs[0].suite,
        "settings": comparison.settings,
        "seeds": sorted({run.seed for run in runs}),
        "baseline": comparison.baseline,
        "entries": entries,
    }
    rows = [{key: row.get(key) for key in _SUMMARY} for row in comparison_tables.plain_rows(comparison)]
    tags = dict.fromkeys(tag for run in runs for tag in tags_of(run.setting, run.entry))
    return log_comparison(tracking, runs[0].suite, out, facts, rows, files, list(tags))


def show(
    comparison: Comparison, console: Console, further: Sequence[Table] = (), facts: Mapping[str, Any] | None = None
) -> None:
    """The results and the paired differences, those of the task score as well, further tables, and what weakens them.

    What weakens them follows from `facts` (`facts_of`) too, where there are any. Long names in cells are cut in the middle;
    the files have them in full.
    """
    for setting in comparison.settings:
        results, *others = _main_tables(comparison, setting)
        _print(results, console)
        if setting == comparison.settings[0]:
            say(console, f"  {_legend(comparison)}")
        for table in others:
            _print(table, console)
    for table in further:
        _print(without_setting(table, comparison.settings[0]), console)
    for caution in cautions(comparison, facts or {}):
        say(console, f"caution: {caution}", "yellow")


def _legend(comparison: Comparison) -> str:
    """What the measures are, in one line."""
    k = comparison.k
    end = f"L{k}: mean of a run's last {k} evaluations; final: the last one"
    end = end if k > 1 else "L1, final: a run's last evaluation"
    return f"{end}; AUC: mean height of its curve over the updates, the area by their span"


def _main_tables(comparison: Comparison, setting: str) -> list[Table]:
    """Results and differences of one setting, of the entries that have runs there."""
    tables = comparison_tables
    own = comparison.within(setting)
    found = [tables.results_table(own)]
    if own.baseline == comparison.baseline:
        found += [tables.differences_table(own), *tables.score_tables(own)]
    where = f"{setting}: " if len(comparison.settings) > 1 else ""
    return [replace(one, title=where + one.title) for one in (without_setting(table, setting) for table in found)]


def _print(table: Table, console: Console) -> None:
    """A table with its notes; none without rows."""
    if not table.rows:
        return
    grid = Grid(title=_text(table.title, console), title_justify="left")
    for index, column in enumerate(table.columns):
        side: Literal["left", "right"] = "left" if index < table.labels else "right"
        grid.add_column(_text(column, console), justify=side, overflow="fold", no_wrap=index >= table.labels)
    for row in table.rows:
        labels = [short(cell, LONGEST_NAME, 1) for cell in row[: table.labels]]
        grid.add_row(*(_text(cell, console) for cell in (*labels, *row[table.labels :])))
    console.print(grid)
    for note in table.notes:
        say(console, f"  {note}")


def _unfinished(status: Status) -> dict[str, Any]:
    run = status.run
    place = {"setting": run.setting, "entry": run.entry.name, "seed": run.seed}
    return {**place, "state": status.state.value, "message": status.message}


def _text(text: str, console: Console) -> Text:
    return Text(encodable(text, console.encoding))
