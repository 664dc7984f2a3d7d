"""Values in the grammar of Hydra's overrides: read from a command line and written for one."""

from __future__ import annotations

from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import HydraException

from creditlab.options import ConfigError, shown

LARGEST_SEED = 2**32 - 1
"""More than this not every generator of random numbers takes."""


def written(value: Any) -> str:
    """A plain value in the grammar of overrides."""
    if isinstance(value, str):
        return QuotedString(text=value, quote=Quote.single).with_quotes()
    if isinstance(value, (list, tuple)):
        return f"[{','.join(map(written, value))}]"
    return shown(value)


def read_value(key: str, text: str) -> Any:
    """The value of `key=text` as Hydra reads it, strings without their quotes; raises ConfigError where it cannot."""
    try:
        override = OverridesParser.create().parse_override(f"{key}={text}")
    except HydraException:
        raise ConfigError(f"cannot read {key}={text}: write {key}=value, and quote what holds spaces or commas") from None
    if override.is_sweep_override():
        raise ConfigError(f"{key}={text} gives several values; write [a,b] for a list")
    return override.value()


def check_seeds(seeds: Any, wrong: str) -> tuple[int, ...]:
    """One seed or a list of different ones, 0 to `LARGEST_SEED`; raises ConfigError that begins with `wrong` for others."""
    found = seeds if isinstance(seeds, list) else [seeds]
    fit = all(type(seed) is int and 0 <= seed <= LARGEST_SEED for seed in found)
    if not found or not fit or len(set(found)) < len(found):
        raise ConfigError(f"{wrong}: write different whole numbers from 0 on, up to {LARGEST_SEED}, as in seeds=[0,1,2]")
    return tuple(found)


def gives_several(override: str) -> bool:
    """Whether an override gives several values, as for a sweep; what cannot be read gives none."""
    try:
        return bool(OverridesParser.create().parse_override(override).is_sweep_override())
    except HydraException:
        return False
