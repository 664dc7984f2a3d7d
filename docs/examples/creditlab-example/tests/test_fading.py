"""The method's own arithmetic, and the checks that every method must pass."""

from __future__ import annotations

import numpy as np
import pytest
from creditlab_example import Fading

from creditlab.testing import METHOD_CHECKS, move, rows_of, siblings, walk


def test_a_win_and_a_loss_by_hand() -> None:
    """Returns 10 and 0: mean 5, sample deviation √50, so the last decisions get ±5/√50 = ±1/√2 and the first half of it."""
    won, lost = walk(move("A", "go"), move("B", "finish"), success=True), walk(move("A", "wait"))
    credit = Fading(gamma=0.5)(rows_of(siblings("task", won, lost)))
    unit = 5 / (np.sqrt(50) + 1e-6)
    np.testing.assert_allclose(credit.advantages, [0.5 * unit, unit, -unit], rtol=1e-12)


@pytest.mark.parametrize("check", METHOD_CHECKS.values(), ids=METHOD_CHECKS)
def test_conformance(check) -> None:
    check(Fading)
