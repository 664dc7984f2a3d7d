"""Methods of scope `update` give each decision the same credit on one rank and on two.

The ranks' exchange of bytes is played in one process here; `test_several_ranks.py` has it between two.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.cli import compose_job
from creditlab.config import Job, required_features
from creditlab.registry import registry
from creditlab.rollouts import Group, RolloutBatch
from creditlab.rollouts.table import to_table
from creditlab.testing import random_groups
from creditlab.training import assign as module
from creditlab.training.assign import assign, own_part, scope_of_credit

LINES = [line for n in registry().names("method") if compose_job([line := f"method={n}"]).method.scope == "update"]


def rollouts(seed: int, groups: int, job: Job) -> tuple[Group, ...]:
    """Random groups with random features, named as a run names its groups, so that ranks can deal them out."""
    rng = np.random.default_rng(seed)
    made = random_groups(rng, groups=groups, slots=4, turns=5)
    features = [feature.name for feature in required_features(job)]
    out = []
    for index, group in enumerate(made):
        trajectories = []
        for t in group.trajectories:
            steps = (replace(s, features={n: rng.normal(size=6).astype(np.float32) for n in features}) for s in t.steps)
            trajectories.append(replace(t, id=f"u1-{t.id}", steps=tuple(steps)))
        out.append(replace(group, id=f"u1-g{index}", trajectories=tuple(trajectories)))
    return tuple(out)


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


@pytest.mark.parametrize("line", [*LINES, "method=covgpo method@base=mcgpo"])
def test_one_rank_against_two(line: str) -> None:
    job = compose_job(line.split())

    @settings(max_examples=200, deadline=None)
    @given(st.integers(0, 2**32 - 1), st.integers(2, 4))
    def holds(seed: int, count: int) -> None:
        groups = rollouts(seed, count, job)
        rows, credit = assign(job, batch(groups))
        whole = dict(zip(zip(rows.trajectory, rows.turn, strict=True), credit.advantages, strict=True))
        shares = [groups[r::2] for r in (0, 1)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(module, "world_size", lambda: 2)
            patch.setattr(module, "gather_bytes", lambda _: [sent(share) for share in shares])
            for number, share in enumerate(shares):
                patch.setattr(module, "rank", lambda number=number: number)
                own, part = own_part(*assign(job, scope_of_credit(job, batch(share))), batch(share))
                assert set(own.group_names) == {g.id for g in share}
                for m, t, value in zip(own.trajectory, own.turn, part.advantages, strict=True):
                    there = rows.trajectory_names.index(own.trajectory_names[m])
                    assert value == whole[there, t], "credit depends on the number of ranks"
                assert sum(len(a.pairs) for a in part.auxiliary) == sum(
                    int(np.isin(rows.group[a.pairs[:, 0]], [rows.group_names.index(g.id) for g in share]).sum())
                    for a in credit.auxiliary
                )

    holds()
