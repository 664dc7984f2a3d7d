"""Every method through the conformance checks, and against the formulas written row by row."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from creditlab_mcgpo import MCGPO
from creditlab_pair import Pair
from examples import e1, matched_contexts, plain_credit
from hypothesis import given, settings

from creditlab.credit.folds import All, Opposite, Same
from creditlab.credit.match import GraphState, Observation, RubricOnly, StateOnly, StateRubric
from creditlab.credit.normalise import normalise
from creditlab.credit.values import shared_groups
from creditlab.credit.weighting import Evidence, Uniform
from creditlab.hookspecs import Method, Rows
from creditlab.registry import registry
from creditlab.rollouts import Group
from creditlab.testing import METHOD_CHECKS, AuxiliaryOnly, check_method, move, random_groups, rows_of, siblings, walk
from creditlab.testing.conformance import Check, MakeMethod
from creditlab.testing.strategies import batches

MATCHES = (Observation(), GraphState(), StateRubric(), StateOnly(), RubricOnly())


def mcgpo(**options: object) -> MCGPO:
    pair = Pair(match=StateRubric(), fold=Opposite(), weighting=Evidence())
    return MCGPO(task=GraphGPO(match=GraphState()), pair=pair, **options)  # type: ignore[arg-type]


METHODS: dict[str, MakeMethod] = {
    "grpo": GRPO,
    "grpo-paper": lambda: GRPO(convention="paper"),
    "grpo-mean": lambda: GRPO(normalise="mean"),
    "grpo-row": lambda: GRPO(moments="row"),
    "grpo-first-row": lambda: GRPO(moments="first_row"),
    "graphgpo": lambda: GraphGPO(match=GraphState()),
    "graphgpo-paper": lambda: GraphGPO(match=GraphState(), convention="paper", all_failed="zero"),
    "graphgpo-delta": lambda: GraphGPO(match=GraphState(), exponent="delta", normalise="mean"),
    "mcgpo": mcgpo,
    "mcgpo-0": lambda: mcgpo(pair_weight=0.0),
    **{f"graphgpo-{m.name}": lambda m=m: GraphGPO(match=m) for m in MATCHES},
    **{f"pair-{m.name}": lambda m=m: AuxiliaryOnly(Pair(match=m, fold=Opposite(), weighting=Evidence())) for m in MATCHES},
    "pair-same": lambda: AuxiliaryOnly(Pair(match=StateRubric(), fold=Same(), weighting=Uniform())),
    "pair-all": lambda: AuxiliaryOnly(Pair(match=StateRubric(), fold=All(), weighting=Evidence())),
    "pair-progress": lambda: AuxiliaryOnly(
        Pair(match=StateRubric(), fold=Opposite(), weighting=Evidence(), labels="candidate_progress")
    ),
}


@pytest.mark.parametrize("check", METHOD_CHECKS.values(), ids=METHOD_CHECKS)
@pytest.mark.parametrize("make", METHODS.values(), ids=METHODS)
def test_conformance(make: MakeMethod, check: Check) -> None:
    check(make)


def test_the_random_batches_have_something_to_check() -> None:
    """Pairs, non-zero advantages, errors, invalid and untrained decisions all occur in the kit's batches."""
    sample = [Rows.from_groups(random_groups(np.random.default_rng(seed))) for seed in range(12)]
    credits = [mcgpo()(rows) for rows in sample]
    assert sum(len(c.auxiliary[0].pairs) for c in credits) > 12
    assert all(c.advantages.any() for c in credits)
    assert any(rows.error.any() for rows in sample)
    assert any((~rows.valid).any() and (~rows.parsed).any() and (~rows.trainable).any() for rows in sample)


class TestTheChecksCanFail:
    """Each wrong method below has one fault that one check must find."""

    @staticmethod
    def wrong(name: str) -> Method:
        def method(rows: Rows) -> object:
            if name == "not_finite":
                return GRPO()(replace(rows, reward=np.nan_to_num(rows.reward, posinf=1.0)))
            credit = GRPO()(rows)
            changed = {
                "shapes": lambda: credit.advantages[:-1],
                "determinism": lambda: credit.advantages + np.random.default_rng().random(len(rows)) * rows.trainable,
                "order": lambda: credit.advantages + rows.group * rows.trainable,
                "names": lambda: (
                    credit.advantages + np.array([len(rows.texts["action"][a]) for a in rows.action]) * rows.trainable
                ),
                "unrelated_groups": lambda: credit.advantages + rows.groups * rows.trainable,
                "singletons": lambda: GRPO(singleton="raw")(rows).advantages,
                "constant_groups": lambda: credit.advantages + (rows.reward > 0) * rows.trainable,
                "equal_siblings": lambda: credit.advantages + rows.slot * rows.trainable,
                "constant_states": lambda: credit.advantages + rows.turn * rows.trainable,
                "error_trajectories": lambda: credit.advantages + sum(rows.score[rows.error]) * rows.trainable,
                "untrained_decisions": lambda: credit.advantages + rows.valid.sum() * rows.trainable,
            }
            return replace(credit, advantages=np.asarray(changed[name]()))

        return method  # type: ignore[return-value]

    @pytest.mark.parametrize("name", METHOD_CHECKS)
    def test_each_check_finds_its_fault(self, name: str) -> None:
        with pytest.raises(AssertionError):
            METHOD_CHECKS[name](lambda: self.wrong(name))

    def test_check_method_runs_them_all(self) -> None:
        check_method(GRPO)
        with pytest.raises(AssertionError, match="unrelated group"):
            check_method(lambda: _per_update)
        check_method(lambda: _per_update, scope="update")
        with pytest.raises(AssertionError, match="equal siblings"):
            check_method(lambda: _per_turn)
        check_method(lambda: _per_turn, normalises="task")


def _per_turn(rows: Rows) -> object:
    """A method that compares the decisions of two or more trajectories over all turns: GRPO plus the centred turn."""
    credit = GRPO()(rows)
    turns = normalise(rows.turn.astype(float), rows.group, rows.groups, where=rows.trainable)
    return replace(credit, advantages=credit.advantages + np.where(shared_groups(rows)[rows.group], turns, 0.0))


def _per_update(rows: Rows) -> object:
    """A method of scope `update`: GRPO divided by the number of task groups."""
    credit = GRPO()(rows)
    return replace(credit, advantages=credit.advantages / rows.groups)


@settings(deadline=None, max_examples=200)
@given(batches())
def test_advantages_against_the_plain_transcription(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    plain = plain_credit.plain_rows(groups)
    np.testing.assert_allclose(GRPO()(rows).advantages, plain_credit.grpo(plain), rtol=1e-9, atol=1e-9)
    given_ = GraphGPO(match=GraphState())(rows).advantages
    np.testing.assert_allclose(given_, plain_credit.graphgpo(plain), rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=200)
@given(batches())
def test_mcgpo_leaves_graphgpos_advantages_untouched(groups: tuple[Group, ...]) -> None:
    rows = Rows.from_groups(groups)
    alone = GraphGPO(match=GraphState())(rows)
    for weight in (0.0, 1.0):
        credit = mcgpo(pair_weight=weight)(rows)
        np.testing.assert_array_equal(credit.advantages, alone.advantages)
        assert credit.auxiliary[0].weight == weight


def test_without_weight_pairs_are_still_built_and_logged() -> None:
    credit = mcgpo(pair_weight=0.0)(rows_of(matched_contexts()))
    assert credit.auxiliary[0].weight == 0
    assert credit.diagnostics["pairs/accepted"] == 3
    assert credit.diagnostics["singleton_rate"] > 0


def test_built_from_configuration_it_is_the_same_as_by_hand() -> None:
    """The pair weight counts once, and the pair gets the method's axes while the task keeps its own match."""
    rows = rows_of(matched_contexts())
    built = registry().create("method", "mcgpo", pair_weight=0.5, match="state_only", weighting="uniform")
    assert built.task == GraphGPO(match=GraphState())
    assert (built.pair.match, built.pair.fold, built.pair.weighting) == (StateOnly(), Opposite(), Uniform())
    (loss,) = built(rows).auxiliary
    assert loss.weight == 0.5
    assert loss.name == "pair"
    assert registry().create("method", "graphgpo") == GraphGPO(match=GraphState())
    assert registry().create("aux", "pair") == Pair(match=StateRubric(), fold=Opposite(), weighting=Evidence())


@pytest.mark.parametrize(
    ("method", "key"),
    [("graphgpo", "omega"), ("grpo", "coefficient"), ("mcgpo", "pair_weight")],
)
def test_impossible_options_are_refused_by_name(method: str, key: str) -> None:
    with pytest.raises(ValueError, match=rf"method\.{key}.*got -1"):
        registry().create("method", method, **{key: -1})


def test_duplicated_decisions_do_not_get_in() -> None:
    """Copies would enter the moments: the same turn twice, or the same trajectory twice, is refused at the door."""
    once = walk(move("A", "go"), move("B", "go"))
    twice = replace(once, steps=(once.steps[0], once.steps[0]))
    with pytest.raises(ValueError, match=r"trajectory 'g/0', turn 0: expected turn 1"):
        rows_of(siblings("g", twice))
    (group, other) = siblings("g", once), siblings("h", once)
    with pytest.raises(ValueError, match="trajectory id 'g/0' occurs twice"):
        rows_of(group, replace(other, trajectories=group.trajectories))


def test_the_same_observation_in_two_tasks_shares_no_baseline() -> None:
    """Both tasks show A and B; only inside its task does an edge from A have siblings."""
    rows = rows_of(
        siblings("g", walk(move("A", "go"), success=True), walk(move("B", "go"))),
        siblings("h", walk(move("A", "go")), walk(move("B", "go"), success=True)),
    )
    for match in MATCHES[:4]:
        step = GraphGPO(match=match, episode_weight=0.0)(rows)
        assert not step.advantages.any(), match
        assert step.diagnostics["singleton_rate"] == 1


def test_notebook_use() -> None:
    credit = GraphGPO(match=GraphState())(e1())
    assert credit.advantages.shape == (9,)
    assert credit.auxiliary == ()
