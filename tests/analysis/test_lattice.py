"""Printed rates restored to their counts, against rounding every count."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.analysis.lattice import lattice_count, restored


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5000), st.data(), st.sampled_from([ROUND_HALF_UP, ROUND_HALF_EVEN]))
def test_every_count_is_found_from_its_rounded_rate(total: int, data: st.DataObject, rounding: str) -> None:
    """Below 10 000 episodes two counts lie further apart than two decimals can blur."""
    count = data.draw(st.integers(0, total))
    printed = (Decimal(100 * count) / total).quantize(Decimal("0.01"), rounding)
    assert lattice_count(str(printed), total) == count
    assert restored(float(printed), total) == 100 * count / total


def test_a_rate_between_two_counts_is_refused() -> None:
    """589/640 is 92.03125 %, 590/640 is 92.1875 %."""
    with pytest.raises(ValueError, match=r"92.10 % is no k/640 rounded to 2 decimals"):
        lattice_count("92.10", 640)
    with pytest.raises(ValueError, match=r"101 % is no k/640"):
        lattice_count("101", 640)


def test_too_few_decimals_are_ambiguous() -> None:
    """92.0 % with one decimal is 11.5 steps wide at 12 000 episodes."""
    with pytest.raises(ValueError, match=r"92.0 % is ambiguous: 11034/12000 to 11046/12000 all print so"):
        lattice_count("92.0", 12_000, digits=1)
    with pytest.raises(ValueError, match=r"100 % is ambiguous: 199/200 to 200/200 all print so"):
        lattice_count("100", 200, digits=0)
    # both neighbours of a halfway point print as it does, one rounded up and one down
    with pytest.raises(ValueError, match="ambiguous: 0/10000 to 1/10000"):
        lattice_count("0.005", 10_000)


@pytest.mark.parametrize("text", ["", "abc", "nan", "inf", "1/0"])
def test_what_is_no_rate_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is no rate in percent"):
        lattice_count(text, 640)


def test_a_lattice_needs_episodes() -> None:
    with pytest.raises(ValueError, match="0 episodes"):
        lattice_count("50.00", 0)
