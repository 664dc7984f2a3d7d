"""One rank of two-rank updates, with the ranks' variables set; what it came to goes into a folder."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save_file
from several_ranks import BF16, STAGES, UNEVEN, train
from tiny_batches import tokenizer

from creditlab.learner.distributed import add_up, gather_texts, merge, rank
from creditlab.learner.state import gather_state

NAMED = ({"accepted": 2, "share": 0.5, "only here": 1.5}, {"accepted": 0, "share": 1.0, "broken": float("nan")})
"""Diagnostics of the two ranks: the second had nothing to say of one of them, and something that is no number."""


def update(folder: Path) -> None:
    """Three updates for every ZeRO stage, and the collectives that they do not show."""
    runs = {name: (of, {"zero_stage": stage}) for name, (stage, of) in STAGES.items()}
    for name, (of, options) in {**runs, BF16: (UNEVEN, {"zero_stage": 2, "precision": "bf16"})}.items():
        trained = train(of[rank()], **options)
        weights, state = trained.weights, gather_state(trained.learner)
        if rank() == 0:
            save_file(trained.gradient, folder / f"{name}-gradient.safetensors")
            save_file(weights, folder / f"{name}-weights.safetensors")
            state.write(tokenizer(), folder / name)
    assert merge(NAMED[rank()]) == {"accepted": 2, "share": 0.75, "only here": 1.5}
    assert add_up({f"{rank()}": 1.0, "both": 2.0}) == {"0": 1.0, "1": 1.0, "both": 4.0}
    assert gather_texts("ü" * rank()) == ["", "ü"]
