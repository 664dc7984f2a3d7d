"""Two ranks with unequal shares of the decisions take the steps that one rank takes with all of them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from one_of_two_ranks import OPTIONS, STAGES
from safetensors.torch import load_file
from tiny_batches import largest_difference, learner, train_batch, weights


def test_two_ranks_train_like_one(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    script = Path(__file__).with_name("one_of_two_ranks.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, str(script), str(tmp_path)],
            env={**os.environ, "RANK": str(r), "LOCAL_RANK": str(r), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                 "MASTER_PORT": port},
            stderr=subprocess.PIPE,
            text=True,
        )
        for r in range(2)
    ]  # fmt: skip
    try:
        for process in ranks:
            _, errors = process.communicate(timeout=120)
            assert process.returncode == 0, errors[-3000:]
    finally:
        for process in ranks:
            process.kill()
    alone = learner(**OPTIONS)
    for seed in (0, 1):
        alone.update(train_batch(seed=seed, shift=0.3), seed=seed)
    for stage in STAGES:
        assert largest_difference(weights(alone), load_file(tmp_path / f"{stage}.safetensors")) < 1e-6
