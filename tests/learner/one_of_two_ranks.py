"""One rank of two-rank updates; run by test_ranks.py with RANK, WORLD_SIZE and the address set, and a folder as argument."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from safetensors.torch import save_file
from tiny_batches import learner, permuted, train_batch, weights

from creditlab.learner.distributed import merge, rank

OPTIONS = {"lr": 1e-3, "steps": 3, "micro_batch": 5, "max_grad_norm": 0.1}
"""More steps than the second rank has rows for, so that it also runs steps without any."""
SHARE = 4
"""Rows of the second rank."""

STAGES = (0, 2)

NAMED = ({"accepted": 2, "share": 0.5, "only here": 1.5}, {"accepted": 0, "share": 1.0, "broken": float("nan")})
"""Diagnostics of the two ranks: the second had nothing to say of one of them, and something that is no number."""
MERGED = {"accepted": 2, "share": 0.75, "only here": 1.5}

if __name__ == "__main__":
    for stage in STAGES:
        trained = learner(**OPTIONS, zero_stage=stage)
        for seed in (0, 1):
            batch = train_batch(seed=seed, shift=0.3)
            mine = np.arange(len(batch))[:SHARE] if rank() else np.arange(len(batch))[SHARE:]
            result = trained.update(permuted(batch, mine), seed=seed)
            assert result.skipped is None, result.skipped
        assert merge(NAMED[rank()]) == MERGED
        found = weights(trained)
        if rank() == 0:
            save_file(found, Path(sys.argv[1]) / f"{stage}.safetensors")
