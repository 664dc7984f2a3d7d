"""Checks that every credit method must pass, first-party or not.

@pytest.mark.parametrize("check", METHOD_CHECKS.values(), ids=METHOD_CHECKS)
def test_conformance(check):
    check(lambda: MyMethod(match=Observation()))
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from creditlab.credit.types import Auxiliary, Credit, Feature, Method
from creditlab.rollouts import Group, Rows, State, StopReason, Trajectory
from creditlab.testing.builders import move, random_groups, siblings, state, walk

T = TypeVar("T")
MakeMethod = Callable[[], Method]
Check = Callable[[MakeMethod], None]
Decision = tuple[str, int]
"""Trajectory name and turn: what stays the same when rows are renumbered."""

REWARDS = (10.0, 9.9, 0.7, 0.35, 0.1, 0.0)
SAMPLES = 8
"""Random batches per check."""
START = state("A", rubric={"goal_progress": (0, 2)})
MIDDLE = state("B", rubric={"goal_progress": (1, 2)})
"""Two states that no match rule takes for one."""
OFF = 0.25
"""Standard deviation of the noise of `featured`, of directions with deviation 1; most are then about 0.05 apart in cosine."""


@dataclass(frozen=True)
class AuxiliaryOnly:
    """An auxiliary loss as a method without advantages, so that the same checks apply."""

    auxiliary: Auxiliary

    def __call__(self, rows: Rows) -> Credit:
        """Zero advantages [N] and the loss."""
        loss, diagnostics = self.auxiliary(rows)
        return Credit(np.zeros(len(rows)), (loss,), diagnostics)


@dataclass(frozen=True)
class Named:
    """A credit by names of decisions instead of row numbers."""

    advantages: Mapping[Decision, float]
    pairs: frozenset[tuple[str, Decision, Decision]]

    def of(self, groups: Sequence[Group]) -> Named:
        """The part that belongs to the trajectories of the given groups."""
        names = {t.id for g in groups for t in g.trajectories}
        return Named(
            {d: a for d, a in self.advantages.items() if d[0] in names},
            frozenset(p for p in self.pairs if p[1][0] in names),
        )


def check_method(make: MakeMethod, *, scope: str = "group", normalises: str = "state") -> None:
    """Runs every check that applies.

    `scope="update"` leaves out those that only hold for methods of scope `group`; `normalises="task"` those that only hold
    where decisions in different states are never compared.
    """
    for name, check in METHOD_CHECKS.items():
        if (scope == "group" or name not in GROUP_SCOPE) and (normalises == "state" or name not in STATE_LOCAL):
            check(make)


def credit_of(make: MakeMethod, groups: Sequence[Group]) -> Named:
    """The credit of a batch by names, checked for shape and finiteness."""
    rows = Rows.from_groups(groups)
    credit = make()(rows)
    check_shape(rows, credit)
    decision = [(rows.trajectory_names[m], int(t)) for m, t in zip(rows.trajectory, rows.turn, strict=True)]
    pairs = {(loss.name, decision[a], decision[b]) for loss in credit.auxiliary for a, b in loss.pairs.tolist()}
    return Named(dict(zip(decision, credit.advantages.tolist(), strict=True)), frozenset(pairs))


def featured(make: MakeMethod, groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups with every feature that the method asks for, in 8 dimensions: a direction per observation.

    It is off by a little at every turn, so that decisions in one state are near each other without being equal.
    """
    names = sorted(feature.name for feature in required(make()))
    if not names:
        return tuple(groups)

    def hidden(state: State, turn: int) -> NDArray[np.float32]:
        seed = list(state.views["observation"].encode())
        direction, off = (np.random.default_rng(s).normal(size=8) for s in (seed, [*seed, turn + 1]))
        return (direction + OFF * off).astype(np.float32)

    def walked(trajectory: Trajectory) -> Trajectory:
        steps = (
            replace(s, features=dict.fromkeys(names, hidden(trajectory.states[s.turn], s.turn))) for s in trajectory.steps
        )
        return replace(trajectory, steps=tuple(steps))

    return tuple(replace(g, trajectories=tuple(map(walked, g.trajectories))) for g in groups)


def required(component: object) -> set[Feature]:
    """The features that a component or one of its parts asks the loop for."""
    own = {feature for feature in getattr(component, "requires", ()) if isinstance(feature, Feature)}
    parts = [getattr(component, f.name) for f in fields(component)] if is_dataclass(component) else []
    return own.union(*(required(part) for part in parts if is_dataclass(part)))


def check_shape(rows: Rows, credit: Credit) -> None:
    """One finite float64 advantage per decision, pairs of distinct trained decisions, finite diagnostics."""
    assert credit.advantages.shape == (len(rows),), f"{credit.advantages.shape} advantages for {len(rows)} decisions"
    assert credit.advantages.dtype == np.float64, f"advantages are {credit.advantages.dtype}, not float64"
    bad = np.flatnonzero(~np.isfinite(credit.advantages))
    assert not bad.size, f"advantage {credit.advantages[bad[0]]} at {rows.describe(int(bad[0]))}"
    assert not credit.advantages[~rows.trainable].any(), "a decision without trained tokens got an advantage"
    for loss in credit.auxiliary:
        assert loss.pairs.shape[1:] == (2,), f"pairs of {loss.name} have shape {loss.pairs.shape}, not [K, 2]"
        assert rows.trainable[loss.pairs].all(), f"{loss.name} pairs a decision without trained tokens"
        assert np.equal(rows.group[loss.pairs[:, 0]], rows.group[loss.pairs[:, 1]]).all(), "a pair crosses task groups"
    for key, value in credit.diagnostics.items():
        assert np.isfinite(value), f"diagnostic {key!r} is {value}"


def shapes(make: MakeMethod) -> None:
    """Lengths and finiteness on random batches, and on an update whose every trajectory failed to run."""
    for groups in _batches(make):
        credit_of(make, groups)
    broken = walk(move("A", "go"), error="the engine timed out")
    credit_of(make, featured(make, [siblings("g", broken, broken)]))


def determinism(make: MakeMethod) -> None:
    """The same rows give the same credit, bit for bit, and are not written to."""
    for groups in _batches(make):
        rows = Rows.from_groups(groups)
        before = {f.name: np.copy(getattr(rows, f.name)) for f in fields(rows) if _is_array(rows, f.name)}
        method = make()
        first, second = method(rows), method(rows)
        assert np.array_equal(first.advantages, second.advantages), "two calls on the same rows differ"
        assert dict(first.diagnostics) == dict(second.diagnostics), "two calls report different diagnostics"
        for name, values in before.items():
            assert np.array_equal(values, getattr(rows, name)), f"the method wrote to rows.{name}"


def order(make: MakeMethod) -> None:
    """The order in which steps, trajectories and groups were recorded means nothing."""
    for seed, groups in enumerate(_batches(make)):
        rng = np.random.default_rng(seed)
        shuffled = [replace(g, trajectories=tuple(_shuffled(rng, t) for t in _permuted(rng, g.trajectories))) for g in groups]
        _same(credit_of(make, groups), credit_of(make, _permuted(rng, shuffled)), "recording order changes the credit")


def names(make: MakeMethod) -> None:
    """Only equality of texts counts: renaming every state and action changes nothing."""
    for groups in _batches(make):
        renamed = [replace(g, trajectories=tuple(_renamed(t) for t in g.trajectories)) for g in groups]
        _same(credit_of(make, groups), credit_of(make, renamed), "the texts of states or actions matter, not only equality")


def unrelated_groups(make: MakeMethod) -> None:
    """Adding task groups, with the same state names, changes nothing in the others (scope `group`)."""
    for groups in _batches(make):
        alone, together = credit_of(make, groups[:2]), credit_of(make, groups).of(groups[:2])
        _same(alone, together, "an unrelated group changes the credit")


def singletons(make: MakeMethod) -> None:
    """A trajectory with nothing to be compared with gets 0, also where it met a state twice: its only sibling failed."""
    broken = walk(move("A", "go"), error="the engine timed out")
    lone = siblings("lone", walk(move(START, "go"), move(START, "look"), move(MIDDLE, "finish"), success=True), broken)
    other = siblings("other", walk(move("A", "go"), success=True), walk(move("A", "stay"), end="A"))
    given = credit_of(make, featured(make, [lone, other])).of([lone])
    assert not any(given.advantages.values()), f"a lone trajectory got {given.advantages}"
    assert not given.pairs, "a lone trajectory was paired"


def constant_groups(make: MakeMethod) -> None:
    """Identical decisions get exactly 0, whatever their reward: a mean of equal numbers may be off by one ulp."""
    for reward in REWARDS:
        for number in (2, 6, 8):
            same = walk(move(START, "finish", reward=reward), success=reward > 0)
            given = credit_of(make, featured(make, [siblings("g", *[same] * number)]))
            assert not any(given.advantages.values()), f"{number} equal decisions with reward {reward}: {given.advantages}"
            assert not given.pairs, "identical decisions were ordered"


def equal_siblings(make: MakeMethod) -> None:
    """Identical siblings get identical credit, turn by turn."""
    for reward in REWARDS:
        given = credit_of(make, featured(make, [_equal_siblings(6, reward)])).advantages
        for turn in (0, 1):
            values = {given[f"g/{slot}", turn] for slot in range(6)}
            assert len(values) == 1, f"equal siblings with reward {reward} got {values} at turn {turn}"


def constant_states(make: MakeMethod) -> None:
    """Identical siblings get exactly 0 where decisions are only compared within one state."""
    for reward in REWARDS:
        for number in (2, 6, 8):
            given = credit_of(make, featured(make, [_equal_siblings(number, reward)]))
            assert not any(given.advantages.values()), f"{number} equal siblings with reward {reward}: {given.advantages}"


def error_trajectories(make: MakeMethod) -> None:
    """What a failed trajectory recorded means nothing; it gets no credit."""
    for groups in _batches(make, errors=0.5):
        blank = [replace(g, trajectories=tuple(_blank(t) for t in g.trajectories)) for g in groups]
        _same(credit_of(make, groups), credit_of(make, blank), "an error trajectory changes the credit of others")


def untrained_decisions(make: MakeMethod) -> None:
    """A decision without response tokens takes part in no statistic: its action, format and features change nothing."""
    for groups in _batches(make, untrained=0.3):
        other = [replace(g, trajectories=tuple(_flip_untrained(t) for t in g.trajectories)) for g in groups]
        _same(credit_of(make, groups), credit_of(make, other), "a decision without trained tokens changes the credit")


def not_finite(make: MakeMethod) -> None:
    """A reward or score that is not finite is refused by a message that names the decision."""
    rows = Rows.from_groups(featured(make, random_groups(np.random.default_rng(0), errors=0.0)))
    row = len(rows) // 2
    for value in (np.nan, np.inf):
        reward, score = rows.reward.copy(), rows.score.copy()
        reward[row] = score[rows.trajectory[row]] = value
        message = _refusal(make, replace(rows, reward=reward, score=score))
        name = rows.trajectory_names[rows.trajectory[row]]
        assert name in message, f"reward and score {value} of trajectory {name!r} gave {message or 'no error'}"


METHOD_CHECKS: Mapping[str, Check] = {
    "shapes": shapes,
    "determinism": determinism,
    "order": order,
    "names": names,
    "unrelated_groups": unrelated_groups,
    "singletons": singletons,
    "constant_groups": constant_groups,
    "equal_siblings": equal_siblings,
    "constant_states": constant_states,
    "error_trajectories": error_trajectories,
    "untrained_decisions": untrained_decisions,
    "not_finite": not_finite,
}
GROUP_SCOPE = ("unrelated_groups",)
"""Checks that only hold for methods of scope `group`."""
STATE_LOCAL = ("constant_states",)
"""Checks that do not hold for a method that normalises over all decisions of a task, whatever their states."""


def _batches(make: MakeMethod, errors: float = 0.1, untrained: float = 0.05) -> list[tuple[Group, ...]]:
    rngs = map(np.random.default_rng, range(SAMPLES))
    return [featured(make, random_groups(rng, errors=errors, untrained=untrained)) for rng in rngs]


def _equal_siblings(number: int, reward: float) -> Group:
    same = walk(move(START, "go"), move(MIDDLE, "finish", reward=reward), success=reward > 0)
    return siblings("g", *[same] * number)


def _same(a: Named, b: Named, message: str) -> None:
    assert a.advantages == b.advantages, message
    assert a.pairs == b.pairs, f"{message} (pairs)"


def _refusal(make: MakeMethod, rows: Rows) -> str:
    """The message of the ValueError that the method raises, empty when it raises none."""
    try:
        make()(rows)
    except ValueError as error:
        return str(error)
    return ""


def _is_array(rows: Rows, name: str) -> bool:
    return isinstance(getattr(rows, name), np.ndarray)


def _permuted(rng: np.random.Generator, items: Sequence[T]) -> list[T]:
    return [items[i] for i in rng.permutation(len(items))]


def _shuffled(rng: np.random.Generator, trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, steps=tuple(_permuted(rng, trajectory.steps)))


def _renamed(trajectory: Trajectory) -> Trajectory:
    return replace(
        trajectory,
        steps=tuple(replace(s, action=s.action[::-1], action_key=s.action_key[::-1] + "'") for s in trajectory.steps),
        states=tuple(State({k: v[::-1] + "'" for k, v in s.views.items()}, s.rubric, s.frontier) for s in trajectory.states),
    )


def _blank(trajectory: Trajectory) -> Trajectory:
    if trajectory.stop is not StopReason.ERROR:
        return trajectory
    return replace(trajectory, steps=(), states=trajectory.states[:1], score=0.0)


def _flip_untrained(trajectory: Trajectory) -> Trajectory:
    steps = tuple(
        s
        if len(s.response_ids)
        else replace(
            s,
            valid=not s.valid,
            parsed=not s.parsed,
            action_key="something else",
            features={name: value[::-1] for name, value in s.features.items()},
        )
        for s in trajectory.steps
    )
    return replace(trajectory, steps=steps)
