"""What stands on the page of a comparison: its sections with their figures and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from creditlab.analysis import comparison_tables, mechanism_tables
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.mechanism import Facts
from creditlab.analysis.report.curve_figures import overview, paired
from creditlab.analysis.report.forest_figures import families, forests
from creditlab.analysis.report.look import Drawing, Look, looks, slug
from creditlab.analysis.report.mechanism_figures import mechanism_figures
from creditlab.analysis.report.reading import named, revision_of
from creditlab.analysis.tables import NOTHING, Table, without_setting
from creditlab.plaintext import clean


@dataclass(frozen=True)
class Part:
    """Figures and tables on one question."""

    anchor: str
    title: str
    drawings: tuple[Drawing, ...] = ()
    tables: tuple[Table, ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Section:
    """A chapter of the page."""

    anchor: str
    title: str
    parts: tuple[Part, ...]
    remarks: tuple[str, ...] = ()

    @property
    def drawings(self) -> list[Drawing]:
        """All figures of its parts."""
        return [drawing for part in self.parts for drawing in part.drawings]


def sections(comparison: Comparison, facts: Facts, further: Sequence[Table]) -> list[Section]:
    """Every section after the summary, in the order of the page; without parts that would be empty."""
    look = looks(comparison.entries, comparison.baseline)
    runs = facts.get("runs", ())
    found = [
        _setting(comparison, setting, index, [run for run in runs if run["setting"] == setting], look)
        for index, setting in enumerate(comparison.settings, 1)
    ]
    across = [row for row in comparison_tables.bootstrap_table(comparison).rows if row[0] not in comparison.settings]
    if across:
        table = replace(comparison_tables.bootstrap_table(comparison), rows=tuple(across))
        found.append(Section("settings", "All settings together", (Part("across", "Stratified bootstrap", tables=(table,)),)))
    if further:
        part = Part("configurations", "Configuration differences", tables=tuple(further))
        found.append(Section("entries", "How the entries differ", (part,)))
    made = [Part("pairing", "Pairing", tables=(comparison_tables.pairing_table(comparison),))]
    made += [Part("finished", "Finished runs", tables=tuple(t for t in (mechanism_tables.runs_table(runs),) if t.rows))]
    made += [Part("unfinished", "Planned runs that are not finished", tables=(unfinished_table(facts),))]
    kept = tuple(part for part in made if any(table.rows for table in part.tables))
    return [*found, *([Section("runs", "Runs", kept)] if kept else [])]


def unfinished_table(facts: Facts) -> Table:
    """Runs of the plan that take no part, with what is known about each."""
    rows = tuple(
        (run["setting"], run["entry"], str(run["seed"]), run["state"], clean(run["message"], 400) or NOTHING)
        for run in facts.get("unfinished", ())
    )
    return Table("Planned runs that take no part", ("setting", "entry", "seed", "state", "reason"), rows, labels=5)


def summary_rows(comparison: Comparison, facts: Facts) -> Iterator[tuple[str, list[str]]]:
    """What was compared and with what it was made: a name and its values."""
    yield "entries", list(comparison.entries)
    yield "baseline", [comparison.baseline]
    last = f"mean of the last {comparison.k} scheduled evaluations" if comparison.k > 1 else "the last scheduled evaluation"
    yield "measure", [f"{comparison.label('last_k')}: {last} of a run"]
    for setting in comparison.settings:
        seeds = sorted({curve.seed for curve in comparison.curves if curve.setting == setting})
        yield f"seeds, {setting}", [", ".join(map(str, seeds))]
    runs = facts.get("runs", ())
    for setting in comparison.settings:
        curves = [curve for curve in comparison.curves if curve.setting == setting]
        yield f"panel, {setting}", _distinct(curve.panel for curve in curves)
        yield f"initial weights, {setting}", _distinct(curve.warm_start for curve in curves)
    made = [run.get("made_with") or {} for run in runs]
    if made:
        yield "creditlab", _distinct(_version(one) for one in made)
        yield "Python and packages", _distinct(_packages(one) for one in made)
        yield "machine", _distinct(one.get("platform") for one in made)
    if "table" in facts:
        restored = (f"values restored to counts of {facts['episodes']} episodes",) if facts.get("episodes") else ()
        yield "source", [str(facts["table"]), *restored]


def _setting(comparison: Comparison, setting: str, index: int, runs: Sequence[Facts], look: dict[str, Look]) -> Section:
    """One setting: curves, differences, results, families, budgets, mechanism and single seeds."""
    own = comparison.within(setting)
    name, at = f"{index}-{slug(setting)}", f"s{index}"
    absent = [entry for entry in comparison.entries if entry not in own.entries]
    remarks = (f"No finished run here: {named(absent)}.",) if absent else ()
    if own.baseline != comparison.baseline:
        drawings = (overview(own, setting, look, name),)
        part = Part(f"{at}-curves", "Results", drawings, (comparison_tables.results_table(own),))
        return Section(at, setting, (part,), remarks)
    tables = comparison_tables
    parts = [
        Part(
            f"{at}-curves",
            "Learning curves",
            (overview(own, setting, look, name), *paired(own, setting, look, name)),
        ),
        Part(f"{at}-results", "Results", tables=(tables.results_table(own),)),
        Part(
            f"{at}-differences",
            "Paired differences",
            tuple(forests(own, setting, look, name)),
            (tables.differences_table(own), tables.bootstrap_table(own)),
        ),
        Part(f"{at}-score", "Task score", tables=tuple(tables.score_tables(own))),
        Part(f"{at}-families", "Families of tasks", tuple(families(own, setting, look, name)), (tables.family_table(own),)),
        Part(f"{at}-budgets", "Equal budgets", tables=(tables.budget_table(own),)),
        Part(f"{at}-reach", "The way to a level", tables=(tables.reach_table(own),)),
        Part(
            f"{at}-mechanism",
            "How credit came about",
            tuple(mechanism_figures(runs, setting, look, name)),
            tuple(mechanism_tables.mechanism_tables(runs)),
        ),
        Part(f"{at}-seeds", "Single seeds", tables=(tables.seeds_table(own),)),
    ]
    return Section(at, setting, tuple(kept for part in parts if (kept := _without_empty(part, setting))), remarks)


def _without_empty(part: Part, setting: str) -> Part | None:
    """The part without empty tables and the column that says the setting; None where nothing is left."""
    tables = tuple(without_setting(table, setting) for table in part.tables if table.rows)
    return replace(part, tables=tables) if tables or part.drawings else None


def _distinct(values: Iterator[str | None]) -> list[str]:
    found = [value for value in dict.fromkeys(values) if value]
    return found or ["not recorded"]


def _version(made: Facts) -> str:
    revision = revision_of(made) if made.get("revision") else "not recorded"
    return f"{made.get('creditlab') or 'version not recorded'}, revision {revision}"


def _packages(made: Facts) -> str:
    packages = made.get("packages") or {}
    listed = ", ".join(f"{name} {number}" for name, number in packages.items() if number)
    return f"Python {made.get('python') or 'not recorded'}" + (f"; {listed}" if listed else "")
