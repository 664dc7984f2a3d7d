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
