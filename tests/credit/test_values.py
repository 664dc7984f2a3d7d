"""Values of nodes and potentials: exact where all samples agree, blind to what was not trained on."""

from __future__ import annotations

import numpy as np
import pytest
from creditlab_g2po import G2PO

from creditlab.credit.folds import All
from creditlab.credit.graph import transition_graph
from creditlab.credit.match import GraphState, Observation
from creditlab.credit.types import Level
from creditlab.credit.values import fused_potential, node_value
from creditlab.credit.weighting import InverseVariance, Uniform
from creditlab.hookspecs import Rows
from creditlab.testing import move, rows_of, siblings, walk


def one_turn(reward: float, times: int) -> Rows:
    """A group of equal trajectories of one decision."""
    return rows_of(siblings("g", *[walk(move("A", "go", reward=reward), end="B")] * times))


@pytest.mark.parametrize("reward", [0.1, 0.7, 9.9])
def test_the_value_of_a_node_of_equal_visits_is_exactly_theirs(reward: float) -> None:
    for number in (2, 3, 6, 7):
        rows = one_turn(reward, number)
        node = Observation().levels(rows)[0].ids
        assert node_value(rows, node)[node[0]] == 0.95 * reward


def test_the_value_of_a_node_is_that_of_its_trained_visits() -> None:
    """A: 9.5 from the trained visit alone, not 4.75 with the other one; C is visited without training only: 0."""
    lost = walk(move("A", "go", trainable=False), move("C", "x", trainable=False), end="D")
    rows = rows_of(siblings("g", walk(move("A", "go"), success=True), lost))
    node = Observation().levels(rows)[0].ids
    assert node_value(rows, node)[node[rows.state]].tolist() == [9.5, 9.5, 0.0]
    assert np.isfinite(G2PO(match=Observation())(rows).advantages).all()


def test_a_transition_that_was_not_trained_on_is_still_an_edge() -> None:
    """Graph distances are facts about the environment: A → B → goal holds whoever wrote the response."""
    won = walk(move("A", "go"), move("B", "fin", trainable=False), success=True)
    rows = rows_of(siblings("g", won, walk(move("A", "stay"), end="A")))
    assert transition_graph(rows, GraphState().levels(rows)[0].ids).source_distance.tolist() == [2, 1, 2]


@pytest.mark.parametrize("weighting", [Uniform(), InverseVariance(prior_deviation=0.3)])
def test_the_fusion_of_equal_estimates_is_exactly_their_value(weighting: Uniform | InverseVariance) -> None:
    """Three levels that say the same, with 2, 4 and 7 samples."""
    rows = one_turn(0.0, 7)
    state = rows.state
    for value in (0.1, 0.7, 9.9):
        levels = []
        for number in (2, 4, 7):
            ids = np.arange(len(rows.state_trajectory), dtype=np.int64)
            ids[state[:number]] = state[0]
            levels.append(Level(f"first{number}", ids))
        potential, _ = fused_potential(rows, levels, np.full(7, value), All().peers(rows), weighting)
        assert (potential[state] == value).all()


def test_the_variance_of_an_estimate_survives_a_large_mean() -> None:
    """10⁶ and 10⁶ ± 10⁻³: the sample variance is 10⁻⁶, of which E[x²] − E[x]² would leave nothing."""
    seen: list[np.ndarray] = []

    class Spy(Uniform):
        def fuse(self, variance: np.ndarray, support: np.ndarray) -> np.ndarray:
            seen.append(variance)
            return super().fuse(variance, support)

    rows = one_turn(0.0, 3)
    x = 1e6 + np.array([-1e-3, 0.0, 1e-3])
    fused_potential(rows, Observation().levels(rows), x, All().peers(rows), Spy())
    np.testing.assert_allclose(seen[0], np.full((1, 3), 1e-6), rtol=1e-3)
