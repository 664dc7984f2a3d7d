"""What the doctor found, one item a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from creditlab.doctor.probe import Answer


class Status(StrEnum):
    """How an item fares."""

    OK = "ok"
    ABSENT = "-"
    """Optional, and not there."""
    WARNING = "warn"
    """There, but it will not do what it is for."""
    BROKEN = "FAIL"
    """The base needs it."""


@dataclass(frozen=True)
class Item:
    """One finding."""

    section: str
    name: str
    status: Status
    text: str
    remedy: str = ""
    """The command that helps, or what to set."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The same as numbers and names, for the JSON form."""


def unknown(section: str, name: str, part: str, said: Answer, status: Status = Status.BROKEN) -> Item:
    """A part of the package that could not say anything."""
    reason = said.facts.get(f"{part} failed") or f"the process that was asked {said.ending or 'said nothing'}"
    return Item(section, name, status, f"not known: {reason}")
