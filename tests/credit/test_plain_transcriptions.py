"""Every method against its formulas written row by row, on batches with everything that may happen in a rollout."""

from __future__ import annotations

import numpy as np
import pytest
from examples import plain_context, plain_credit
from hypothesis import assume, given, settings

from creditlab.registry import registry
from creditlab.rollouts import Group, Rows
from creditlab.testing.conformance import featured
from creditlab.testing.strategies import batches

TRANSCRIPTIONS = {
    "rloo": plain_credit.rloo,
    "gigpo": plain_credit.gigpo,
    "hgpo": plain_credit.hgpo,
    "g2po": plain_credit.g2po,
    "ccpo": plain_context.ccpo,
    "covgpo": plain_context.covgpo,
    "progpo": plain_context.progpo,
    "bipace": plain_context.bipace,
}
OPTIONS = {"ccpo": {"hidden": False}}


@pytest.mark.parametrize("name", TRANSCRIPTIONS)
@settings(deadline=None, max_examples=200)
@given(batches(turns=6))
def test_advantages(name: str, groups: tuple[Group, ...]) -> None:
    method = registry().create("method", name, **OPTIONS.get(name, {}))
    groups = featured(lambda: method, groups)
    expected = TRANSCRIPTIONS[name](plain_credit.plain_rows(groups))
    np.testing.assert_allclose(method(Rows.from_groups(groups)).advantages, expected, rtol=1e-8, atol=1e-8)


@settings(deadline=None, max_examples=200)
@given(batches(slots=(4, 8)))
def test_ccpo_with_hidden_states(groups: tuple[Group, ...]) -> None:
    """Six different vectors span more than the three directions that are taken out; of fewer only rounding may be left."""
    method = registry().create("method", "ccpo")
    groups = featured(lambda: method, groups)
    rows = Rows.from_groups(groups)
    assume(len(np.unique(rows.features["reference_hidden"][rows.trainable], axis=0)) > 5)
    expected = plain_context.ccpo(plain_credit.plain_rows(groups), hidden="reference_hidden")
    np.testing.assert_allclose(method(rows).advantages, expected, rtol=1e-6, atol=1e-6)
