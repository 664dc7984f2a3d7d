"""Invariants of the methods on random rollouts; each number of examples is what the project promises."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from creditlab_ccpo import CCPO
from creditlab_covgpo import CovGPO
from creditlab_g2po import G2PO
from creditlab_gigpo import GiGPO
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from creditlab_hgpo import HGPO
from creditlab_pair import Pair
from creditlab_rloo import RLOO
from every_method import checks, method, names, scope
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.credit.context import context_features, peer_means
from creditlab.credit.folds import LeaveOneOut, Opposite, OtherTrajectories
from creditlab.credit.ladders import History, SimilarState
from creditlab.credit.match import GraphState, Observation, StateRubric, Task
from creditlab.credit.preferences import build_preferences
from creditlab.credit.segments import count
from creditlab.credit.weighting import ContextKernel, Depth, Evidence
from creditlab.rollouts import Group, Rows, StopReason, Trajectory
from creditlab.testing.conformance import Check, MakeMethod, credit_of, featured
from creditlab.testing.strategies import batches

EXAMPLES = settings(max_examples=200, deadline=None)
SMALL = batches(groups=2, slots=(2, 4), turns=5)
PAIRED = batches(slots=(8, 16), turns=12)
"""Updates of which a third have preferences of MCGPO."""
MANY = settings(max_examples=600, deadline=None)
"""So many that 200 have something to look at where only a third have."""


@pytest.mark.parametrize(("make", "check"), [c[2:] for c in checks()], ids=["-".join(c[:2]) for c in checks()])
def test_conformance(make: MakeMethod, check: Check) -> None:
    check(make)


@pytest.mark.parametrize("name", names())
def test_neither_recording_order_nor_unrelated_groups_matter(name: str) -> None:
    """In any order of groups, siblings and turns; and, for methods of group scope, without the other groups."""
    make: MakeMethod = lambda: method(name)  # noqa: E731

    @EXAMPLES
    @given(PAIRED if name == "mcgpo" else SMALL, st.integers(0, 2**32 - 1))
    def holds(groups: tuple[Group, ...], seed: int) -> None:
        groups = featured(make, groups)
        whole = credit_of(make, groups)
        assert credit_of(make, shuffled(groups, np.random.default_rng(seed))) == whole
        if scope(name) == "group":
            for group in groups:
                assert credit_of(make, [group]) == whole.of([group])

    holds()


@EXAMPLES
@given(SMALL, st.integers(0, 2**32 - 1))
def test_neither_matters_where_the_first_of_several_texts_founds_a_cluster(groups: tuple[Group, ...], seed: int) -> None:
    """Of aaaaaa, aaaaab, aaaabb, … neighbours are alike and others are not: clusters hang on who comes first."""
    make: MakeMethod = lambda: GiGPO(match=SimilarState(threshold=0.8))  # noqa: E731
    groups = tuple(replace(g, trajectories=tuple(map(in_a_chain, g.trajectories))) for g in groups)
    whole = credit_of(make, groups)
    assert credit_of(make, shuffled(groups, np.random.default_rng(seed))) == whole
    for group in groups:
        assert credit_of(make, [group]) == whole.of([group])


def in_a_chain(trajectory: Trajectory) -> Trajectory:
    """The same trajectory with six letters for the text of each state s0 … s5, a's and then as many b's as its number."""
    texts = [("a" * 6 + "b" * int(s.views["observation"][1:]))[-6:] for s in trajectory.states]
    states = (replace(s, views={**s.views, "observation": text}) for s, text in zip(trajectory.states, texts, strict=True))
    return replace(trajectory, states=tuple(states))


def shuffled(groups: tuple[Group, ...], rng: np.random.Generator) -> list[Group]:
    """The same records in another order at every level."""
    mixed = [
        replace(
            g, trajectories=tuple(replace(t, steps=t.steps[::-1]) for t in rng.permutation(np.array(g.trajectories, object)))
        )
        for g in groups
    ]
    return [mixed[i] for i in rng.permutation(len(mixed))]


@EXAMPLES
@given(batches())
def test_with_no_past_hgpo_is_gigpos_step_term_under_the_population_deviation(groups: tuple[Group, ...]) -> None:
    """A^S · √(n/(n−1)), up to the ε beside the deviation and in HGPO's divisor."""
    rows = valid(groups)
    hgpo = HGPO(match=History(past=0), weighting=Depth())(rows).advantages
    gigpo = GiGPO(match=Observation(), episode_weight=0.0)(rows).advantages
    key = Observation().levels(rows)[0].ids[rows.state]
    n = np.maximum(count(key, int(key.max(initial=-1)) + 1, rows.trainable)[key], 2)
    np.testing.assert_allclose(hgpo, gigpo * np.sqrt(n / (n - 1)), rtol=1e-4, atol=1e-6)


@EXAMPLES
@given(batches())
def test_rloo_is_centred_grpo_over_one_less(groups: tuple[Group, ...]) -> None:
    """n/(n−1) · (e − ē), over rows and over trajectories."""
    rows = Rows.from_groups(groups)
    for samples in ("row", "trajectory"):
        options = {"moments": samples, "penalty": "row_local" if samples == "row" else "trajectory_sum"}
        centred = GRPO(normalise="mean", **options)(rows).advantages  # type: ignore[arg-type]
        loo = RLOO(fold=LeaveOneOut(), **options)(rows).advantages  # type: ignore[arg-type]
        members = rows.group[rows.trainable] if samples == "row" else rows.trajectory_group[present(rows)]
        n = np.maximum(count(members, rows.groups)[rows.group], 2)
        np.testing.assert_allclose(loo, centred * n / (n - 1), rtol=1e-9, atol=1e-9)


@EXAMPLES
@given(batches())
def test_without_their_own_terms_the_graph_methods_are_grpo(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    grpo = GRPO()(rows).advantages
    np.testing.assert_array_equal(G2PO(match=Observation(), graph_weight=0.0)(rows).advantages, grpo)
    np.testing.assert_array_equal(GraphGPO(match=GraphState(), graph_weight=0.0)(rows).advantages, grpo)
    np.testing.assert_array_equal(GiGPO(match=Observation(), step_weight=0.0)(rows).advantages, grpo)


@EXAMPLES
@given(batches(turns=4))
def test_the_three_exponents_of_graphgpo_agree_near_the_goal(groups: tuple[Group, ...]) -> None:
    """Without invalid decisions they differ by a factor per state, which the deviation takes out, up to ε."""
    rows = valid(groups)
    code, paper, delta = (
        GraphGPO(match=GraphState(), episode_weight=0.0, exponent=form, omega=0.5)(rows).advantages  # type: ignore[arg-type]
        for form in ("code", "paper", "delta")
    )
    np.testing.assert_allclose(code, paper, atol=1e-4)
    np.testing.assert_allclose(code, delta, atol=1e-4)


@pytest.mark.parametrize("granularity", ["trajectory", "step"])
def test_covgpo_never_changes_a_group_with_a_success(granularity: str) -> None:
    tried = 0

    @MANY
    @given(batches(slots=(2, 4)))
    def holds(groups: tuple[Group, ...]) -> None:
        nonlocal tried
        rows = Rows.from_groups(groups)
        base = GiGPO(match=Observation())
        credit = CovGPO(base=base, granularity=granularity)(rows)  # type: ignore[arg-type]
        changed = credit.advantages != base(rows).advantages
        solved = count(rows.trajectory_group, rows.groups, (rows.outcome > 0) & ~rows.error) > 0
        assert not changed[solved[rows.group]].any()
        tried += bool(solved.any() and changed.any())

    holds()
    assert tried > 30, "hardly any update has a group that changes beside one with a success"


@EXAMPLES
@given(batches(), st.integers(0, 2**32 - 1))
def test_own_outcomes_never_enter_ccpos_baseline(groups: tuple[Group, ...], seed: int) -> None:
    """Another outcome of one trajectory moves its own historical credit by exactly the change of its own targets."""
    rng = np.random.default_rng(seed)
    place = int(rng.integers(len(groups)))
    slot = int(rng.integers(len(groups[place].trajectories)))
    method = CCPO(
        match=Observation(),
        fold=OtherTrajectories(),
        weighting=ContextKernel(),
        hidden=False,
        final="none",
        future_weight=0.0,
    )
    before, after = Rows.from_groups(groups), Rows.from_groups(flipped(groups, place, slot))
    chosen = before.trajectory == before.trajectory_names.index(groups[place].trajectories[slot].id)
    old, new = (method(rows).advantages for rows in (before, after))
    remaining = (before.length[before.trajectory] - before.turn - 1)[chosen]
    gain = 0.95**remaining * (after.outcome - before.outcome)[before.trajectory[chosen]]
    counted = chosen & (old != 0)  # a decision without peers has no credit before or after
    np.testing.assert_allclose((new - old)[counted], gain[counted[chosen]], atol=1e-9)


@EXAMPLES
@given(batches(), st.integers(0, 2**32 - 1))
def test_own_targets_never_enter_a_weighted_mean_over_other_trajectories(groups: tuple[Group, ...], seed: int) -> None:
    """Whatever one trajectory obtained, the baseline C[Y] and the potential V = C[Z] of its own decisions stay."""
    rng = np.random.default_rng(seed)
    rows = Rows.from_groups(groups)
    levels, z = (*Observation().levels(rows), *Task().levels(rows)), context_features(rows, None)
    own = rows.trajectory == rng.integers(max(len(rows.length), 1))
    targets = rng.normal(size=(len(rows), 2))
    other = np.where(own[:, None], rng.normal(scale=100, size=targets.shape), targets)
    peers = OtherTrajectories().peers(rows)
    before, after = (peer_means(rows, levels, z, t, peers, ContextKernel()) for t in (targets, other))
    np.testing.assert_array_equal(before.supported, after.supported)
    there = own & before.supported
    np.testing.assert_allclose(after.mean[there], before.mean[there], rtol=0, atol=1e-10)


def test_mcgpos_preferences_do_not_depend_on_the_candidates_outcomes() -> None:
    """Other outcomes in one half leave the preferences among that half's decisions alone; no row occurs twice."""
    compared = 0

    @MANY
    @given(PAIRED, st.integers(0, 2**32 - 1))
    def holds(groups: tuple[Group, ...], seed: int) -> None:
        nonlocal compared
        rng = np.random.default_rng(seed)
        upper = bool(rng.integers(2))
        before, changed = preferences(groups), groups
        for place, group in enumerate(groups):
            for slot, t in enumerate(group.trajectories):
                if in_half(t, group, upper) and rng.random() < 0.5:
                    changed = flipped(changed, place, slot)
        assert of_half(preferences(changed), groups, upper) == of_half(before, groups, upper)
        used = [decision for pair in before for decision in pair]
        assert len(used) == len(set(used))
        compared += bool(of_half(before, groups, upper))

    holds()
    assert compared > 100, "few of the random updates have preferences"


def test_mcgpos_preferences_do_not_depend_on_the_text_of_a_response() -> None:
    compared = 0

    @MANY
    @given(PAIRED)
    def holds(groups: tuple[Group, ...]) -> None:
        nonlocal compared
        made = preferences(groups)
        assert preferences(tuple(map(reworded, groups))) == made
        compared += bool(made)

    holds()
    assert compared > 100, "few of the random updates have preferences"


def reworded(group: Group) -> Group:
    """The same group with other texts of responses."""
    trajectories = (
        replace(t, steps=tuple(replace(s, response="…" + s.response[::-1]) for s in t.steps)) for t in group.trajectories
    )
    return replace(group, trajectories=tuple(trajectories))


def preferences(groups: tuple[Group, ...]) -> set[tuple[tuple[str, int], tuple[str, int]]]:
    """Winner and loser of every preference of MCGPO's pair loss, by trajectory name and turn."""
    rows = Rows.from_groups(groups)
    pair = Pair(match=StateRubric(), fold=Opposite(), weighting=Evidence())
    made, _ = build_preferences(
        rows, pair.match.levels(rows), pair.fold.splits(rows), pair.weighting, epsilon=0.1, min_support=1, quota=2
    )
    decision = [(rows.trajectory_names[m], int(t)) for m, t in zip(rows.trajectory, rows.turn, strict=True)]
    return {(decision[a], decision[b]) for a, b in made.pairs.tolist()}


def of_half(
    pairs: set[tuple[tuple[str, int], tuple[str, int]]], groups: tuple[Group, ...], upper: bool
) -> set[tuple[tuple[str, int], tuple[str, int]]]:
    """Preferences between trajectories of one half of the slots."""
    members = {t.id for g in groups for t in g.trajectories if in_half(t, g, upper)}
    return {pair for pair in pairs if pair[0][0] in members}


def in_half(trajectory: Trajectory, group: Group, upper: bool) -> bool:
    return (2 * trajectory.slot >= len(group.trajectories)) is upper


def flipped(groups: tuple[Group, ...], place: int, slot: int) -> tuple[Group, ...]:
    """The same rollouts with the other outcome of one trajectory; one that failed to run stays as it is."""
    group = groups[place]
    trajectory = group.trajectories[slot]
    if trajectory.stop is StopReason.ERROR:
        return groups
    won = trajectory.stop is not StopReason.SUCCESS
    steps = (*trajectory.steps[:-1], replace(trajectory.steps[-1], reward=10.0 if won else 0.0))
    other = replace(trajectory, steps=steps, stop=StopReason.SUCCESS if won else StopReason.FAILURE, score=float(won))
    changed = replace(group, trajectories=(*group.trajectories[:slot], other, *group.trajectories[slot + 1 :]))
    return (*groups[:place], changed, *groups[place + 1 :])


def valid(groups: tuple[Group, ...]) -> Rows:
    """Rows in which every decision is valid."""
    rows = Rows.from_groups(groups)
    return replace(rows, valid=np.ones(len(rows), np.bool_))


def present(rows: Rows) -> np.ndarray:
    """Trajectories with trained decisions."""
    return np.flatnonzero(count(rows.trajectory, len(rows.length), rows.trainable))
