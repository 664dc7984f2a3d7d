from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from examples import E1_ROWS, e1, e2
from hypothesis import given, settings

from creditlab.credit.graph import transition_graph
from creditlab.credit.match import GraphState, Observation, StateOnly
from creditlab.rollouts import GOAL, Group, Rows
from creditlab.testing import move, rows_of, siblings, state, walk
from creditlab.testing.strategies import batches


def graphgpo(**options: object) -> GraphGPO:
    return GraphGPO(match=GraphState(), **options)  # type: ignore[arg-type]


def step_term(rows: Rows, **options: object) -> np.ndarray:
    return graphgpo(episode_weight=0.0, **options)(rows).advantages


def distances(rows: Rows) -> dict[str, int]:
    nodes = rows.view("graph")
    graph = transition_graph(rows, nodes)
    return {text: int(graph.distance[id]) for id, text in enumerate(rows.texts["graph"]) if text != "the end"}


E1_STEP = {
    "code": [-0.5773, 0.7071, 1.1510, -0.5773, -0.7071, 0, 1.1547, -0.4950, -0.6560],
    "paper": [-0.5773, 0.7071, 1.1547, -0.5773, -0.7071, 0, 1.1547, -0.5782, -0.5765],
    "omega": [-0.5773, 0.7071, 1.1374, -0.5773, -0.7071, 0, 1.1547, -0.3964, -0.7410],
    "unpenalised": [-0.5773, 0.7071, 1.1500, -0.5773, -0.7071, 0, 1.1547, -0.4851, -0.6649],
}
E1_ROW_EPISODE = [0.7560, 2.0404, 2.4843, -1.2407, -1.3704, -0.6633, 0.4914, -1.1783, -1.3193]
E1_TRAJECTORY_EPISODE = [0.5773, 1.8618, 2.3056, -1.1461, -1.2758, -0.5687, 0.5688, -1.0809, -1.2419]


def test_worked_example_distances() -> None:
    assert distances(e1()) == {"A": 2, "B": 2, "C": 1, "D": 3, "E": 3}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, E1_STEP["code"]),
        ({"exponent": "paper"}, E1_STEP["paper"]),
        ({"omega": 0.2}, E1_STEP["omega"]),
        ({"penalise_step": False}, E1_STEP["unpenalised"]),
    ],
)
def test_worked_example_step_term(options: dict[str, object], expected: list[float]) -> None:
    np.testing.assert_allclose(step_term(e1(), **options), expected, atol=6e-5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"moments": "row"}, E1_ROW_EPISODE),
        ({"convention": "reference"}, E1_ROW_EPISODE),
        ({"moments": "trajectory", "penalty": "trajectory_sum"}, E1_TRAJECTORY_EPISODE),
        ({"convention": "paper", "exponent": "code"}, E1_TRAJECTORY_EPISODE),
    ],
)
def test_worked_example_total(options: dict[str, object], expected: list[float]) -> None:
    np.testing.assert_allclose(graphgpo(**options)(e1()).advantages, expected, atol=1.1e-4)


def test_a_failed_trajectorys_shortcut_is_rewarded() -> None:
    """The method's signature: r fails, yet its A → C beats the A → B of the success."""
    step = dict(zip(E1_ROWS, step_term(e1()), strict=True))
    assert step["r0"] > 0 > step["p0"]


def test_all_failed_example() -> None:
    """Every distance is 1, so what remains of the step term is the penalty of u1 in the group of B."""
    rows = e2()
    assert distances(rows) == {"A": 1, "B": 1, "Z": 1}
    np.testing.assert_allclose(step_term(rows), [0, -0.7071, 0, 0, 0.7071], atol=6e-5)
    np.testing.assert_array_equal(step_term(rows, penalise_step=False), np.zeros(5))
    np.testing.assert_array_equal(step_term(rows, all_failed="zero"), np.zeros(5))
    episode = GRPO(moments="row")(rows).advantages
    np.testing.assert_allclose(episode, [0.4472, -1.7888, 0.4472, 0.4472, 0.4472], atol=6e-5)


def test_all_failed_zero_leaves_solved_groups_alone() -> None:
    np.testing.assert_array_equal(step_term(e1(), all_failed="zero"), step_term(e1()))


DAMPING = {
    0.1: [0.7071, 0.7071, 0.7071, 0.7070, 0.7060, 0.6962, 0.6111, 0.2750, 0.0423, 0.0045, 0.0004, 0.0000, 0.0000],
    0.2: [0.7071, 0.7071, 0.7071, 0.7071, 0.7070, 0.7067, 0.7052, 0.6975, 0.6614, 0.5256, 0.2594, 0.0734, 0.0160],
}


def far_choice(k: int, *others: bool) -> Rows:
    """From S one edge leads to distance k, and the others back to S, at distance k + 1; `others` says which are valid."""
    chain = walk(move("S", "go"), *[move(f"C{d}", "go") for d in range(k, 0, -1)], success=True)
    return rows_of(siblings("g", chain, *(walk(move("S", "stay", valid=valid), end="S") for valid in others)))


@pytest.mark.parametrize("omega", DAMPING)
@pytest.mark.parametrize("k", range(13))
def test_epsilon_damps_the_signal_far_from_the_goal(k: int, omega: float) -> None:
    step = step_term(far_choice(k, True), omega=omega)
    np.testing.assert_allclose([step[0], step[-1]], [DAMPING[omega][k], -DAMPING[omega][k]], atol=6e-5)


@pytest.mark.parametrize(
    ("k", "expected"),
    [
        (0, [1.1546, -0.5678, -0.5869]),
        (1, [1.1499, -0.4842, -0.6657]),
        (2, [0.982, 0.0351, -1.0171]),
        (3, [0.6501, 0.5014, -1.1515]),
    ],
)
def test_one_invalid_row_swamps_its_group_far_from_the_goal(k: int, expected: list[float]) -> None:
    step = step_term(far_choice(k, True, False))
    np.testing.assert_allclose([step[0], *step[-2:]], expected, atol=6e-5)


def test_a_state_that_reads_like_the_goal_is_not_the_goal() -> None:
    """An environment that prints "success" in a failed episode must not put that episode at distance 0."""
    for text in ("success", "SUCCESS", "GOAL", str(GOAL)):
        failed = walk(move("A", "go"), end=text)
        rows = rows_of(siblings("g", failed, walk(move("A", "stay"), move("B", "finish"), success=True)))
        assert distances(rows) == {"A": 2, text: 3, "B": 1}


def test_the_goal_is_linked_by_the_environments_own_return() -> None:
    """Shaping changes rewards but neither adds nor removes a way to the goal."""
    rows = e1()
    shaped = rows.with_rewards(rows.reward - 5.0)
    before, after = (transition_graph(r, r.view("graph")) for r in (rows, shaped))
    np.testing.assert_array_equal(before.distance, after.distance)
    assert (before.target == GOAL).tolist() == [False, False, True] + [False] * 6


def test_a_positive_return_links_to_the_goal_whatever_the_success_flag_says() -> None:
    graded = walk(move("A", "go", reward=0.5), end="B")
    unpaid = walk(move("C", "go", reward=0.0), end="D", success=True)
    assert distances(rows_of(siblings("g", graded, unpaid))) == {"A": 1, "B": 2, "C": 2, "D": 2}


def test_only_the_last_decision_of_a_success_leads_to_the_goal() -> None:
    rows = rows_of(siblings("g", walk(move("A", "go", reward=10.0), move("B", "stay"), end="C", success=True)))
    assert distances(rows) == {"A": 2, "B": 1, "C": 3}


def test_tasks_share_no_node() -> None:
    """The same names in another task, solved there, open no way here."""
    solved = siblings("solved", walk(move("A", "go"), success=True), walk(move("A", "go"), success=True))
    failed = siblings("failed", walk(move("A", "go"), end="A"), walk(move("A", "go"), end="B"))
    rows = rows_of(solved, failed)
    graph = transition_graph(rows, GraphState().levels(rows)[0].ids)
    assert graph.source_distance.tolist() == [1, 1, 1, 1]
    assert graph.target_distance.tolist() == [0, 0, 1, 1]
    assert graph.solved.tolist() == [True, False]


def test_cycles_and_self_loops() -> None:
    loop = walk(move("A", "x"), move("B", "x"), move("A", "x"), move("A", "y"), move("C", "fin"), success=True)
    assert distances(rows_of(siblings("g", loop))) == {"A": 2, "B": 3, "C": 1}


def test_peers_are_taken_at_the_most_specific_level_where_trajectories_meet() -> None:
    """x meets only itself at the exact level, twice, so its rows are compared under the coarse key."""
    first = walk(move(state("x", coarse="k"), "go"), move(state("x", coarse="k"), "go"), success=True)
    second = walk(move(state("y", coarse="k"), "stay"), end=state("z", coarse="z"))
    rows = rows_of(siblings("g", first, second))
    # Nodes are exact: d(x) = 1, so both rows of `first` lead to d = 1 and the goal; y leads to d(z) = 2.
    value = np.array([1.0, 10.0, 0.1])
    expected = (value - value.mean()) / (value.std(ddof=1) + 1e-6)
    given = GraphGPO(match=StateOnly(), episode_weight=0.0)(rows)
    np.testing.assert_allclose(given.advantages, expected, rtol=1e-12)
    assert given.diagnostics["group_size"] == 3


def test_an_unrecorded_view_is_refused_by_name() -> None:
    rows = replace(e1(), views={"observation": e1().view("observation")})
    with pytest.raises(ValueError, match="no state view 'graph'; recorded views: observation"):
        graphgpo()(rows)
    GraphGPO(match=Observation())(rows)


@settings(deadline=None)
@given(batches(turns=3))
def test_the_three_forms_agree_without_penalty_near_the_goal(groups: tuple[Group, ...]) -> None:
    """They differ by one factor per state, which the deviation takes out, as long as returns stay far above ε."""
    rows = Rows.from_groups(groups)
    forms = [step_term(rows, exponent=form, omega=0.5, coefficient=0.0) for form in ("code", "paper", "delta")]
    np.testing.assert_allclose(forms[1], forms[0], atol=1e-4)
    np.testing.assert_allclose(forms[2], forms[0], atol=1e-4)


@settings(deadline=None)
@given(batches())
def test_without_the_graph_term_it_is_grpo(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    np.testing.assert_array_equal(graphgpo(graph_weight=0.0)(rows).advantages, GRPO()(rows).advantages)


@settings(deadline=None)
@given(batches(turns=6))
def test_distances_solve_the_shortest_path_equations(groups: tuple[Group, ...]) -> None:
    """d(s) = 1 + min over edges of d(s′), with 0 at the goal; farthest + 1 exactly where no edge sequence reaches it."""
    rows = Rows.from_groups(groups)
    nodes = GraphState().levels(rows)[0].ids
    graph = transition_graph(rows, nodes)
    group = dict(zip(nodes.tolist(), rows.state_group.tolist(), strict=True))
    edges: dict[int, set[int]] = {}
    for source, target in zip(graph.source.tolist(), graph.target.tolist(), strict=True):
        edges.setdefault(source, set()).add(target)
    reachable = {s for s, targets in edges.items() if GOAL in targets}
    while more := {s for s, targets in edges.items() if targets & reachable} - reachable:
        reachable |= more
    for node, g in group.items():
        if node in reachable:
            nearest = min(0 if t == GOAL else int(graph.distance[t]) for t in edges[node])
            assert graph.distance[node] == nearest + 1
        else:
            farthest = max((int(graph.distance[n]) for n in reachable if group[n] == g), default=0)
            assert graph.distance[node] == farthest + 1
