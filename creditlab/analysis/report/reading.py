"""The findings of a comparison in words: no more than the intervals allow to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from creditlab.analysis.comparison import Comparison, Difference
from creditlab.analysis.statistics import BOOTSTRAP_MIN_SEEDS, NO_SPREAD, ONE_SEED
from creditlab.analysis.tables import short, shown, shown_interval, shown_mean

LONGEST_NAME: Final = 60
"""Letters of a name where there is little room: in titles and on a terminal."""
_FEW: Final = 6
_VERDICTS: Final[Mapping[str, str]] = {
    "above zero": "Better than {baseline}, the whole interval above zero",
    "below zero": "Worse than {baseline}, the whole interval below zero",
    "covers zero": "Not told apart from {baseline}, the interval covers zero",
    "no interval": "No interval, so no finding",
    "not measured": "Not compared with {baseline}, for no pair of runs has {label}",
    "not paired": "Not paired with {baseline}, so not compared",
}
"""What the interval of an entry allows to say, in the order of the page."""
_CODE: Final[Mapping[str, str]] = {
    "creditlab": "versions of creditlab",
    "revision": "revisions of the code",
    "python": "versions of Python",
    "packages": "packages",
}
"""What ran, by key of the versions that made a run."""


@dataclass(frozen=True)
class Finding:
    """Entries of one setting about which the same can be said, each with its numbers."""

    verdict: str
    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Reading:
    """One setting in a few words."""

    setting: str
    lead: str
    findings: tuple[Finding, ...]


def read_setting(comparison: Comparison, setting: str) -> Reading:
    """What the primary measure says in a setting."""
    label, baseline = comparison.label("last_k"), comparison.baseline
    found = {
        entry: comparison.difference(entry, setting) for entry in comparison.challengers if comparison.runs(entry, setting)
    }
    findings = []
    for reading, verdict in _VERDICTS.items():
        entries = [(entry, _numbers(one, comparison.digits)) for entry, one in found.items() if one.reading == reading]
        if entries:
            findings.append(Finding(verdict.format(baseline=baseline, label=label), tuple(entries)))
    own = comparison.summary(baseline, setting)
    if own.moments:
        level = shown_mean(own.moments, comparison.digits) + (" %" if comparison.percent else "")
        lead = f"{baseline} ends at {level} ({label}, {_seeds(own.moments.count)})."
    elif comparison.runs(baseline, setting):
        lead = f"{baseline} has no {label} here: {'; '.join(own.remarks)}."
    else:
        lead = f"No run of {baseline} is finished here, so nothing can be compared with it."
    return Reading(setting, lead, tuple(findings))


def cautions(comparison: Comparison, facts: Mapping[str, Any]) -> list[str]:
    """What a reader must know before believing the differences."""
    found = []
    pairs = [
        (comparison.difference(entry, setting), entry, setting)
        for setting in comparison.settings
        for entry in comparison.challengers
        if comparison.runs(entry, setting)
    ]
    counts = {len(one.paired.per_seed) for one, *_ in pairs if one.paired}
    without = {one.paired.no_interval for one, *_ in pairs if one.paired}
    if ONE_SEED in without:
        found.append("One seed gives no interval: a difference between two runs of one seed may be chance alone.")
    if NO_SPREAD in without:
        found.append("Differences that are equal at all seeds give no interval: a few equal numbers are no certainty.")
    if 2 in (len(one.paired.per_seed) for one, *_ in pairs if one.paired and one.paired.interval):
        found.append("An interval from two seeds rests on one degree of freedom (t = 12.71) and says little.")
    if counts and max(counts) < BOOTSTRAP_MIN_SEEDS:
        found.append(f"No bootstrap intervals are given below {BOOTSTRAP_MIN_SEEDS} seeds.")
    intervals = sum(bool(one.paired and one.paired.interval) for one, *_ in pairs)
    if intervals > 1:
        found.append(
            f"The {intervals} intervals of {comparison.label('last_k')} are not adjusted for their number, and there are "
            "more in the tables: even if no entry differed from the baseline, each would miss zero with a probability of 5 %."
        )
    if any(one.reading == "covers zero" for one, *_ in pairs):
        found.append("An interval that covers zero does not show that two entries are equal.")
    unfinished = facts.get("unfinished", ())
    if unfinished:
        some = "1 planned run is" if len(unfinished) == 1 else f"{len(unfinished)} planned runs are"
        found.append(f"{some} not finished and left out; see Runs.")
    broken = sum(not comparison.pairing(entry, setting).complete for _, entry, setting in pairs)
    if broken:
        found.append("Not every seed pairs with the baseline's; the notes on the differences say which and why.")
    unknown = sorted({name for _, entry, setting in pairs for name in comparison.pairing(entry, setting).unknown})
    if unknown:
        found.append(f"Not recorded, so not checked: whether {', '.join(unknown)} are the same.")
    return [*found, *_other_code(facts.get("runs", ()))]


def _other_code(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether something else than the entries may have made a difference: the code of the runs."""
    found = []
    for setting in dict.fromkeys(run["setting"] for run in runs):
        made = [run.get("made_with") or {} for run in runs if run["setting"] == setting]
        other = [name for key, name in _CODE.items() if any(one.get(key) != made[0].get(key) for one in made)]
        if other:
            found.append(f"Runs of {setting} were made with other {named(other)}, which may make a difference too.")
    revisions = sorted({str((run.get("made_with") or {}).get("revision")) for run in runs})
    modified = [revision for revision in revisions if revision.endswith("-modified")]
    if modified:
        found.append(f"The revision does not say what ran: the code had changes of its own ({named(modified)}).")
    return found


def _numbers(found: Difference, digits: int) -> str:
    if found.paired is None:
        return "; ".join(found.remarks[1:] or found.remarks)
    mean, interval = shown(found.paired.mean, digits, signed=True), found.paired.interval
    if interval is None:
        return f"{mean}, {found.paired.no_interval}"
    return f"{mean} {shown_interval(interval, digits)}, {_seeds(len(found.paired.per_seed))}"


def _seeds(count: int) -> str:
    return f"{count} seed{'s' * (count != 1)}"


def few(names: Sequence[str]) -> str:
    """Names in a row where they are few, else the first one and a count; each on one line, cut in the middle where long."""
    shown = [short(name, LONGEST_NAME, 1) for name in names]
    return named(shown if len(names) <= _FEW else [shown[0], f"{len(names) - 1} others"])


def named(names: Sequence[str]) -> str:
    """Names in a row: a, b and c."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
