"""Baselines over peers, ladders over histories and texts, and context kernels, against their definitions in plain loops."""

from __future__ import annotations

import difflib
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.credit.context import context_features, context_statistics, peer_means
from creditlab.credit.folds import All, LeaveOneOut, Opposite, OtherTrajectories, Same
from creditlab.credit.ladders import History, SimilarState, Turn, prefix_ids
from creditlab.credit.match import CoarseState, ExactState, Observation, ShuffledRubric, StateRubric, Task
from creditlab.credit.normalise import unit
from creditlab.credit.peers import is_peer, peer_mean
from creditlab.credit.segments import joint
from creditlab.credit.types import Peers
from creditlab.credit.values import coverage, fused_potential, novel
from creditlab.credit.weighting import ContextKernel, Depth, InverseVariance, Uniform
from creditlab.rollouts import Group, Rows
from creditlab.testing import move, rows_of, siblings, state, walk
from creditlab.testing.strategies import batches

FOLDS = (All(), LeaveOneOut(), OtherTrajectories(), Opposite(), Same())
EXAMPLES = settings(max_examples=60, deadline=None)


def admitted(fold: object, a: int, b: int, trajectory: np.ndarray, slot: np.ndarray, size: int) -> bool:
    """Whether sample b may be evidence for sample a, as the folds are defined."""
    half = lambda i: 2 * slot[trajectory[i]] >= size  # noqa: E731
    return {
        "all": True,
        "leave_one_out": a != b,
        "other_trajectories": trajectory[a] != trajectory[b],
        "opposite": half(a) != half(b),
        "same": half(a) == half(b),
    }[fold.name]  # type: ignore[attr-defined]


@pytest.mark.parametrize("fold", FOLDS, ids=[fold.name for fold in FOLDS])
def test_the_mean_over_peers_by_its_definition(fold: object) -> None:
    @EXAMPLES
    @given(batches(groups=2, slots=(4,), turns=4))
    def holds(groups: tuple[Group, ...]) -> None:
        rows = Rows.from_groups(groups)
        key = joint(rows.view("observation")[rows.state], rows.group)
        x = rows.reward + rows.turn
        mean, number = peer_mean(x, key, rows.trajectory, fold.peers(rows))  # type: ignore[attr-defined]
        mask = is_peer(rows.trajectory, fold.peers(rows))  # type: ignore[attr-defined]
        for a in range(len(rows)):
            fits = [admitted(fold, a, b, rows.trajectory, rows.trajectory_slot, 4) for b in range(len(rows))]
            same_group = rows.group == rows.group[a]
            assert mask[a][same_group].tolist() == np.array(fits)[same_group].tolist()
            peers = [x[b] for b in range(len(rows)) if key[b] == key[a] and fits[b]]
            assert number[a] == len(peers)
            assert mean[a] == pytest.approx(np.mean(peers) if peers else 0.0, abs=1e-12)

    holds()


def test_a_trajectory_of_no_class_is_nobodys_evidence_and_sees_nobody() -> None:
    peers = Peers(np.array([0, -1, 0]), np.array([0, 0, -1]))
    mean, number = peer_mean(np.array([1.0, 5.0, 3.0]), np.zeros(3, np.int64), np.arange(3), peers)
    assert number.tolist() == [2, 2, 0]
    assert mean.tolist() == [2, 2, 0]


def test_the_mean_of_equal_peers_is_exactly_their_value() -> None:
    for value in (9.9, 0.7, 0.1):
        for n in (2, 3, 6, 7):
            x = np.full(n, value)
            mean, _ = peer_mean(
                x, np.zeros(n, np.int64), np.arange(n), Peers(np.zeros(n, np.int64), np.zeros(n, np.int64), "itself")
            )
            assert (mean == value).all()


@EXAMPLES
@given(batches(groups=2, slots=(2, 4), turns=6), st.integers(0, 4))
def test_histories_by_their_definition(groups: tuple[Group, ...], past: int) -> None:
    rows = Rows.from_groups(groups)
    texts = {t.id: [s.views["observation"] for s in t.states] for g in groups for t in g.trajectories}
    windows, turn = [], []
    for index, trajectory in enumerate(rows.state_trajectory):
        t = index - int(np.flatnonzero(rows.state_trajectory == trajectory)[0])
        windows.append((rows.trajectory_group[trajectory], texts[rows.trajectory_names[trajectory]][: t + 1]))
        turn.append(t)
    levels = History(past=past).levels(rows)
    assert len(levels) == past + 1
    for level, depth in zip(levels, range(past + 1, 0, -1), strict=True):
        for a, b in combinations(range(len(windows)), 2):
            equal = windows[a][0] == windows[b][0] and windows[a][1][-depth:] == windows[b][1][-depth:]
            long = min(turn[a], turn[b]) + 1 >= depth
            assert (level.ids[a] == level.ids[b]) == (equal and long)


@EXAMPLES
@given(batches(groups=2, slots=(2, 4), turns=5))
def test_prefixes_hold_everything_seen_and_done(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    full = {}
    for group in groups:
        for t in group.trajectories:
            history: list[str] = []
            for turn, s in enumerate(t.states):
                history.append(s.views["observation"])
                full[t.id, turn] = (group.id, tuple(history))
                if turn < len(t.steps):
                    step = t.steps[turn]
                    history.append(step.action_key if len(step.response_ids) else "(nothing)")
    ids, keys = prefix_ids(rows), []
    for index, trajectory in enumerate(rows.state_trajectory):
        t = index - int(np.flatnonzero(rows.state_trajectory == trajectory)[0])
        keys.append(full[rows.trajectory_names[trajectory], t])
    assert len(set(zip(ids.tolist(), keys, strict=True))) == len(set(keys)) == len(set(ids.tolist()))


def test_levels_of_one_key() -> None:
    rows = rows_of(
        siblings("g", walk(move(state("a", exact="x", coarse="k"), "go"), end=state("b", exact="x", coarse="l"))),
        siblings("h", walk(move(state("a", exact="x", coarse="k"), "go"), end=state("c", exact="y", coarse="k"))),
    )
    for match, expected, resolution in (
        (ExactState(), [0, 0, 1, 2], 1.0), (CoarseState(), [0, 1, 2, 2], 0.7), (Task(), [0, 0, 1, 1], 1.0),
        (Turn(), [0, 1, 2, 3], 1.0),
    ):  # fmt: skip
        (level,) = match.levels(rows)
        assert level.resolution == resolution
        assert [level.ids.tolist().index(i) for i in level.ids] == [expected.index(e) for e in expected], match.name


TEXTS = (
    "You see a mug 1 and a cup 2 here.",
    "You see a mug 1 and a cup 3 here.",
    "The door is shut.",
    "You see a mug 7 and a cup 3 here.",
)


def test_similar_texts_join_the_first_founder_that_is_near_enough() -> None:
    rows = rows_of(
        siblings("g", walk(*[move(text, "a") for text in TEXTS], end=TEXTS[0])), siblings("h", walk(move(TEXTS[0], "a")))
    )
    ratio = lambda a, b: difflib.SequenceMatcher(None, a, b, autojunk=False).ratio()  # noqa: E731
    near, far = ratio(TEXTS[0], TEXTS[1]), ratio(TEXTS[0], TEXTS[3])
    assert far < near
    ids = SimilarState(threshold=near).levels(rows)[0].ids
    assert ids[0] == ids[1] == ids[4], "as similar as the threshold asks, or the same text again"
    assert len({ids[0], ids[2], ids[3]}) == 3, "the last text is near the second, which founded nothing"
    assert ids[5] != ids[0], "another task"
    assert len(set(SimilarState(threshold=0.0).levels(rows)[0].ids.tolist())) == 2
    exact = SimilarState(threshold=1.0).levels(rows)[0].ids
    assert [exact.tolist().index(i) for i in exact] == [0, 1, 2, 3, 0, 5, 6]


def test_similarity_does_not_depend_on_the_direction_or_on_frequent_characters() -> None:
    a, b = "e" * 300 + "abc", "abc" + "e" * 300
    for first, second in ((a, b), (b, a)):
        ids = SimilarState(threshold=0.95).levels(rows_of(siblings("g", walk(move(first, "x"), move(second, "x")))))[0].ids
        assert ids[0] == ids[1]


def rubric(done: int) -> dict[str, tuple[int, int]]:
    return {"goal_progress": (done, 9)}


def test_the_shuffled_rubric_is_the_same_rubric_in_other_places() -> None:
    """Within each group, over the decisions that were understood; the state's own fields stay."""
    names = [f"s{i}" for i in range(8)]
    moves = [move(state(n, rubric=rubric(i)), "a", parsed=i != 3) for i, n in enumerate(names)]
    rows = rows_of(siblings("g", walk(*moves, end=state("z", rubric=rubric(8)))), siblings("h", walk(*moves, end=state("z"))))
    changed, plain = (m.levels(rows)[0].ids for m in (ShuffledRubric(), StateRubric()))
    assert len(set(changed.tolist())) == len(set(plain.tolist()))
    shuffled = ShuffledRubric()._shuffled(rows)
    for group in (0, 1):
        decisions = rows.state[rows.group == group]
        assert sorted(shuffled[decisions]) == sorted(rows.rubric[decisions])
        assert shuffled[decisions[3]] == rows.rubric[decisions[3]]
        assert (shuffled[decisions] != rows.rubric[decisions]).any()
    alone = ShuffledRubric()._shuffled(rows_of(siblings("g", walk(*moves, end=state("z", rubric=rubric(8))))))
    assert shuffled[:9].tolist() == alone.tolist(), "another group changed the permutation"
    assert ShuffledRubric(seed=1)._shuffled(rows)[:9].tolist() != alone.tolist()


def test_depth_weights() -> None:
    depth = np.array([3, 2, 1])
    assert Depth(counting="matched").level(depth).tolist() == [4, 3, 2]
    assert Depth(counting="past").level(depth).tolist() == [3, 2, 1]
    assert Depth(counting="matched", alpha=2.0).level(depth).tolist() == [16, 9, 4]
    assert Depth(convention="reference").level(depth).tolist() == [4, 3, 2]
    assert Depth().level(depth).tolist() == Depth(convention="paper").level(depth).tolist() == [3, 2, 1]
    assert Uniform().level(depth).tolist() == [1, 1, 1]


def test_inverse_variance() -> None:
    """n/(s² + σ₀²): 4/(3 + 1), 2/(0 + 1), and nothing without samples."""
    weight = InverseVariance(prior_deviation=1.0).fuse(np.array([[3.0], [0.0], [5.0]]), np.array([[4], [2], [0]]))
    assert weight.ravel().tolist() == [1.0, 2.0, 0.0]
    assert Uniform().fuse(np.array([[3.0], [1.0]]), np.array([[4], [0]])).ravel().tolist() == [1.0, 0.0]


def test_the_kernel_by_its_definition() -> None:
    rng = np.random.default_rng(0)
    z = unit(rng.normal(size=(7, 5)))
    distance = np.array([[np.linalg.norm(a - b) for b in z] for a in z])
    median = np.median([distance[a, b] for a, b in combinations(range(7), 2)])
    np.testing.assert_allclose(ContextKernel().peer(z[None])[0], np.exp(-distance / (0.15 * median)), atol=1e-6)
    np.testing.assert_allclose(ContextKernel(kernel="cosine").peer(z[None])[0], (1 + z @ z.T) / 2, atol=1e-12)
    same = np.repeat(z[:1], 3, axis=0)[None]
    np.testing.assert_allclose(ContextKernel().peer(same)[0], np.ones((3, 3)), atol=1e-6)


@EXAMPLES
@given(batches(groups=2, slots=(2, 4), turns=5))
def test_weighted_means_over_peers_by_their_definition(groups: tuple[Group, ...]) -> None:
    """Same observation where two trajectories meet there, else the whole task; only other trajectories count."""
    rows = Rows.from_groups(groups)
    levels = (*Observation().levels(rows), *Task().levels(rows))
    z, target = context_features(rows, None), (rows.turn + 0.5 * rows.slot)[:, None].astype(np.float64)
    found = peer_means(rows, levels, z, target, OtherTrajectories().peers(rows), ContextKernel())
    trained = np.flatnonzero(rows.trainable)
    for a in trained:
        for level in levels:
            bucket = [b for b in trained if level.ids[rows.state[b]] == level.ids[rows.state[a]]]
            if len({rows.trajectory[b] for b in bucket}) > 1:
                break
        place = bucket.index(a)
        weight = ContextKernel().peer(z[bucket][None])[0, place]
        others = [i for i, b in enumerate(bucket) if rows.trajectory[b] != rows.trajectory[a]]
        assert found.supported[a] == bool(others)
        if others:
            w = weight[others]
            assert found.mean[a, 0] == pytest.approx(w @ target[np.array(bucket)[others], 0] / w.sum(), rel=1e-9, abs=1e-12)


def test_context_statistics_of_a_short_walk() -> None:
    """a b a: turns 0, 1, 2; distinct 1, 2, 2; the last one met before; shares 1, 1, 2/3 of 12 bits."""
    bits = context_statistics(rows_of(siblings("g", walk(move("a", "x"), move("b", "x"), move("a", "x")))))
    assert [b[:12].sum() for b in bits] == [0, 0, 0]  # ⌊12·2/30⌋ = 0
    assert [b[12:24].sum() for b in bits] == [0, 0, 0]  # ⌊12·2/25⌋ = 0
    assert [b[24:36].sum() for b in bits] == [12, 12, 8]
    assert bits[:, 36].tolist() == [0, 0, 1]


def test_hidden_states_lose_what_all_share() -> None:
    """A component common to all decisions, and the three strongest directions, are gone; what is left has length 1."""
    rng = np.random.default_rng(1)
    rows = rows_of(siblings("g", *[walk(*[move(f"s{i}{j}", "x") for i in range(6)]) for j in range(4)]))
    strong = np.linalg.qr(rng.normal(size=(10, 10)))[0]
    coordinates = rng.normal(size=(24, 10)) * np.array([50, 40, 30, 1, 1, 1, 1, 1, 1, 1])
    hidden = coordinates @ strong.T
    plain = context_features(rows, hidden.astype(np.float32))[:, :10]
    shifted = context_features(rows, (hidden + 7 * strong[:, 5]).astype(np.float32))[:, :10]
    np.testing.assert_allclose(plain, shifted, atol=1e-4)
    assert np.abs(plain @ strong[:, :3]).max() < 0.1 * np.abs(plain @ strong[:, 3:]).max()
    np.testing.assert_allclose(np.linalg.norm(context_features(rows, hidden.astype(np.float32)), axis=1), 1, atol=1e-12)


def test_coverage_counts_first_visits() -> None:
    """a b a c: new are b and c, two of three decisions."""
    rows = rows_of(
        siblings("g", walk(move("a", "x"), move("b", "x"), move("a", "x"), end="c"), walk(move("a", "x"), end="a"))
    )
    assert novel(rows).tolist() == [True, False, True, False]
    assert coverage(rows).tolist() == [pytest.approx(2 / 3), 0.0]


@EXAMPLES
@given(batches(groups=2, slots=(2, 4), turns=5))
def test_fused_potentials_by_their_definition(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    x, levels = rows.turn * 1.5 - rows.slot, History(past=1).levels(rows)
    potential, supported = fused_potential(rows, levels, x, OtherTrajectories().peers(rows), InverseVariance())
    trained = np.flatnonzero(rows.trainable)
    for a in trained:
        estimates = []
        for level in levels:
            peers = [
                x[b] for b in trained
                if level.ids[rows.state[b]] == level.ids[rows.state[a]] and rows.trajectory[b] != rows.trajectory[a]
            ]  # fmt: skip
            if peers:
                variance = np.var(peers, ddof=1) if len(peers) > 1 else 0.0
                estimates.append((np.mean(peers), len(peers) / (variance + 1.0)))
        assert supported[rows.state[a]] == bool(estimates)
        total = sum(w for _, w in estimates)
        expected = sum(m * w for m, w in estimates) / total if estimates else 0.0
        assert potential[rows.state[a]] == pytest.approx(expected, rel=1e-6, abs=1e-8)
