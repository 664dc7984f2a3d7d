"""Derived randomness: every random choice comes from a generator named by what it is for."""

from __future__ import annotations

import hashlib

import numpy as np


def derive(*names: int | str) -> np.random.Generator:
    """A generator that depends on the given names alone, such as (run seed, "sample", update, task, slot, turn)."""
    return np.random.Generator(np.random.Philox(key=number(*names)))


def number(*names: int | str) -> int:
    """A 63-bit number that depends on the given names alone."""
    text = "\0".join(f"{type(name).__name__}:{name}" for name in names)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def task_order(seed: int, update: int, count: int, size: int) -> list[int]:
    """Which of `size` training tasks an update takes: consecutive stretches of one shuffled order per pass over them."""
    places = [divmod(position, size) for position in range((update - 1) * count, update * count)]
    orders = {n: derive(seed, "task order", n).permutation(size) for n in {n for n, _ in places}}
    return [int(orders[n][index]) for n, index in places]
