"""Named conventions: what `default`, `paper` and `reference` preset, in one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeVar, cast

Convention = Literal["default", "paper", "reference"]
"""`paper`: the formulas as published; `reference`: the published code, degenerate groups included; `default`: ours."""

PRESETS: Mapping[str, Mapping[Convention, str]] = {
    "singleton": {"default": "zero", "paper": "zero", "reference": "raw"},
    "moments": {"default": "trajectory", "paper": "trajectory", "reference": "row"},
    "penalty": {"default": "row_local", "paper": "trajectory_sum", "reference": "row_local"},
    "exponent": {"default": "code", "paper": "paper", "reference": "code"},
    "counting": {"default": "past", "paper": "past", "reference": "matched"},
    "goal": {"default": "positive", "paper": "positive", "reference": "exact"},
}

T = TypeVar("T")


def preset(field: str, convention: Convention, value: T | None) -> T:
    """The value of a field: its own when one is set, else the convention's."""
    return cast(Any, PRESETS[field][convention]) if value is None else value
