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
_HASH: Final = 10
"""Letters of a hash in a sentence."""
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
    "sources": "uncommitted changes of the code",
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
    runs = facts.get("runs", ())
    return [*found, *_other_code(runs), *_other_plugins(runs)]


def _other_code(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether something else than the entries may have made a difference: the code of the runs."""
    found = []
    for setting in dict.fromkeys(run["setting"] for run in runs):
        made = [run.get("made_with") or {} for run in runs if run["setting"] == setting]
        other = [name for key, name in _CODE.items() if _differs(key, made)]
        if other:
            found.append(f"Runs of {setting} were made with other {named(other)}, which may make a difference too.")
    revisions = {revision_of(run.get("made_with") or {}) for run in runs if _modified(run.get("made_with") or {})}
    if revisions:
        found.append(f"The revision does not say what ran: the code had changes of its own ({named(sorted(revisions))}).")
    return found


def _differs(key: str, made: Sequence[Mapping[str, Any]]) -> bool:
    """Whether runs were made with different code; the hash of changes counts where changes were, and were hashed."""
    found = [one.get(key) for one in made]
    if key == "sources":
        found = [value for value in found if value]
    return any(value != found[0] for value in found)


def _modified(made: Mapping[str, Any]) -> bool:
    return str(made.get("revision")).endswith("-modified")


def revision_of(made: Mapping[str, Any]) -> str:
    """The revision of the code that made a run; of a changed one with the hash of its sources where that was recorded."""
    sources = f", sources {str(made['sources'])[:_HASH]}" if made.get("sources") else ""
    return f"{made.get('revision')}{sources}"


def _other_plugins(runs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whether the code of a plug-in was not the same for all runs that it takes part in, or is another one by now."""
    found = []
    for plugin in sorted({name for run in runs for name in run.get("plugin_code", ())}):
        own = {_run(run): run["plugin_code"][plugin] for run in runs if plugin in run.get("plugin_code", ())}
        made: dict[tuple[str, ...], list[str]] = {}
        for run, code in own.items():
            made.setdefault(tuple(code["made_with"]), []).append(run)
        if len(made) > 1 or any(len(marks) > 1 for marks in made):
            by_code = "; ".join(f"{few(of)} with {', then '.join(m[:_HASH] for m in marks)}" for marks, of in made.items())
            found.append(
                f"Runs were made with different code of the plug-in {plugin}, which may make a difference too: {by_code}."
            )
        old = [run for run, code in own.items() if code["installed"] and code["made_with"] != [code["installed"]]]
        if old:
            found.append(
                f"The code of the plug-in {plugin} that is installed now is not the one that made {few(old)}. To have a run "
                "made again, remove its folder and its record."
            )
    return found


def _run(run: Mapping[str, Any]) -> str:
    return f"{run['setting']} · {run['entry']} · seed {run['seed']}"


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
