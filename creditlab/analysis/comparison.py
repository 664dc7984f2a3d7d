"""Entries compared head to head: everything that a report of their runs shows, from their curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, get_args

from creditlab.analysis.budget import CLOSE, BudgetMatch, match_budget
from creditlab.analysis.curves import LAST_K, Curve, Reached, final, last_k, normalised_auc, reach
from creditlab.analysis.pairing import Pairing, by_seed, pair
from creditlab.analysis.statistics import (
    BOOTSTRAP_MIN_SEEDS,
    Estimate,
    MeanSD,
    PairedDifference,
    interquartile_mean,
    mean_sd,
    paired_difference,
    probability_of_improvement,
)

Measure = Literal["last_k", "final", "auc"]
MEASURES: Final[tuple[Measure, ...]] = get_args(Measure)


@dataclass(frozen=True)
class Summary:
    """One measure of one entry in one setting over its seeds."""

    per_seed: Mapping[int, float]
    moments: MeanSD | None
    """None where no seed has a value."""
    iqm: Estimate | None
    """Interquartile mean with its interval; None below five seeds."""
    remarks: tuple[str, ...]
    """What was left out of it, or taken although short, and why."""


@dataclass(frozen=True)
class Difference:
    """One measure of an entry minus the baseline's in one setting, over the seeds at which they pair."""

    paired: PairedDifference | None
    """None where nothing can be compared; the remarks say why."""
    iqm: Estimate | None
    """Interquartile mean of the differences; None below five pairs, as the next."""
    improvement: Estimate | None
    """Probability that a run of the entry is better than one of the baseline."""
    remarks: tuple[str, ...]
    pairs: bool = True
    """Whether runs pair at any seed; where they do, `paired` is None because the measure is not defined for them."""

    @property
    def reading(self) -> str:
        """What the t interval allows to say."""
        if self.paired is None:
            return "not measured" if self.pairs else "not paired"
        interval = self.paired.interval
        if interval is None:
            return "no interval"
        return "covers zero" if interval.covers_zero else "above zero" if interval.low > 0 else "below zero"


@dataclass(frozen=True)
class Across:
    """The paired differences of an entry over several settings, each of which is a stratum of the bootstrap."""

    settings: tuple[str, ...]
    iqm: Estimate
    improvement: Estimate


@dataclass(frozen=True)
class Budgets:
    """The runs of an entry against the baseline's at equal budgets, and their differences there."""

    matches: tuple[BudgetMatch, ...]
    difference: PairedDifference | None
    """Of the means of the last evaluations up to the matched checkpoints."""
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Band:
    """A curve over seeds: mean and what is drawn around it; `low` and `high` are None where one seed gives no width."""

    updates: tuple[int, ...]
    mean: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    seeds: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Comparison:
    """Entries against a baseline, in one or more settings, at the same seeds.

    Raises ValueError without curves, for a baseline that has none, and for two curves of one entry, setting and seed.
    """

    curves: Sequence[Curve]
    baseline: str
    k: int = LAST_K
    """Evaluations in the mean at the end; a run with fewer has no such mean."""
    digits: int = 2
    """Decimals of its numbers in tables."""
    percent: bool = True
    """Whether its values are success in percent; otherwise they may be anything of which more is better."""

    def __post_init__(self) -> None:
        if self.k < 1:
            raise ValueError(f"the mean of the last {self.k} evaluations is not defined; take at least 1")
        if not self.curves:
            raise ValueError("nothing to compare: there are no curves")
        if self.baseline not in self.entries:
            raise ValueError(f"the baseline {self.baseline!r} has no curves; there are: {', '.join(self.entries)}")
        seen = set()
        for curve in self.curves:
            key = (curve.method, curve.setting, curve.seed)
            if key in seen:
                raise ValueError(f"{curve.name}: there are two curves; keep one")
            seen.add(key)

    @property
    def entries(self) -> list[str]:
        """The entries, in the order of their first curves."""
        return list(dict.fromkeys(curve.method for curve in self.curves))

    @property
    def challengers(self) -> list[str]:
        """The entries without the baseline."""
        return [entry for entry in self.entries if entry != self.baseline]

    @property
    def settings(self) -> list[str]:
        """The settings, in the order of their first curves."""
        return list(dict.fromkeys(curve.setting for curve in self.curves))

    @property
    def quantity(self) -> str:
        """What its values are, for an axis."""
        return "success (%)" if self.percent else "value"

    def families(self, setting: str) -> list[str]:
        """Every family of tasks that was evaluated in a setting, sorted."""
        return sorted({name for curve in self.curves if curve.setting == setting for name in curve.families})

    def within(self, setting: str) -> Comparison:
        """The same comparison in one setting; against the first entry there where the baseline has no runs in it."""
        curves = [curve for curve in self.curves if curve.setting == setting]
        there = any(curve.method == self.baseline for curve in curves)
        return replace(self, curves=curves, baseline=self.baseline if there else curves[0].method)

    @property
    def scores(self) -> Comparison | None:
        """The same comparison of task scores, in the settings where these say more than success; None without such."""
        told = {curve.setting for curve in self.curves if curve.score not in (None, curve.values)}
        curves = [
            replace(curve, values=curve.score, score=None, families={})
            for curve in self.curves
            if curve.setting in told and curve.score is not None
        ]
        return replace(self, curves=curves) if any(curve.method == self.baseline for curve in curves) else None

    def runs(self, entry: str, setting: str) -> dict[int, Curve]:
        """The curves of an entry in a setting by seed, rising."""
        found = {curve.seed: curve for curve in self.curves if (curve.method, curve.setting) == (entry, setting)}
        return dict(sorted(found.items()))

    def finished(self, entry: str, setting: str) -> dict[int, Curve]:
        """Those that reach the last update of the entry's longest run in the setting."""
        runs = self.runs(entry, setting)
        last = max((curve.updates[-1] for curve in runs.values()), default=0)
        return {seed: curve for seed, curve in runs.items() if curve.updates[-1] == last}

    def pairing(self, entry: str, setting: str, *, schedule: bool = True) -> Pairing:
        """Which seeds of an entry pair with the baseline's in a setting, and why others do not."""
        sides = (self.runs(entry, setting), self.runs(self.baseline, setting))
        return pair(*sides, (entry, self.baseline), schedule=schedule)

    def label(self, measure: Measure) -> str:
        """The measure's name in a heading: L5, final or AUC."""
        return {"last_k": f"L{self.k}", "final": "final", "auc": "AUC"}[measure]

    def summary(self, entry: str, setting: str, measure: Measure = "last_k", family: str = "") -> Summary:
        """A measure over the finished runs of an entry, within one family of tasks where one is named."""
        per_seed, remarks = self._values(entry, setting, measure, family)
        values = list(per_seed.values())
        seeds = {curve.seed for curve in self.curves if curve.setting == setting}
        found = by_seed(dict.fromkeys(seeds - self.runs(entry, setting).keys(), "no run") | remarks)
        ends = {curve.updates[-1] for curve in self.curves if curve.setting == setting}
        own = {curve.updates[-1] for curve in self.finished(entry, setting).values()}
        if own and max(ends) not in own:
            found.append(f"all runs end at update {own.pop()}, others in this setting at {max(ends)}")
        return Summary(per_seed, mean_sd(values) if values else None, _iqm([values]), tuple(found))

    def difference(self, entry: str, setting: str, measure: Measure = "last_k", family: str = "") -> Difference:
        """A measure of an entry minus the baseline's, seed by seed."""
        pairing = self.pairing(entry, setting)
        ours, why_not = self._values(entry, setting, measure, family)
        theirs, theirs_why_not = self._values(self.baseline, setting, measure, family)
        seeds = [seed for seed in pairing.seeds if seed in ours and seed in theirs]
        remarks = pairing.reasons()
        for name, reasons in ((entry, why_not), (self.baseline, theirs_why_not)):
            remarks += [f"{name}, {text}" for text in by_seed({s: why for s, why in reasons.items() if s in pairing.seeds})]
        if not seeds:
            nothing = f"is not paired with {self.baseline}"
            if pairing.seeds:
                nothing = f"and {self.baseline} do not both have {self.label(measure)}"
            return Difference(None, None, None, (f"{entry} {nothing} at any seed", *remarks), pairs=bool(pairing.seeds))
        ours, theirs = ({seed: side[seed] for seed in seeds} for side in (ours, theirs))
        paired = paired_difference(ours, theirs)
        enough = len(seeds) >= BOOTSTRAP_MIN_SEEDS
        improvement = probability_of_improvement([[*ours.values()]], [[*theirs.values()]]) if enough else None
        remarks += [paired.no_interval] * (not paired.interval)
        return Difference(paired, _iqm([list(paired.per_seed.values())]), improvement, tuple(remarks))

    def across(self, entry: str, measure: Measure = "last_k") -> Across | None:
        """Differences over all settings with five pairs or more, stratified by setting; None unless there are two such."""
        strata: dict[str, tuple[list[float], list[float]]] = {}
        for setting in self.settings:
            paired = self.difference(entry, setting, measure).paired
            if paired and len(paired.per_seed) >= BOOTSTRAP_MIN_SEEDS:
                sides = (self._values(name, setting, measure, "")[0] for name in (entry, self.baseline))
                ours, theirs = ([side[seed] for seed in paired.per_seed] for side in sides)
                strata[setting] = (ours, theirs)
        if len(strata) < 2:
            return None
        differences = [[x - y for x, y in zip(*sides, strict=True)] for sides in strata.values()]
        firsts, seconds = zip(*strata.values(), strict=True)
        return Across(tuple(strata), interquartile_mean(differences), probability_of_improvement(firsts, seconds))

    def budgets(self, entry: str, setting: str) -> Budgets:
        """An entry against the baseline at equal numbers of environment transitions, seed by seed.

        Only finished runs that share panel, warm start and task order are matched; their schedules may differ.
        """
        pairing = self.pairing(entry, setting, schedule=False)
        sides = (self.finished(entry, setting), self.finished(self.baseline, setting))
        matches, remarks = [], {}
        for seed in pairing.seeds:
            if not all(seed in side for side in sides):
                remarks[seed] = "a run did not finish"
                continue
            try:
                match = match_budget(sides[0][seed], sides[1][seed], self.k)
            except ValueError as error:
                remarks[seed] = _without_name(error, sides[0][seed], sides[1][seed])
                continue
            matches.append(match)
            far = "" if match.close else f"the nearest checkpoints' budgets differ by more than {100 * CLOSE:g} %"
            if far or match.lacking:
                remarks[seed] = "; ".join(filter(None, (far, match.lacking)))
        tails = {match.seed: match.tails for match in matches if match.tails}
        ours, theirs = ({seed: found[side] for seed, found in tails.items()} for side in (0, 1))
        difference = paired_difference(ours, theirs) if tails else None
        return Budgets(tuple(matches), difference, (*pairing.reasons(), *by_seed(remarks)))

    def reaching(self, entry: str, setting: str, level: float, *, held: bool = False) -> dict[int, Reached | None]:
        """Where each finished run first reaches a level, or reaches and holds it; None for one that never does."""
        return {seed: reach(curve, level, held=held) for seed, curve in self.finished(entry, setting).items()}

    def baseline_level(self, setting: str) -> float | None:
        """What the baseline ends with: its mean over the last evaluations and seeds; None where that is not defined."""
        moments = self.summary(self.baseline, setting).moments
        return moments.mean if moments else None

    def band(self, entry: str, setting: str) -> Band | None:
        """The learning curve of an entry: mean ± sample SD of its finished runs; None without any.

        Where their schedules differ, only the updates that all of them were evaluated at.
        """
        return _band({seed: _points(curve) for seed, curve in self.finished(entry, setting).items()}, _deviation)

    def difference_band(self, entry: str, setting: str) -> Band | None:
        """The paired difference to the baseline over updates with its t interval at each; None where nothing pairs."""
        return _band(self.seed_differences(entry, setting), _confidence)

    def seed_differences(self, entry: str, setting: str) -> dict[int, dict[int, float]]:
        """The paired difference to the baseline by seed and update, of the finished runs that pair."""
        sides = (self.finished(entry, setting), self.finished(self.baseline, setting))
        found = {}
        for seed in self.pairing(entry, setting).seeds:
            if all(seed in side for side in sides):
                ours, theirs = (_points(side[seed]) for side in sides)
                found[seed] = {update: ours[update] - theirs[update] for update in ours}
        return found

    def _values(self, entry: str, setting: str, measure: Measure, family: str) -> tuple[dict[int, float], dict[int, str]]:
        """The measure by seed, and a remark by seed where it was left out."""
        values, remarks = {}, {}
        finished = self.finished(entry, setting)
        for seed, run in self.runs(entry, setting).items():
            if seed not in finished:
                end = max(curve.updates[-1] for curve in finished.values())
                remarks[seed] = f"left out, the run ends at update {run.updates[-1]} of {end}"
            elif family and family not in run.families:
                remarks[seed] = f"left out, the family {family} was not evaluated"
            else:
                curve = run.family(family) if family else run
                try:
                    values[seed] = self._measured(curve, measure)
                except ValueError as error:
                    remarks[seed] = f"left out, {_without_name(error, curve)}"
        return values, remarks

    def _measured(self, curve: Curve, measure: Measure) -> float:
        if measure == "last_k":
            return last_k(curve, self.k)
        return final(curve) if measure == "final" else normalised_auc(curve)


def _iqm(strata: Sequence[Sequence[float]]) -> Estimate | None:
    return interquartile_mean(strata) if min(map(len, strata)) >= BOOTSTRAP_MIN_SEEDS else None


def _without_name(error: ValueError, *curves: Curve) -> str:
    """The message without the name of the curve, which stands beside it already."""
    text = str(error)
    for curve in curves:
        text = text.removeprefix(f"{curve.name}: ")
    return text


def _points(curve: Curve) -> dict[int, float]:
    return dict(zip(curve.updates, curve.values, strict=True))


def _deviation(values: Mapping[int, float]) -> tuple[float, float] | None:
    """Mean ± sample SD, which is what bands of learning curves show."""
    moments = mean_sd(list(values.values()))
    return None if moments.sd is None else (moments.mean - moments.sd, moments.mean + moments.sd)


def _confidence(differences: Mapping[int, float]) -> tuple[float, float] | None:
    """The t interval of differences that were taken already; without width where all seeds have the same, as at the start."""
    found = paired_difference(differences, dict.fromkeys(differences, 0.0))
    if found.interval:
        return found.interval.low, found.interval.high
    return None if found.sd is None else (found.mean, found.mean)


def _band(
    runs: Mapping[int, Mapping[int, float]], width: Callable[[Mapping[int, float]], tuple[float, float] | None]
) -> Band | None:
    """Mean over seeds at every update that all runs have, and `width` of the values there; None without runs."""
    if not runs:
        return None
    updates = sorted(set.intersection(*(set(points) for points in runs.values())))
    values = [{seed: points[update] for seed, points in runs.items()} for update in updates]
    widths = [edges for at in values if (edges := width(at)) is not None]
    return Band(
        tuple(updates),
        tuple(mean_sd(list(at.values())).mean for at in values),
        tuple(low for low, _ in widths) or None,
        tuple(high for _, high in widths) or None,
        tuple(runs),
    )
