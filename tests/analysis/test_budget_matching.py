"""Comparison at equal transitions: which checkpoints are matched and what the gap is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.analysis.budget import budget_gap, match_budget
from creditlab.analysis.comparison import Comparison
from creditlab.analysis.comparison_tables import budget_table
from creditlab.analysis.curves import Curve


def curve(transitions: tuple[int, ...] | None, values: tuple[float, ...] = (), method: str = "graphgpo") -> Curve:
    count = len(transitions or (0, 0))
    updates = tuple(5 * place for place in range(count))
    return Curve(method, "alfworld", 0, updates, values or tuple(map(float, range(count))), transitions=transitions)


def test_the_smaller_total_is_taken_at_its_end_and_the_other_at_its_nearest_checkpoint() -> None:
    """Totals 1000 and 1300; of 700, 980, 1300 the budget of 1000 lies nearest to 980: a gap of 20 / 980."""
    ours = curve((0, 400, 700, 1000), (0.0, 10.0, 20.0, 30.0), "mcgpo")
    theirs = curve((0, 700, 980, 1300), (0.0, 11.0, 22.0, 33.0))
    found = match_budget(ours, theirs, k=2)
    assert found.updates == (15, 10)
    assert found.transitions == (1000, 980)
    assert found.values == (30.0, 22.0)
    assert found.tails == (25.0, 16.5)
    assert found.gap == pytest.approx(20 / 980)
    assert not found.close
    swapped = match_budget(theirs, ours, k=2)
    assert (swapped.updates, swapped.transitions, swapped.gap) == ((10, 15), (980, 1000), found.gap)


def test_the_nearest_checkpoint_may_lie_above_the_budget_and_ties_take_the_earlier() -> None:
    assert match_budget(curve((0, 100)), curve((0, 60, 101, 300)), 1).transitions == (100, 101)
    assert match_budget(curve((0, 100)), curve((0, 90, 110, 300)), 1).transitions == (100, 90)


def test_equal_budgets_have_no_gap() -> None:
    found = match_budget(curve((0, 100)), curve((0, 100, 200, 300)), k=2)
    assert found.tails == (0.5, 0.5)
    assert found.gap == 0
    assert found.close


def test_the_mean_there_needs_its_evaluations_like_the_one_at_the_end() -> None:
    """Of four evaluations of graphgpo two lie up to the checkpoint that matches."""
    ours, theirs = curve((0, 40, 70, 100), method="mcgpo"), curve((0, 100, 200, 300))
    assert match_budget(ours, theirs, k=2).tails == (2.5, 0.5)
    found = match_budget(ours, theirs, k=3)
    assert (found.transitions, found.tails) == ((100, 100), None)
    comparison = Comparison([ours, theirs], "graphgpo", 3)
    budgets = comparison.budgets("mcgpo", "alfworld")
    why = "graphgpo up to update 5: 2 evaluations, the mean of the last 3 needs 3; last=2 takes what there is"
    assert (budgets.matches, budgets.difference, budgets.remarks) == ((found,), None, (f"seed 0: {why}",))
    table = budget_table(comparison)
    assert table.rows == (("alfworld", "mcgpo", "0", "15 / 5", "100 / 100", "0.000 %", "–", "–"),)
    assert table.notes == (f"alfworld, mcgpo: seed 0: {why}",)


def test_what_was_evaluated_before_training_matches_nothing() -> None:
    """0 transitions lie nearer to 10 than 50 do, but hold no training."""
    assert match_budget(curve((0, 10)), curve((0, 50)), 1).transitions == (10, 50)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(1, 999), min_size=1, max_size=8), st.lists(st.integers(1, 999), min_size=1, max_size=8))
def test_no_other_checkpoint_is_nearer(first: list[int], second: list[int]) -> None:
    sides = [tuple(sorted(side)) for side in (first, second)]
    found = match_budget(curve(sides[0]), curve(sides[1]), 1)
    budget = min(sides[0][-1], sides[1][-1])
    for spent, matched in zip(sides, found.transitions, strict=True):
        assert abs(matched - budget) == min(abs(count - budget) for count in spent)
    assert found.gap == abs(found.transitions[0] - found.transitions[1]) / min(found.transitions)


def test_runs_without_counts_are_named() -> None:
    with pytest.raises(ValueError, match="graphgpo on alfworld, seed 0: no environment transitions are recorded"):
        match_budget(curve((0, 10), method="mcgpo"), curve(None))
    with pytest.raises(ValueError, match="mcgpo on alfworld, seed 0: it ends with 0 environment transitions"):
        match_budget(curve((0, 0), method="mcgpo"), curve((0, 10)))
    with pytest.raises(ValueError, match="both must be above 0"):
        budget_gap(0, 5)
