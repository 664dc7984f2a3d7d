"""Row by row against the published implementations, all variants of all batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from creditlab_g2po import G2PO
from creditlab_gigpo import GiGPO
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from creditlab_hgpo import HGPO
from creditlab_rloo import RLOO
from reference_batches import assert_equal, load, rows_from

from creditlab.credit.folds import LeaveOneOut
from creditlab.credit.graph import edge_return, transition_graph
from creditlab.credit.ladders import History
from creditlab.credit.match import GraphState, Observation
from creditlab.credit.returns import discounted_return
from creditlab.credit.weighting import Depth
from creditlab.hookspecs import Method, Rows

SAMPLES = {"row": "row", "traj": "first_row", "once": "trajectory"}
MODES = {"std": "mean_std", "nostd": "mean", "mean": "mean"}
PENALTIES: dict[str, dict[str, Any]] = {
    "pen": {"penalty": "row_local", "coefficient": 0.1},
    "pensum": {"penalty": "trajectory_sum", "coefficient": 0.1},
    "nopen": {"coefficient": 0.0},
}


@pytest.fixture(scope="module")
def batches() -> list[tuple[dict[str, Any], Rows]]:
    return [(batch, rows_from(batch)) for batch in load()]


def grpo(samples: str, mode: str, penalty: str) -> Method:
    return GRPO(convention="reference", moments=SAMPLES[samples], normalise=MODES[mode], **PENALTIES[penalty])


def rloo(samples: str, penalty: str) -> Method:
    return RLOO(convention="reference", moments=SAMPLES[samples], fold=LeaveOneOut(), **PENALTIES[penalty])


def gigpo(mode: str, part: str, penalty: str) -> Method:
    return GiGPO(convention="reference", normalise=MODES[mode], match=Observation(), **weights(part), **PENALTIES[penalty])


def hgpo(past: str, mode: str, base: str, penalty: str) -> Method:
    return HGPO(
        convention="reference",
        normalise=MODES[mode],
        base_group={"base": True, "nobase": False}[base],
        match=History(past=int(past[1:])),
        weighting=Depth(convention="reference"),
        **PENALTIES[penalty],
    )


def graphgpo(omega: str, distance: str, mode: str, part: str, penalty: str) -> Method:
    return GraphGPO(
        convention="reference",
        omega=float(omega[1:]),
        exponent={"abs": "code", "delta": "delta"}[distance],
        normalise=MODES[mode],
        match=GraphState(),
        **weights(part),
        **PENALTIES[penalty],
    )


def g2po(mode: str, part: str, penalty: str, *_: str) -> Method:
    return G2PO(convention="reference", normalise=MODES[mode], match=Observation(), **weights(part), **PENALTIES[penalty])


def weights(part: str) -> dict[str, float]:
    """A variant gives one term of the sum, or the total."""
    return {"episode": {"step_weight": 0.0}, "step": {"episode_weight": 0.0}, "total": {}}[part]


FAMILIES: dict[str, Callable[..., Method]] = {
    "grpo": grpo, "rloo": rloo, "gigpo": gigpo, "hgpo": hgpo, "graphgpo": graphgpo, "g2po": g2po
}  # fmt: skip


def method_of(variant: str) -> Method:
    """The method and options that a golden variant such as `graphgpo/g0.1/abs/std/total/pen` stands for."""
    family, *fields = variant.split("/")
    return FAMILIES[family](*fields)


def test_the_files_hold_what_they_should(batches: list[tuple[dict[str, Any], Rows]]) -> None:
    assert len(batches) == 57
    assert sum(len(rows) for _, rows in batches) == 665 + 3352
    assert {v.split("/")[0] for batch, _ in batches for v in batch["expected"]} == set(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_variant_of_every_batch(batches: list[tuple[dict[str, Any], Rows]], family: str) -> None:
    compared = undefined = 0
    for batch, rows in batches:
        for variant, expected in batch["expected"].items():
            if variant.split("/")[0] == family:
                credit = method_of(variant)(rows)
                # where the published code gives NaN, ours gives 0 and counts the decision
                wanted = [0.0 if value is None else value for value in expected]
                assert_equal(credit.advantages, wanted, f"{batch['name']}, {variant}")
                assert credit.diagnostics.get("undefined", 0) == sum(value is None for value in expected), variant
                undefined += sum(value is None for value in expected)
                compared += 1
    assert compared == 57 * {"grpo": 12, "rloo": 6, "gigpo": 12, "hgpo": 16, "graphgpo": 20, "g2po": 8}[family]
    assert undefined == {"g2po": 8}.get(family, 0), "two tasks of one row, four variants with a deviation"


def test_distances_and_graph_returns(batches: list[tuple[dict[str, Any], Rows]]) -> None:
    for batch, rows in batches:
        graph = transition_graph(rows, GraphState().levels(rows)[0].ids)
        aux = batch["aux"]
        np.testing.assert_array_equal(graph.source_distance, aux["graph_distance/state"], err_msg=batch["name"])
        np.testing.assert_array_equal(graph.target_distance, aux["graph_distance/next"], err_msg=batch["name"])
        for name in [key for key in aux if key.startswith("graph_return/")]:
            _, omega, form = name.split("/")
            exponent = {"abs": "code", "delta": "delta"}[form]
            assert_equal(edge_return(graph, float(omega[1:]), exponent), aux[name], f"{batch['name']}, {name}")


def test_discounted_returns(batches: list[tuple[dict[str, Any], Rows]]) -> None:
    for batch, rows in batches:
        assert_equal(discounted_return(rows, 0.95), batch["aux"]["discounted_return/0.95"], batch["name"])


def test_the_default_convention_gives_no_artefacts_on_degenerate_batches(batches: list[tuple[dict[str, Any], Rows]]) -> None:
    """Constant groups of 6, 7 and 8 equal rewards, where the published float32 code is up to 0.95 off, are exactly 0."""
    constant = {"equal_rewards_9.9", "equal_rewards_9.9_six_seven_eight", "all_success_valid", "all_fail_valid"}
    seen = 0
    for batch, rows in batches:
        if batch["name"] in constant:
            assert not GRPO()(rows).advantages.any(), batch["name"]
            seen += 1
    assert seen == len(constant)
