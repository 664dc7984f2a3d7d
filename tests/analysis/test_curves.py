"""What one evaluation curve says: its end, its area, when it reaches a level; and curves that cannot be."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.analysis.curves import Curve, CurveError, Reached, final, last_k, normalised_auc, reach


def curve(**changes: Any) -> Curve:
    facts: dict[str, Any] = {
        "method": "mcgpo",
        "setting": "alfworld",
        "seed": 1,
        "updates": (0, 5, 10, 20),
        "values": (10.0, 30.0, 20.0, 40.0),
    }
    return Curve(**(facts | changes))


def test_l_k_is_the_mean_of_the_last_scheduled_evaluations() -> None:
    """(20 + 40) / 2, (10 + 30 + 20 + 40) / 4; the update between two evaluations does not matter."""
    assert last_k(curve(), 2) == 30.0
    assert last_k(curve(), 4) == 25.0


def test_l5_refuses_four_evaluations() -> None:
    with pytest.raises(ValueError, match=r"^mcgpo on alfworld, seed 1: 4 evaluations, the mean of the last 5 needs 5; "):
        last_k(curve())
    with pytest.raises(ValueError, match="needs 5; last=4 takes what there is"):
        last_k(curve())
    with pytest.raises(ValueError, match="take at least 1"):
        last_k(curve(), 0)


def test_the_final_evaluation_is_the_last() -> None:
    assert final(curve()) == 40.0


def test_auc_is_the_trapezoid_over_the_span() -> None:
    """5·20 + 5·25 + 10·30 = 525 over 20 updates; a plain mean of the values would be 25."""
    assert normalised_auc(curve()) == 26.25
    with pytest.raises(ValueError, match="one evaluation has no area"):
        normalised_auc(curve(updates=(5,), values=(1.0,)))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=9), st.floats(-50, 50), st.integers(1, 9))
def test_auc_moves_with_its_values_and_ignores_the_clock(values: list[float], shift: float, stretch: int) -> None:
    updates = tuple(range(len(values)))
    plain = normalised_auc(curve(updates=updates, values=tuple(values)))
    stretched = curve(updates=tuple(3 + stretch * at for at in updates), values=tuple(value + shift for value in values))
    assert normalised_auc(stretched) == pytest.approx(plain + shift, abs=1e-9)
    assert min(values) - 1e-9 <= plain <= max(values) + 1e-9


def test_reaching_a_level_is_its_first_evaluation_at_or_above_it() -> None:
    counted = curve(transitions=(0, 700, 1500, 2600), seconds=(0.5, 9.0, 19.0, 40.0))
    assert reach(counted, 30.0) == Reached(5, 700, 9.0)
    assert reach(counted, 30.5) == Reached(20, 2600, 40.0)
    assert reach(curve(), 10.0) == Reached(0, None, None)
    assert reach(counted, 40.1) is None


def test_holding_a_level_means_never_falling_below_it_again() -> None:
    """30 at update 5 falls to 20 at update 10; from 20 on the curve of 20, 40 stays at or above 20 from update 5."""
    assert reach(curve(), 30.0, held=True) == Reached(20, None, None)
    assert reach(curve(), 20.0, held=True) == Reached(5, None, None)
    assert reach(curve(values=(50.0, 50.0, 50.0, 10.0)), 50.0, held=True) is None


def test_a_curve_up_to_an_update_and_of_a_family() -> None:
    whole = curve(transitions=(0, 1, 2, 3), seconds=(0.0, 1.0, 2.0, 3.0), families={"heat": (1.0, 2.0, 3.0, 4.0)})
    part = whole.until(12)
    assert (part.updates, part.values, part.transitions) == ((0, 5, 10), (10.0, 30.0, 20.0), (0, 1, 2))
    assert part.seconds == (0.0, 1.0, 2.0)
    assert part.family("heat").values == (1.0, 2.0, 3.0)
    with pytest.raises(CurveError, match="holds no evaluation"):
        curve(updates=(5, 10), values=(1.0, 2.0)).until(4)


@pytest.mark.parametrize(
    ("changes", "message", "field", "index"),
    [
        ({"updates": (), "values": ()}, "mcgpo on alfworld, seed 1: it holds no evaluation", "updates", -1),
        ({"updates": (0, 5, 5, 20)}, "update 5 is evaluated twice", "updates", 2),
        ({"updates": (0, 10, 5, 20)}, "update 5 comes after update 10; sort the evaluations", "updates", 2),
        ({"updates": (-1, 5, 10, 20)}, "update -1 is below 0", "updates", 0),
        ({"values": (1.0, math.nan, 2.0, 3.0)}, "values at update 5: nan is no finite number", "values", 1),
        ({"values": (1.0, 2.0, math.inf, 3.0)}, "values at update 10: inf is no finite number", "values", 2),
        ({"values": (1e13, 2.0, 3.0, 4.0)}, "values at update 0: 10000000000000.0 is beyond any result", "values", 0),
        ({"values": (1.0, 2.0)}, "4 evaluations, but 2 values", "values", -1),
        ({"transitions": (0, 9, 8, 10)}, "transitions fall from 9 to 8 at update 10", "transitions", 2),
        ({"transitions": (0, 9)}, "4 evaluations, but 2 transitions", "transitions", -1),
        ({"seconds": (-1.0, 0.0, 0.0, 0.0)}, "seconds fall from 0 to -1.0 at update 0", "seconds", 0),
        ({"seconds": (0.0, 1.0, math.nan, 2.0)}, "seconds at update 10: nan", "seconds", 2),
        ({"families": {"heat": (1.0,)}}, "4 evaluations, but 1 family heat", "family heat", -1),
        ({"seed": -1}, "a seed is at least 0", "seed", -1),
        ({"method": " "}, "a curve has no method", "method", -1),
        ({"setting": ""}, "a curve has no setting", "setting", -1),
    ],
)
def test_a_curve_that_cannot_be_is_named(changes: dict[str, Any], message: str, field: str, index: int) -> None:
    with pytest.raises(CurveError) as caught:
        curve(**changes)
    assert message in str(caught.value)
    assert (caught.value.field, caught.value.index) == (field, index)
