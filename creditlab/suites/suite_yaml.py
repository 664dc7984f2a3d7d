"""The YAML file of a suite as plain data: whatever a file may hold is read, or refused with one reason."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import yaml  # type: ignore[import-untyped]
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from creditlab.options import ConfigError

LARGEST: Final = 100_000
"""Values that a file may hold, those that aliases repeat included."""


def load(path: Path) -> Any:
    """The content of a YAML file; raises ConfigError that names the file and says what is wrong with it.

    Refused beside what is no YAML: aliases that hold themselves or stand for millions of values, nesting too deep to read,
    and halves of characters, which no file of a report can hold.
    """
    try:
        with path.open(encoding="utf-8") as file:
            node = yaml.compose(file, yaml.SafeLoader)
        if _count(node, {}) > LARGEST:  # before it is read, for OmegaConf copies whatever an alias stands for
            raise ConfigError(f"suite {path}: its aliases repeat themselves or more than {LARGEST} values; write them out")
        return OmegaConf.to_container(OmegaConf.load(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"suite {path} cannot be read: {error}") from None
    except UnicodeEncodeError as error:
        half = f"U+{ord(error.object[error.start]):04X}"
        raise ConfigError(f"suite {path}: {half} is half a character; write the whole one") from None
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise ConfigError(f"suite {path} is no valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"suite {path} is nested too deeply") from None


def _count(node: yaml.Node | None, known: dict[int, float]) -> float:
    """Values in a node, infinite where it holds itself; raises UnicodeEncodeError for half a character."""
    if isinstance(node, yaml.ScalarNode):
        node.value.encode()
        return 1
    if node is None or id(node) in known:
        return known.get(id(node), 0)
    known[id(node)] = math.inf  # until it is counted: what holds itself has no end
    inner = node.value if isinstance(node, yaml.SequenceNode) else [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_count(part, known) for part in inner)
    return known[id(node)]
