"""The columns on the way to the totals of the worked examples: every number is the specification's or follows from it."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from creditlab_g2po import G2PO
from creditlab_gigpo import GiGPO
from creditlab_graphgpo import GraphGPO
from examples import e1, matched_contexts

from creditlab.credit.compare import compare
from creditlab.credit.context import context_features, context_statistics, peer_means
from creditlab.credit.folds import OtherTrajectories, Same
from creditlab.credit.graph import edge_return, transition_graph
from creditlab.credit.match import GraphState, Observation, StateRubric
from creditlab.credit.normalise import normalise
from creditlab.credit.preferences import label_pairs
from creditlab.credit.values import terminal_discounted
from creditlab.credit.weighting import ContextKernel, Evidence
from creditlab.testing import move, rows_of, siblings, walk


def test_the_returns_that_gigpo_compares() -> None:
    x = GiGPO(match=Observation()).step_return(e1(), 0.95)
    np.testing.assert_allclose(x, [9.025, 9.5, 10, 0, 0, 0, 0, -0.1, 0], atol=1e-12)


def test_the_returns_that_graphgpo_compares() -> None:
    rows = e1()
    graph = transition_graph(rows, GraphState().levels(rows)[0].ids)
    x = edge_return(graph, 0.1) - GraphGPO(match=GraphState()).step_penalty(rows)
    np.testing.assert_allclose(x, [0.1, 1, 10, 0.1, 0.01, 0.01, 1, 0.9, 0.01], rtol=1e-12)


def test_the_two_terms_of_g2po() -> None:
    rows, method = e1(), G2PO(match=Observation())
    levels = method.match.levels(rows)
    here, after = method._values(rows, levels[0].ids)
    node = compare(rows, levels, after - method.step_penalty(rows)).advantage
    edge = normalise(after - here, rows.group, rows.groups, where=rows.trainable)
    node_centric = [0.5773, 0.7071, 1.1018, 0.5773, -0.7071, 0, -1.1547, -0.2516, -0.8502]
    edge_centric = [0.4610, -0.4636, 2.0570, 0.4610, -1.4394, -0.0488, 0.0463, -0.0488, -1.0247]
    np.testing.assert_allclose(node, node_centric, atol=6e-5)
    np.testing.assert_allclose(edge, edge_centric, atol=6e-5)
    total = G2PO(match=Observation(), episode_weight=0.0)(rows).advantages
    np.testing.assert_allclose(total, node + edge, rtol=1e-12)


def test_the_baselines_and_potentials_of_ccpo() -> None:
    path = [move(s, "a") for s in "xyz"]
    rows = rows_of(siblings("C", walk(*path, success=True), walk(*path)))
    z = terminal_discounted(rows, 0.95)
    y = z / 0.95
    levels, peers = Observation().levels(rows), OtherTrajectories().peers(rows)
    found = peer_means(rows, levels, context_features(rows, None), np.stack([y, z], axis=1), peers, ContextKernel())
    np.testing.assert_allclose(y, [9.025, 9.5, 10, 0, 0, 0], rtol=1e-12)
    np.testing.assert_allclose(found.mean[:, 0], [0, 0, 0, 9.025, 9.5, 10], rtol=1e-12)
    np.testing.assert_allclose(found.mean[:, 1], [0, 0, 0, 8.57375, 9.025, 9.5], rtol=1e-12)
    assert found.supported.all()


@pytest.mark.parametrize(
    ("distinct", "bits"),
    [
        (12, [*range(6), *range(12, 17), *range(24, 33), 36]),
        (8, [*range(6), *range(12, 15), *range(24, 30), 36]),
    ],
)
def test_the_feature_check_of_ccpo(distinct: int, bits: list[int]) -> None:
    """(t, u, revisit, novelty) = (15, 12, 1, 0.5) gives 6 + 5 + 6 + 1 ones. No walk has u = 12 and half of 16 turns new, so
    u = 12 shows the first, second and last block, and u = 8 the third."""
    names = [f"s{i % distinct}" for i in range(16)]
    statistics = context_statistics(rows_of(siblings("g", walk(*[move(name, "a") for name in names]))))
    assert statistics.shape[1] == 37
    assert np.flatnonzero(statistics[15]).tolist() == bits


def test_every_confidence_that_four_pieces_of_evidence_can_give() -> None:
    """1/9, 1/6, 2/9, 1/4, 1/3, 1/2, over all ways in which four records share two actions and win."""
    found = set()
    for n, m in product((1, 2, 3), repeat=2):
        for wins_n, wins_m in product(range(n + 1), range(m + 1)):
            contrast = abs(wins_n / n - wins_m / m)
            if n + m <= 4 and contrast >= 0.1:
                [c] = Evidence().pair(np.array([contrast]), np.array([min(n, m)]), np.ones(1))
                found.add(round(float(c), 12))
    assert sorted(found) == pytest.approx([1 / 9, 1 / 6, 2 / 9, 1 / 4, 1 / 3, 1 / 2])


def test_what_evidence_of_the_own_fold_weighs() -> None:
    """(0, 1) keeps its sign with 1/3, and (1, 2), a tie before, becomes 2 ≻ 1 with 0.7/6."""
    rows = rows_of(matched_contexts())
    levels = StateRubric().levels(rows)
    pairs, _ = label_pairs(rows, levels, Same().splits(rows))
    resolution = np.array([level.resolution for level in levels])[pairs.level]
    weight = Evidence().pair(np.abs(pairs.margin) / pairs.scale, pairs.support, resolution)
    slots = zip(rows.slot[pairs.low].tolist(), rows.slot[pairs.high].tolist(), strict=True)
    c = {slot: float(sign * w) for slot, sign, w in zip(slots, np.sign(pairs.margin), weight, strict=True)}
    assert (c[0, 1], c[1, 2]) == (pytest.approx(1 / 3), pytest.approx(-0.7 / 6))
