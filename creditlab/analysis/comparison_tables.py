"""A comparison as tables for people and as plain rows for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from creditlab.analysis.comparison import MEASURES, Comparison, Difference, Measure, Summary
from creditlab.analysis.statistics import (
    BOOTSTRAP_MIN_SEEDS,
    BOOTSTRAP_RESAMPLES,
    BOOTSTRAP_SEED,
    CONFIDENCE,
    IMPROVEMENT_RESAMPLED,
    IQM_RESAMPLED,
    Estimate,
)
from creditlab.analysis.tables import NOTHING, Table, shown, shown_interval, shown_mean

_SECONDS: Final = (
    "Seconds depend on the machine and on what else it did. Those of creditlab's runs are of training updates alone: without "
    "the warm start, evaluations, and what was repeated after a run was killed."
)

_NO_AREA: Final = "AUC: every run has one evaluation, which has no area; it needs two"


def tables(comparison: Comparison) -> list[Table]:
    """Every table of a report, in its order, without those that would be empty."""
    found = [
        results_table(comparison),
        differences_table(comparison),
        bootstrap_table(comparison),
        *score_tables(comparison),
        family_table(comparison),
        budget_table(comparison),
        reach_table(comparison),
        seeds_table(comparison),
        pairing_table(comparison),
    ]
    return [table for table in found if table.rows]


def results_table(comparison: Comparison) -> Table:
    """Every measure of every entry: mean ± sample SD over seeds."""
    rows, notes = [], []
    for setting, entry in _places(comparison, comparison.entries):
        found = {measure: comparison.summary(entry, setting, measure) for measure in MEASURES}
        counts = {len(summary.per_seed) for summary in found.values()}
        cells = [_mean(summary, comparison.digits) for summary in found.values()]
        rows.append((setting, entry, *cells, str(max(counts))))
        told = [summary for measure, summary in found.items() if not _said_once(comparison, measure)]
        notes += _notes(setting, entry, [remark for summary in told for remark in summary.remarks])
    if _said_once(comparison, "auc"):
        notes.append(_NO_AREA)
    columns = ("setting", "entry", *map(comparison.label, MEASURES), "seeds")
    return Table("Results, mean ± sample SD over seeds", columns, tuple(rows), tuple(notes))


def differences_table(comparison: Comparison) -> Table:
    """Paired differences to the baseline with their t intervals and what these allow to say."""
    rows, notes = [], []
    for setting, entry in _places(comparison, comparison.challengers):
        remarks: list[str] = []
        for measure in MEASURES:
            found = comparison.difference(entry, setting, measure)
            remarks += () if _said_once(comparison, measure) else found.remarks
            rows.append((setting, entry, comparison.label(measure), *_difference(found, comparison.digits)))
        notes += _notes(setting, entry, remarks)
    columns = ("setting", "entry", "measure", "difference", "95 % interval", "pairs", "the interval")
    title = f"Paired differences to {comparison.baseline} with 95 % Student-t intervals"
    return Table(title, columns, tuple(rows), tuple(notes), labels=3)


def score_tables(comparison: Comparison) -> list[Table]:
    """Results and paired differences of the task score, for settings in which it says more than success."""
    scores = comparison.scores
    if scores is None:
        return []
    results, differences = results_table(scores), differences_table(scores)
    return [
        replace(results, title="Task score, mean ± sample SD over seeds"),
        replace(differences, title=f"Task score, paired differences to {comparison.baseline} with 95 % Student-t intervals"),
    ]


def bootstrap_table(comparison: Comparison) -> Table:
    """Interquartile means and probabilities of improvement with bootstrap intervals, where there are five pairs."""
    rows = []
    for setting, entry in _places(comparison, comparison.entries):
        for measure in MEASURES:
            summary = comparison.summary(entry, setting, measure)
            estimates: list[Estimate | None] = [summary.iqm, None, None]
            if entry != comparison.baseline:
                versus = comparison.difference(entry, setting, measure)
                estimates[1:] = [versus.iqm, versus.improvement]
            if any(estimates):
                rows.append((setting, entry, comparison.label(measure), *_estimates(estimates, comparison.digits)))
    for entry in comparison.challengers:
        for measure in MEASURES:
            across = comparison.across(entry, measure)
            if across:
                cells = _estimates([None, across.iqm, across.improvement], comparison.digits)
                rows.append((" + ".join(across.settings), entry, comparison.label(measure), *cells))
    columns = ("setting", "entry", "measure", "IQM", "IQM of differences", "P(better than baseline)")
    notes = (
        f"IQM: resampled are {IQM_RESAMPLED}.",
        f"Probability of improvement, ties counted half: resampled are {IMPROVEMENT_RESAMPLED}.",
        f"Percentile intervals, {100 * CONFIDENCE:g} %, {BOOTSTRAP_RESAMPLES} resamples, generator seed {BOOTSTRAP_SEED}.",
    )
    return Table(f"Bootstrap intervals against {comparison.baseline}", columns, tuple(rows), notes, labels=3)


def family_table(comparison: Comparison) -> Table:
    """The mean at the end within each family of tasks, and its paired difference.

    Its notes name what was left out of a family alone; the tables of results and differences name the rest.
    """
    rows, notes = [], []
    for setting in comparison.settings:
        for family in comparison.families(setting):
            for entry in _present(comparison, setting, comparison.entries):
                summary = comparison.summary(entry, setting, family=family)
                cells: Sequence[str] = (NOTHING,) * 3
                remarks = {*summary.remarks} - {*comparison.summary(entry, setting).remarks}
                if entry != comparison.baseline:
                    cells = _difference(comparison.difference(entry, setting, family=family), comparison.digits)[:3]
                rows.append((setting, family, entry, _mean(summary, comparison.digits), *cells))
                notes += _notes(f"{setting}, {family}", entry, sorted(remarks))
    columns = ("setting", "family", "entry", comparison.label("last_k"), "difference", "95 % interval", "pairs")
    title = f"Families of tasks, differences to {comparison.baseline}"
    return Table(title, columns, tuple(rows), tuple(notes), labels=3)


def budget_table(comparison: Comparison) -> Table:
    """Every pair of runs at equal environment transitions, and the difference over seeds."""
    rows, notes = [], []
    digits = comparison.digits
    for setting, entry in _places(comparison, comparison.challengers):
        budgets = comparison.budgets(entry, setting)
        for match in budgets.matches:
            there, difference = NOTHING, NOTHING
            if match.tails:
                there = " / ".join(shown(tail, digits) for tail in match.tails)
                difference = shown(match.tails[0] - match.tails[1], digits, signed=True)
            rows.append(
                (
                    setting,
                    entry,
                    str(match.seed),
                    " / ".join(map(str, match.updates)),
                    " / ".join(map(str, match.transitions)),
                    f"{100 * match.gap:.3f} %",
                    there,
                    difference,
                )
            )
        notes += _notes(setting, entry, budgets.remarks)
        if budgets.difference:
            mean, interval = budgets.difference.mean, budgets.difference.interval
            text = f"{shown(mean, digits, signed=True)} {shown_interval(interval, digits) if interval else ''}"
            notes.append(f"{setting}, {entry}: mean difference {text.strip()}{_because(budgets.difference.no_interval)}")
    last = comparison.label("last_k")
    columns = ("setting", "entry", "seed", "updates", "transitions", "gap", f"{last} there", "difference")
    title = f"Equal environment transitions, entry / {comparison.baseline}"
    return Table(title, columns, tuple(rows), tuple(notes), labels=2)


def reach_table(comparison: Comparison) -> Table:
    """Where each run first reaches, and where it reaches and holds, what the baseline ends with."""
    rows = []
    digits = comparison.digits
    for setting, entry in _places(comparison, comparison.entries):
        level = comparison.baseline_level(setting)
        if level is None:
            continue
        held = comparison.reaching(entry, setting, level, held=True)
        for seed, first in comparison.reaching(entry, setting, level).items():
            kept = held[seed]
            cells = (NOTHING,) * 3
            if first:
                cells = (str(first.update), shown(first.transitions, 0), shown(first.seconds, 0))
            rows.append((setting, entry, shown(level, digits), str(seed), *cells, str(kept.update) if kept else NOTHING))
    columns = ("setting", "entry", "level", "seed", "update", "transitions", "seconds", "held from update")
    last = comparison.label("last_k")
    title = f"First evaluation at or above the level at which {comparison.baseline} ends ({last})"
    return Table(title, columns, tuple(rows), (_SECONDS,) if rows else (), labels=2)


def seeds_table(comparison: Comparison) -> Table:
    """Every value of every seed, with its difference to the baseline's."""
    rows = []
    digits = comparison.digits
    for setting, entry in _places(comparison, comparison.entries):
        for measure in MEASURES:
            paired = comparison.difference(entry, setting, measure).paired if entry != comparison.baseline else None
            for seed, value in comparison.summary(entry, setting, measure).per_seed.items():
                difference = paired.per_seed.get(seed) if paired else None
                cells = (shown(value, digits), shown(difference, digits, signed=True))
                rows.append((setting, entry, comparison.label(measure), str(seed), *cells))
    columns = ("setting", "entry", "measure", "seed", "value", "difference")
    return Table(f"Values by seed, differences to {comparison.baseline}", columns, tuple(rows), labels=3)


def pairing_table(comparison: Comparison) -> Table:
    """Which seeds pair with the baseline's, which do not and why, and what could not be checked."""
    rows = []
    for setting, entry in _places(comparison, comparison.challengers):
        found = comparison.pairing(entry, setting)
        seeds = ", ".join(map(str, found.seeds)) or NOTHING
        why = "; ".join(found.reasons()) or NOTHING
        rows.append((setting, entry, seeds, why, ", ".join(found.unknown) or NOTHING))
    columns = ("setting", "entry", "paired seeds", "not paired", "not recorded, so not checked")
    return Table(f"Pairing with {comparison.baseline}", columns, tuple(rows), labels=5)


def plain_rows(comparison: Comparison) -> list[dict[str, Any]]:
    """One flat record for every setting, entry, measure and family ("" for all tasks): numbers, and None for none.

    Measures of the task score are named so; the others are of success.
    """
    of_scores = _rows(comparison.scores) if comparison.scores else []
    return [*_rows(comparison), *({**row, "measure": f"score, {row['measure']}"} for row in of_scores)]


def _rows(comparison: Comparison) -> list[dict[str, Any]]:
    found = []
    for setting, entry in _places(comparison, comparison.entries):
        kinds: list[tuple[Measure, str]] = [(measure, "") for measure in MEASURES]
        kinds += [("last_k", family) for family in comparison.families(setting)]
        for measure, family in kinds:
            record: dict[str, Any] = {"setting": setting, "entry": entry, "measure": comparison.label(measure)}
            record |= {"family": family, **_numbers(comparison.summary(entry, setting, measure, family))}
            if entry != comparison.baseline:
                record |= _paired_numbers(comparison.difference(entry, setting, measure, family))
            found.append(record)
    return found


def as_record(comparison: Comparison) -> dict[str, Any]:
    """Everything the tables show as plain data, for JSON."""
    return {
        "baseline": comparison.baseline,
        "entries": comparison.entries,
        "settings": comparison.settings,
        "last_k": comparison.k,
        "confidence": CONFIDENCE,
        "bootstrap": {
            "resamples": BOOTSTRAP_RESAMPLES,
            "seed": BOOTSTRAP_SEED,
            "least_seeds": BOOTSTRAP_MIN_SEEDS,
            "iqm": IQM_RESAMPLED,
            "improvement": IMPROVEMENT_RESAMPLED,
        },
        "results": plain_rows(comparison),
        "budgets": [
            {"setting": setting, "entry": entry, **asdict(comparison.budgets(entry, setting))}
            for setting, entry in _places(comparison, comparison.challengers)
        ],
        "pairing": [
            {"setting": setting, "entry": entry, **asdict(comparison.pairing(entry, setting))}
            for setting, entry in _places(comparison, comparison.challengers)
        ],
    }


def _places(comparison: Comparison, entries: Sequence[str]) -> list[tuple[str, str]]:
    """Every setting with each of the entries that has runs there."""
    return [(setting, entry) for setting in comparison.settings for entry in _present(comparison, setting, entries)]


def _present(comparison: Comparison, setting: str, entries: Sequence[str]) -> list[str]:
    return [entry for entry in entries if comparison.runs(entry, setting)]


def _mean(summary: Summary, digits: int) -> str:
    return shown_mean(summary.moments, digits) if summary.moments else NOTHING


def _difference(found: Difference, digits: int) -> tuple[str, str, str, str]:
    if found.paired is None:
        return NOTHING, NOTHING, "0", found.reading
    mean, interval = found.paired.mean, found.paired.interval
    return shown(mean, digits, signed=True), shown_interval(interval, digits), str(len(found.paired.per_seed)), found.reading


def _estimates(estimates: Sequence[Estimate | None], digits: int) -> list[str]:
    """Interquartile mean, that of the differences, and probability of improvement, with their intervals."""
    return [
        f"{shown(estimate.value, digits, signed=signed)} {shown_interval(estimate.interval, digits, signed=signed)}"
        if estimate
        else NOTHING
        for estimate, signed in zip(estimates, (False, True, False), strict=True)
    ]


def _notes(place: str, entry: str, remarks: Sequence[str]) -> list[str]:
    return [f"{place}, {entry}: {remark}" for remark in dict.fromkeys(remarks)]


def _said_once(comparison: Comparison, measure: Measure) -> bool:
    """Whether no run at all has what the measure needs: one note says so, not one of every entry."""
    return measure == "auc" and all(len(curve.values) == 1 for curve in comparison.curves)


def _because(reason: str) -> str:
    return f" ({reason})" if reason else ""


def _numbers(summary: Summary) -> dict[str, Any]:
    moments = summary.moments
    return {
        "seeds": len(summary.per_seed),
        "mean": moments.mean if moments else None,
        "sd": moments.sd if moments else None,
        **_interval_numbers("iqm", summary.iqm),
        "per_seed": {str(seed): value for seed, value in summary.per_seed.items()},
        "remarks": list(summary.remarks),
    }


def _paired_numbers(found: Difference) -> dict[str, Any]:
    paired = found.paired
    interval = paired.interval if paired else None
    return {
        "pairs": len(paired.per_seed) if paired else 0,
        "difference": paired.mean if paired else None,
        "difference_sd": paired.sd if paired else None,
        "difference_low": interval.low if interval else None,
        "difference_high": interval.high if interval else None,
        "reading": found.reading,
        **_interval_numbers("difference_iqm", found.iqm),
        **_interval_numbers("improvement", found.improvement),
        "difference_per_seed": {str(seed): value for seed, value in paired.per_seed.items()} if paired else {},
        "difference_remarks": list(found.remarks),
    }


def _interval_numbers(name: str, estimate: Estimate | None) -> dict[str, float | None]:
    interval = estimate.interval if estimate else None
    return {
        name: estimate.value if estimate else None,
        f"{name}_low": interval.low if interval else None,
        f"{name}_high": interval.high if interval else None,
    }
