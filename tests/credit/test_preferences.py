from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from creditlab_pair import Pair
from examples import decision_at, matched_contexts, plain_credit
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.credit.folds import All, Opposite, Same
from creditlab.credit.match import RubricOnly, StateOnly, StateRubric
from creditlab.credit.preferences import build_preferences, label_pairs
from creditlab.credit.types import Preferences
from creditlab.credit.weighting import Evidence, Uniform
from creditlab.hookspecs import Fold, MatchRule
from creditlab.rollouts import Group, Rows, Trajectory
from creditlab.testing import move, rows_of, siblings, state, walk
from creditlab.testing.strategies import batches


def pair(match: MatchRule | None = None, fold: Fold | None = None, **options: object) -> Pair:
    return Pair(match=match or StateRubric(), fold=fold or Opposite(), weighting=Evidence(), **options)  # type: ignore[arg-type]


def preferences(rows: Rows, **options: object) -> Preferences:
    return pair(**options)(rows)[0].preferences  # type: ignore[arg-type]


def slots(rows: Rows, chosen: Preferences) -> list[tuple[int, int]]:
    return [(int(rows.slot[w]), int(rows.slot[b])) for w, b in chosen.pairs]


def labelled(rows: Rows, fold: Fold) -> dict[tuple[int, int], tuple[Fraction, int]]:
    """Contrast of the lower over the higher slot and level, of every supported pair before threshold and allocation."""
    pairs, _ = label_pairs(rows, StateRubric().levels(rows), fold.splits(rows))
    slot, margin, scale = rows.slot, pairs.margin.tolist(), pairs.scale.tolist()
    return {
        (int(slot[low]), int(slot[high])): (Fraction(m, s), int(level))
        for low, high, m, s, level in zip(pairs.low, pairs.high, margin, scale, pairs.level, strict=True)
    }


class TestWorkedExample:
    rows = rows_of(matched_contexts())

    def test_labels(self) -> None:
        assert labelled(self.rows, Opposite()) == {
            (0, 1): (Fraction(1), 0),
            (1, 2): (Fraction(0), 1),
            (4, 5): (Fraction(1), 0),
            (4, 6): (Fraction(1, 2), 1),
            (5, 7): (Fraction(-1, 2), 1),
            (6, 7): (Fraction(-1, 2), 1),
        }

    def test_preferences(self) -> None:
        chosen = preferences(self.rows)
        assert slots(self.rows, chosen) == [(0, 1), (4, 5), (7, 6)]
        np.testing.assert_allclose(chosen.weight, [1 / 3, 1 / 3, 0.7 / 6], rtol=1e-15)
        assert chosen.level.tolist() == [0, 0, 1]
        assert chosen.contrast.tolist() == [1, 1, 0.5]
        assert chosen.support.tolist() == [1, 1, 1]

    def test_audit(self) -> None:
        _, audit = pair()(self.rows)
        assert (audit["pairs/wins"], audit["pairs/ties"], audit["pairs/losses"]) == (2, 0, 1)
        assert audit["pairs/agreement"] == audit["pairs/exact_share"] == 2 / 3
        assert audit["pairs/tie_share"] == 0
        assert audit["pairs/accepted"] == 3
        assert audit["pairs/active"] == 1
        assert (audit["pairs/accepted_exact"], audit["pairs/accepted_coarse"]) == (2, 1)
        assert (audit["pairs/supported_exact"], audit["pairs/supported_coarse"]) == (2, 6)
        assert audit["pairs/contrast"] == pytest.approx(2.5 / 3)
        assert audit["pairs/confidence"] == pytest.approx((2 / 3 + 0.7 / 6) / 3)
        # Exact contexts per fold: {0,1} {2} {3} and {4,5} {6} {7}; coarse: one of four each.
        assert audit["pairs/first_visit_group_size_exact"] == 8 / 6
        assert audit["pairs/non_singleton_share_exact"] == 4 / 8
        assert audit["pairs/first_visit_group_size_coarse"] == 4
        assert audit["pairs/non_singleton_share_coarse"] == 1

    def test_same_fold_evidence_leaks(self) -> None:
        """The tie of (1, 2) turns into a label once the candidates' own outcomes count."""
        given = labelled(self.rows, Same())
        assert given[0, 1] == (Fraction(1), 0)
        assert given[1, 2] == (Fraction(-1, 2), 1)

    def test_uniform_weighting_keeps_the_pairs(self) -> None:
        uniform = Pair(match=StateRubric(), fold=Opposite(), weighting=Uniform())(self.rows)[0].preferences
        assert slots(self.rows, uniform) == [(0, 1), (4, 5), (7, 6)]
        assert uniform.weight.tolist() == [1, 1, 1]

    def test_no_pairs_no_ratios(self) -> None:
        _, audit = pair(epsilon=1.0, min_support=2)(self.rows)
        assert audit["pairs/accepted"] == 0
        assert audit["pairs/active"] == 0
        assert "pairs/agreement" not in audit


def vs(*candidates: Trajectory, evidence: Sequence[Trajectory]) -> Rows:
    """A group whose lower half are the candidates and whose upper half the evidence; both are filled up with outsiders."""
    half = max(len(candidates), len(evidence))
    fill = [walk(move(f"outside {i}", "wait")) for i in range(2 * half)]
    return rows_of(
        siblings("g", *candidates, *fill[len(candidates) : half], *evidence, *fill[half + len(evidence) : 2 * half])
    )


def decide(action: str, outcome: int = 0, exact: str = "s", coarse: str = "c") -> Trajectory:
    return decision_at(0, exact, action, outcome, coarse)


WINS, LOSES = decide("a", 1), decide("b", 0)


def test_a_supported_exact_tie_is_not_retried_at_the_coarse_level() -> None:
    """Exact evidence ties at 1:1; the coarse evidence alone would prefer b."""
    tie = [decide("a", 1), decide("b", 1), decide("a", 0, exact="elsewhere")]
    assert labelled(vs(decide("a"), decide("b"), evidence=tie), Opposite())[0, 1] == (Fraction(0), 0)
    assert not len(preferences(vs(decide("a"), decide("b"), evidence=tie)))


def test_without_exact_support_the_coarse_level_decides() -> None:
    evidence = [decide("a", 1, exact="elsewhere"), decide("b", 0, exact="elsewhere")]
    chosen = preferences(vs(decide("b"), decide("a"), evidence=evidence))
    assert chosen.level.tolist() == [1]
    assert chosen.weight.tolist() == pytest.approx([0.7 / 3])


def test_only_the_first_visit_to_a_context_is_a_record() -> None:
    """The evidence did a first and b on coming back; b is unsupported although it was tried."""
    returning = walk(move("s", "a"), move("s", "b"), success=True)
    rows = vs(decide("a"), decide("b"), evidence=[returning, decide("c", 0)])
    assert not labelled(rows, Opposite())


def test_an_unparsed_decision_is_no_visit() -> None:
    """What follows it is the first visit; the same holds for a decision without trained tokens."""
    for flag in ("parsed", "trainable"):
        late = walk(move("s", "nonsense", **{flag: False}), move("s", "a"), success=True)  # type: ignore[arg-type]
        rows = vs(decide("a"), decide("b"), evidence=[late, decide("b", 0)])
        assert labelled(rows, Opposite())[0, 1] == (Fraction(1), 0)


def test_invalid_format_does_not_exclude_a_parsed_decision() -> None:
    sloppy = walk(move("s", "a", valid=False), success=True)
    assert labelled(vs(decide("a"), decide("b"), evidence=[sloppy, LOSES]), Opposite())[0, 1] == (Fraction(1), 0)


def test_the_rubric_separates_contexts_of_one_state() -> None:
    """Returning with an object acquired is a new context, so it neither matches the old one nor hides behind it."""
    early = state("s", rubric={"target_acquired": (0, 1)})
    late = state("s", rubric={"target_acquired": (1, 1)})
    returning = walk(move(early, "a"), move(late, "b"), success=True)
    candidates = [walk(move(late, "b")), walk(move(late, "x"))]
    rows = vs(*candidates, evidence=[returning, walk(move(late, "x"))])
    assert labelled(rows, Opposite())[0, 1] == (Fraction(1), 0)
    assert not len(preferences(rows, match=StateOnly()))  # without (C, F) the first visit did a, and b is unsupported


def test_rubric_only_matches_different_states() -> None:
    progress = {"goal_progress": (0, 1)}

    def at(name: str, action: str, success: bool = False) -> Trajectory:
        return walk(
            move(state(name, rubric=progress), action), end=state("end", rubric={"goal_progress": (1, 1)}), success=success
        )

    rows = rows_of(siblings("g", at("p", "a"), at("q", "b"), at("r", "a", True), at("t", "b")))
    assert slots(rows, preferences(rows, match=RubricOnly())) == [(0, 1)]  # the upper half sees two failures: a tie
    assert not len(preferences(rows))


def test_the_frontier_separates_contexts_of_equal_status() -> None:
    def at(frontier: tuple[str, ...], action: str, success: bool = False) -> Trajectory:
        return walk(move(state("s", rubric={"light_on": (0, 1)}, frontier=frontier), action), success=success)

    open_, closed = ("light_on",), ()
    rows = rows_of(siblings("g", at(open_, "a"), at(open_, "b"), at(closed, "a", True), at(open_, "b")))
    assert not len(preferences(rows))
    assert len(preferences(rows, match=StateOnly())) == 1


def test_the_threshold_is_exact() -> None:
    """3/5 − 1/2 is 1/10, which float arithmetic puts below 0.10."""
    assert 3 / 5 - 1 / 2 < 0.10
    evidence = [decide("a", int(i < 3)) for i in range(5)] + [decide("b", int(i < 1)) for i in range(2)]
    rows = vs(decide("a"), decide("b"), evidence=evidence)
    chosen = preferences(rows)
    assert chosen.support.tolist() == [2]
    assert chosen.weight.tolist() == pytest.approx([0.1 * 2 / 4])
    assert not len(preferences(rows, epsilon=0.1000001))


def test_ties_order_nothing_even_without_a_threshold() -> None:
    assert not len(preferences(vs(decide("a"), decide("b"), evidence=[decide("a", 1), decide("b", 1)]), epsilon=0.0))


def test_a_tie_of_the_candidates_counts_half_an_agreement() -> None:
    """Both candidates failed, so their own outcomes neither support nor contradict the preference."""
    _, audit = pair()(vs(decide("a"), decide("b"), evidence=[WINS, LOSES]))
    assert (audit["pairs/wins"], audit["pairs/ties"], audit["pairs/losses"]) == (0, 1, 0)
    assert audit["pairs/agreement"] == 0.5
    assert audit["pairs/tie_share"] == 1


def test_minimum_support() -> None:
    rows = vs(decide("a"), decide("b"), evidence=[WINS, WINS, LOSES])
    assert len(preferences(rows)) == 1
    assert not len(preferences(rows, min_support=2))
    both = preferences(vs(decide("a"), decide("b"), evidence=[WINS, WINS, LOSES, LOSES]), min_support=2)
    assert both.support.tolist() == [2]


def test_one_comparison_per_sibling_pair_the_earliest() -> None:
    """Two contexts in common; the one whose later turn is earlier wins, whatever its confidence."""
    candidates = [walk(move("s", "a"), move("t", "a")), walk(move("s", "b"), move("t", "b"))]
    evidence = [walk(move("s", "a"), move("t", "b"), success=True), walk(move("s", "b"), move("t", "a"))]
    chosen = preferences(vs(*candidates, evidence=evidence))
    assert chosen.pairs.tolist()[0] == [0, 2]  # rows of slot 0: turns 0, 1; of slot 1: turns 0, 1


def test_of_two_comparisons_at_the_same_turns_the_lower_slots_earlier_one_is_taken() -> None:
    """t at turns 1 and 2 of the slots 0 and 1, s at turns 2 and 1, although s was met first, in a turn that did not parse."""
    unread = move("s", "?", parsed=False)
    candidates = [walk(unread, move("t", "a"), move("s", "a")), walk(unread, move("s", "b"), move("t", "b"))]
    evidence = [walk(move("s", "a"), move("t", "a"), success=True), walk(move("s", "b"), move("t", "b"))]
    assert preferences(vs(*candidates, evidence=evidence)).pairs.tolist()[0] == [1, 5]


@pytest.mark.parametrize(("score", "pairs"), [(0.999, 1), (0.998, 0)])
def test_the_score_from_which_a_trajectory_is_a_success(score: float, pairs: int) -> None:
    evidence = [walk(move(state("s", coarse="c"), "a"), score=score, end="done"), LOSES]
    assert len(preferences(vs(decide("a"), decide("b"), evidence=evidence))) == pairs


def test_quota_per_fold_and_group() -> None:
    """Three sibling pairs over six candidates qualify; the earliest slots are taken."""
    candidates = [decide("a"), decide("b")] * 3
    rows = vs(*candidates, evidence=[WINS, LOSES])
    assert slots(rows, preferences(rows)) == [(0, 1), (2, 3)]
    assert slots(rows, preferences(rows, quota=3)) == [(0, 1), (2, 3), (4, 5)]
    assert not len(preferences(rows, quota=0))
    two = rows_of(*(siblings(name, *candidates, *[WINS, LOSES] * 3) for name in ("g", "h")))
    assert np.bincount(two.group[preferences(two).winner]).tolist() == [2, 2]  # the evidence side sees only ties


def test_a_blocked_sibling_pair_does_not_fall_back_and_uses_no_quota() -> None:
    """Slots (0, 1) take the context s; (0, 2) is blocked there, and its later comparison in t is not taken instead."""
    candidates = [walk(move("s", "a"), move("t", "a")), walk(move("s", "b")), walk(move("s", "b"), move("t", "b"))]
    evidence = [walk(move("s", "a"), move("t", "a"), success=True), walk(move("s", "b"), move("t", "b"))]
    rows = vs(*candidates, decide("a"), decide("b"), evidence=evidence)
    # (0,1) first; (0,2) and (0,4) share row 0, (1,3) shares row 1; (2,3) is free and within the quota.
    for quota in (2, 9):
        assert slots(rows, preferences(rows, quota=quota)) == [(0, 1), (3, 2)]


def test_candidate_progress_labels_use_the_candidates_own_gain() -> None:
    def gains(action: str, before: Fraction, after: Fraction, success: bool = False) -> Trajectory:
        at, end = (state("s", rubric={"goal_progress": (g, 3), "x": (0, 1)}) for g in (before, after))
        same = state("s", exact="s", coarse="c", rubric={"x": (0, 1)})
        return walk(move(replace(at, views=same.views), action), end=replace(end, views=same.views), success=success)

    third, none = Fraction(1, 3), Fraction(0)
    rows = rows_of(
        siblings("g", gains("a", none, none), gains("b", none, third), gains("a", none, none, True), gains("b", none, none))
    )
    assert slots(rows, preferences(rows)) == [(0, 1)]
    progress = preferences(rows, labels="candidate_progress")
    assert slots(rows, progress) == [(1, 0)]
    assert progress.contrast.tolist() == pytest.approx([1 / 3])
    assert progress.support.tolist() == [1]
    assert not len(preferences(rows, labels="candidate_progress", epsilon=0.34))
    big = rows_of(
        siblings("g", gains("a", none, none), gains("b", none, Fraction(3)), gains("a", none, none), gains("b", none, none))
    )
    assert preferences(big, labels="candidate_progress").contrast.tolist() == [1]  # a contrast is at most 1


def test_error_trajectories_keep_their_slot_and_give_no_records() -> None:
    broken = walk(move("s", "a"), success=False, error="the environment timed out")
    rows = rows_of(siblings("g", decide("a"), decide("b"), broken, LOSES))
    assert not labelled(rows, Opposite())
    assert not len(preferences(rows))


@pytest.mark.parametrize("fold", [Opposite, Same])
@pytest.mark.parametrize("wrong", [(0, 1, 2), (0, 1, 3, 4), (0, 1, 1, 2), (1, 2, 3, 4)])
def test_folds_refuse_incomplete_groups_by_name(fold: type[Opposite | Same], wrong: tuple[int, ...]) -> None:
    members = [replace(decide("a"), slot=slot, id=f"t{i}") for i, slot in enumerate(wrong)]
    rows = rows_of(siblings("fine", decide("a"), decide("b")), Group("odd", "task", "family", tuple(members)))
    with pytest.raises(ValueError, match=rf"fold={fold.name} needs slots 0 … G-1.*group 'odd' has slots .*incomplete=skip"):
        fold().splits(rows)
    for split in fold(incomplete="skip").splits(rows):
        assert not split.candidate[2:].any()
        assert not split.evidence[2:].any()
    assert [s.candidate[:2].tolist() for s in fold(incomplete="skip").splits(rows)] == [[True, False], [False, True]]


def test_fold_roles() -> None:
    rows = rows_of(siblings("g", *[decide("a")] * 4), siblings("h", *[decide("a")] * 2))
    lower = [True, True, False, False, True, False]
    upper = [not x for x in lower]
    roles = {f: [(s.candidate.tolist(), s.evidence.tolist()) for s in f.splits(rows)] for f in (Opposite(), Same(), All())}
    assert roles == {
        Opposite(): [(lower, upper), (upper, lower)],
        Same(): [(lower, lower), (upper, upper)],
        All(): [([True] * 6, [True] * 6)],
    }


def test_all_needs_no_complete_group() -> None:
    rows = rows_of(siblings("g", decide("a", 1), decide("b"), decide("b")))
    assert slots(rows, preferences(rows, fold=All())) == [(0, 1)]


def test_a_score_that_is_not_a_number_is_refused() -> None:
    rows = rows_of(matched_contexts())
    score = rows.score.copy()
    score[3] = np.nan
    with pytest.raises(ValueError, match=r"terminal score is nan at group 'G', trajectory 'G/3', turn 0"):
        preferences(replace(rows, score=score))


@settings(deadline=None, max_examples=200)
@given(batches(slots=(4, 8, 12), turns=10))
def test_against_the_plain_transcription(groups: tuple[Group, ...]) -> None:
    """The vectorised construction agrees with the definition written row by row, confidence included."""
    rows = Rows.from_groups(groups)
    chosen = preferences(rows)
    given_ = list(zip(chosen.winner.tolist(), chosen.loser.tolist(), chosen.weight.tolist(), strict=True))
    expected = plain_credit.mcgpo(plain_credit.plain_rows(groups))
    assert [row[:2] for row in given_] == [row[:2] for row in expected]
    assert [c for *_, c in given_] == pytest.approx([c for *_, c in expected], rel=1e-12)


@settings(deadline=None, max_examples=200)
@given(batches(), st.integers(0, 2**32 - 1))
def test_a_folds_own_outcomes_never_reach_its_preferences(groups: tuple[Group, ...], seed: int) -> None:
    rows = Rows.from_groups(groups)
    flip = np.random.default_rng(seed).random(len(rows.length)) < 0.5
    for split in Opposite().splits(rows):
        other = replace(rows, score=np.where(split.candidate & flip, 1 - rows.score, rows.score))
        before, after = (_of(split.candidate, r, preferences(r)) for r in (rows, other))
        assert before == after


@settings(deadline=None, max_examples=200)
@given(batches(slots=(4, 8)), st.sampled_from([Opposite(), Same(), All()]), st.sampled_from([StateRubric(), StateOnly()]))
def test_no_decision_is_used_twice(groups: tuple[Group, ...], fold: Fold, match: MatchRule) -> None:
    used = preferences(Rows.from_groups(groups), match=match, fold=fold, quota=9).pairs.ravel()
    assert len(np.unique(used)) == len(used)


@settings(deadline=None, max_examples=200)
@given(batches())
def test_the_text_of_responses_means_nothing(groups: tuple[Group, ...]) -> None:
    reworded = [
        replace(
            g, trajectories=tuple(replace(t, steps=tuple(replace(s, response="…") for s in t.steps)) for t in g.trajectories)
        )
        for g in groups
    ]
    before, after = preferences(Rows.from_groups(groups)), preferences(Rows.from_groups(reworded))
    np.testing.assert_array_equal(before.pairs, after.pairs)
    np.testing.assert_array_equal(before.weight, after.weight)


def test_thresholds_are_hyper_parameters_of_the_construction_alone() -> None:
    """The same call in a notebook, without any component."""
    rows = rows_of(matched_contexts())
    chosen, traces = build_preferences(rows, StateRubric().levels(rows), Opposite().splits(rows), Evidence(kappa=0.0))
    np.testing.assert_allclose(chosen.weight, [1, 1, 0.35])
    assert [t.name for t in traces] == ["exact", "coarse"]


def _of(candidate: np.ndarray, rows: Rows, chosen: Preferences) -> list[tuple[int, int, float]]:
    mine = candidate[rows.trajectory[chosen.winner]]
    return [
        (int(w), int(b), float(c))
        for w, b, c in zip(chosen.winner[mine], chosen.loser[mine], chosen.weight[mine], strict=True)
    ]
