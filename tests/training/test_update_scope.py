"""Methods of scope `update` give each decision the same credit on one rank and on two.

The ranks' exchange of bytes is played in one process here; `test_several_ranks.py` has it between two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.cli import compose_job
from creditlab.config import Job, required_features
from creditlab.credit.types import Credit
from creditlab.registry import registry
from creditlab.rollouts import Group, RolloutBatch, Rows, StopReason, Trajectory
from creditlab.rollouts.table import to_table
from creditlab.testing import random_groups
from creditlab.training import assign as module
from creditlab.training.assign import assign, own_part, scope_of_credit

LINES = [line for n in registry().names("method") if compose_job([line := f"method={n}"]).method.scope == "update"]
OVER_MCGPO = "method=covgpo method@base=mcgpo"


def rollouts(seed: int, groups: int, job: Job) -> tuple[Group, ...]:
    """Random groups with random features, named as a run names its groups, so that ranks can deal them out.

    One group in seven never succeeds, and the decisions of the others are many enough for pairs.
    """
    rng = np.random.default_rng(seed)
    made = random_groups(rng, groups=groups, slots=8, turns=10)
    features = [feature.name for feature in required_features(job)]
    out = []
    for index, group in enumerate(made):
        trajectories, hopeless = [], rng.random() < 0.15
        for t in group.trajectories:
            steps = (replace(s, features={n: rng.normal(size=6).astype(np.float32) for n in features}) for s in t.steps)
            named = replace(t, id=f"u1-{t.id}", steps=tuple(steps))
            trajectories.append(unsolved(named) if hopeless else named)
        out.append(replace(group, id=f"u1-g{index}", trajectories=tuple(trajectories)))
    return tuple(out)


def unsolved(t: Trajectory) -> Trajectory:
    """The same decisions without the success that they came to."""
    if t.stop is not StopReason.SUCCESS:
        return t
    return replace(t, stop=StopReason.FAILURE, score=0.0, steps=tuple(replace(s, reward=0.0) for s in t.steps))


def batch(groups: tuple[Group, ...]) -> RolloutBatch:
    return RolloutBatch(groups, update=1, seed=0, temperature=1.0)


def sent(groups: tuple[Group, ...]) -> bytes:
    """What a rank sends of its groups."""
    sink, table = pa.BufferOutputStream(), to_table(batch(groups))
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def test_the_methods_of_scope_update_are_these() -> None:
    assert LINES == ["method=ccpo", "method=covgpo"]


def test_ccpo_without_hidden_states_needs_no_exchange_between_ranks() -> None:
    """Its credit of a group is then that of the group alone, so that each rank computes its own."""
    job = compose_job(["method=ccpo", "method.hidden=false"])
    groups = rollouts(0, 4, job)
    rows, credit = assign(job, batch(groups))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "world_size", lambda: 2)
        patch.setattr(module, "gather_bytes", lambda _: pytest.fail("the rows of other ranks were asked for"))
        for share in (groups[:1], groups[1:]):
            own, part = assign(job, scope_of_credit(job, batch(share)))
            theirs = np.isin(rows.group, [rows.group_names.index(g.id) for g in share])
            assert np.array_equal(part.advantages, credit.advantages[theirs])
            assert len(own) == theirs.sum()


@pytest.mark.parametrize("line", [*LINES, OVER_MCGPO])
def test_one_rank_against_two(line: str) -> None:
    job, seen = compose_job(line.split()), Counter[str]()

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.integers(4, 6))
    def holds(seed: int, count: int) -> None:
        groups = rollouts(seed, count, job)
        rows, credit = assign(job, batch(groups))
        whole = dict(zip(decisions(rows), credit.advantages, strict=True))
        shares = [groups[r::2] for r in (0, 1)]
        sent_by, pairs = [sent(share) for share in shares], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "world_size", lambda: 2)
            patch.setattr(module, "gather_bytes", lambda _: sent_by)
            for number, share in enumerate(shares):
                patch.setattr(module, "rank", lambda number=number: number)
                own, part = own_part(*assign(job, scope_of_credit(job, batch(share))), batch(share))
                assert set(own.group_names) == {g.id for g in share}
                for decision, value in zip(decisions(own), part.advantages, strict=True):
                    assert value == whole[decision], "credit depends on the number of ranks"
                pairs.append(paired(own, part))
        assert sorted(pairs[0] + pairs[1]) == sorted(paired(rows, credit)), "pairs depend on the number of ranks"
        seen.update(examples=1, pairs=all(pairs), failed=credit.diagnostics.get("all_failed_groups", 0) > 0)

    holds()
    if "covgpo" in line:
        assert 6 * seen["failed"] > seen["examples"], "too few updates in which a whole group failed"
    if line == OVER_MCGPO:
        assert 2 * seen["pairs"] > seen["examples"], "too few updates with pairs on both ranks"


Decision = tuple[str, int]
"""Trajectory and turn."""


def decisions(rows: Rows) -> list[Decision]:
    return [(rows.trajectory_names[m], int(t)) for m, t in zip(rows.trajectory, rows.turn, strict=True)]


def paired(rows: Rows, credit: Credit) -> list[tuple[Decision, Decision]]:
    """The winner and the loser of every pair."""
    names = decisions(rows)
    return [(names[winner], names[loser]) for loss in credit.auxiliary for winner, loser in loss.pairs]
