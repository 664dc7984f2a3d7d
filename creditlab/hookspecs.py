"""The contract with plug-ins: the first file a plug-in author reads.

A plug-in is a module named by an entry point in the group `creditlab`. It implements one or more of the hooks below with
`@hookimpl`. A component is a frozen dataclass: its fields are its hyper-parameters, every field has a default and a
docstring, and class variables say where it stands:

* `axis` and `name`: the config group and the name in it (`method=grpo`);
* `axes`: the axes it uses, each with its default part (`{"match": "graph_state"}`);
* `parts`: nested components, name to (axis, name) (`{"task": ("method", "graphgpo")}`);
* `calls`: per axis, the capabilities it needs of that part (`{"weighting": ("pair",)}`);
* `needs`: what the rollouts must provide (`group` for siblings, `rubric`); an environment lists what it `provides`;
* `views`: of a match rule, the views of states that it reads; an environment may list those that its states carry;
* `requires`: what the loop has to keep or compute for it, a class variable or a property: `reference` (the frozen start of
  the run beside the policy) or a `Feature` (a hidden state per decision);
* `scope`: `group` or `update`; a property where it depends on options.

Built parts arrive as fields declared with `part()`; they are no hyper-parameters. An option `<part>_weight` of the owner
sets the option `weight` of that part; an auxiliary loss as a part uses its owner's axes. An option `convention` follows the
top-level `convention` unless it is set. A component with a method `check_group_size(size)` may refuse a group size with a
ValueError before anything is collected.

What a plug-in needs of creditlab is below, in `creditlab.credit` and in `creditlab.testing`; it imports no other module. An
environment is written with `Environment`, its base, and what that one's methods take and give: `Task`, `Panel`, `Episode`,
`Transition`, `Expert`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import pluggy

from creditlab.credit.types import (
    Auxiliary,
    AuxiliaryLoss,
    Credit,
    Feature,
    Fold,
    FuseWeighting,
    Level,
    LevelWeighting,
    LossView,
    MatchRule,
    Method,
    PairWeighting,
    PeerFold,
    Peers,
    PeerWeighting,
    Preferences,
    Scope,
    Shaping,
    Split,
)
from creditlab.environments.panels import freeze_panel
from creditlab.environments.protocol import Environment, Episode, Expert, Panel, Task
from creditlab.rollouts import GOAL, Channel, Rows, State, Transition, View

PROJECT = "creditlab"
AXES = ("match", "fold", "weighting")
"""The axes a method may use; each is a config group at the top level."""
GROUPS = ("env", "model", "engine", "learner", "tracking", "aux", "shaping", *AXES, "method")
"""Every config group that components fill."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

_PART = "creditlab.part"


def part() -> Any:  # a dataclass field, of whatever type the annotation gives it
    """Declares a field that the builder fills with a built part (an axis, or an entry of `parts`)."""
    return dataclasses.field(default=None, kw_only=True, repr=False, metadata={_PART: True})


def is_part(field: dataclasses.Field[Any]) -> bool:
    """Whether a field was declared with `part()`."""
    return bool(field.metadata.get(_PART))


@hookspec
def creditlab_components() -> Iterable[type]:  # type: ignore[empty-body]
    """The component classes of this plug-in."""


@hookspec
def creditlab_config() -> Iterable[str]:  # type: ignore[empty-body]
    """Hydra search paths of this plug-in's own configuration files, such as `pkg://my_package.conf`."""


@hookspec
def creditlab_listeners(run: Any) -> Iterable[Any]:  # type: ignore[empty-body]
    """Listeners to the events of a run (`creditlab.tracking.Listener`); `run` describes it (`creditlab.tracking.Run`)."""


__all__ = [
    "AXES",
    "GOAL",
    "GROUPS",
    "Auxiliary",
    "AuxiliaryLoss",
    "Channel",
    "Credit",
    "Environment",
    "Episode",
    "Expert",
    "Feature",
    "Fold",
    "FuseWeighting",
    "Level",
    "LevelWeighting",
    "LossView",
    "MatchRule",
    "Method",
    "PairWeighting",
    "Panel",
    "PeerFold",
    "PeerWeighting",
    "Peers",
    "Preferences",
    "Rows",
    "Scope",
    "Shaping",
    "Split",
    "State",
    "Task",
    "Transition",
    "View",
    "creditlab_components",
    "creditlab_config",
    "creditlab_listeners",
    "freeze_panel",
    "hookimpl",
    "hookspec",
    "is_part",
    "part",
]
