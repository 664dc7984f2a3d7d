"""In what the configurations of the entries differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from creditlab.analysis.tables import NOTHING, Table
from creditlab.config import VOLATILE
from creditlab.options import shown

Differences = dict[str, dict[str, Any]]
"""Key to value by entry; an entry without the key is left out."""
_BEFORE_CREDIT = ("env.", "model.", "prompt.", "engine.", "rollout.", "warm_start.", "learner.precision")
"""Keys that change what is played, before any credit is given."""
_ROUNDING = ("rollout.batch_size",)
"""Those of them that do not, but for rounding."""


def differences(configs: Mapping[str, Mapping[str, Any]]) -> Differences:
    """The keys whose values are not the same in all of the resolved configurations, which stand by entry.

    Where runs lie, how they are tracked and their seeds are no differences.
    """
    flat = {name: dict(_leaves(config)) for name, config in configs.items()}
    keys = dict.fromkeys(key for leaves in flat.values() for key in leaves if key.partition(".")[0] not in VOLATILE)
    found: Differences = {}
    for key in keys:
        values = {name: leaves[key] for name, leaves in flat.items() if key in leaves}
        if len(values) < len(flat) or any(value != next(iter(values.values())) for value in values.values()):
            found[key] = values
    return found


def differences_table(setting: str, configs: Mapping[str, Mapping[str, Any]]) -> Table:
    """The differences of a setting's entries as a table, one row per key."""
    rows = [
        (key, *(_cell(values[name]) if name in values else NOTHING for name in configs))
        for key, values in differences(configs).items()
    ]
    earlier = [key for key, *_ in rows if key.startswith(_BEFORE_CREDIT) and key not in _ROUNDING]
    notes = (f"Not credit alone: by {', '.join(earlier)} the first rollouts differ already.",) if earlier else ()
    return Table(f"Configuration differences, {setting}", ("key", *configs), tuple(rows), notes, labels=1)


def _cell(value: Any) -> str:
    return value if isinstance(value, str) else shown(value)


def _leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        elif value not in (None, {}):
            yield f"{prefix}{key}", value
