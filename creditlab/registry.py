"""Discovery of plug-ins and look-up of components by axis and name."""

from __future__ import annotations

import dataclasses
import functools
import importlib.util
from collections.abc import Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pluggy

from creditlab import hookspecs
from creditlab.hookspecs import AXES, GROUPS, PROJECT
from creditlab.options import ConfigError, clipped, did_you_mean, options_model, part_names, shown, validate

__all__ = ["Component", "ConfigError", "Registry", "part_names", "registry"]

Node = Mapping[str, Any]
BASE = "base"
"""Part of a wrapper that stands at the top level of a configuration, chosen with `method@base=`."""


@dataclasses.dataclass(frozen=True)
class Component:
    """A registered component class and the plug-in it came from."""

    axis: str
    name: str
    cls: type
    package: str

    @property
    def axes(self) -> Mapping[str, str]:
        """The axes it uses, each with its default."""
        return getattr(self.cls, "axes", {})

    @property
    def parts(self) -> Mapping[str, tuple[str, str]]:
        """Its nested parts, name (dotted for a part's own axis) to (axis, name)."""
        return getattr(self.cls, "parts", {})

    @property
    def needs(self) -> tuple[str, ...]:
        """What the rollouts must provide."""
        return tuple(getattr(self.cls, "needs", ()))

    def defaults(self) -> dict[str, Any]:
        """Its options and their default values, as plain JSON values."""
        return options_model(self.cls)().model_dump(mode="json")


class Registry:
    """All components found, and the plug-ins that failed to load with their reasons."""

    def __init__(self) -> None:
        self.plugins = pluggy.PluginManager(PROJECT)
        self.plugins.add_hookspecs(hookspecs)
        self.components: dict[tuple[str, str], Component] = {}
        self.config_paths: list[str] = []
        """Hydra search paths of the plug-ins' own configuration."""
        self.failed: dict[str, str] = {}

    def load(self) -> Registry:
        """Loads every entry point of the group `creditlab`; a broken one is recorded and the rest go on."""
        found = {
            f"{entry.dist.name}:{entry.name}" if entry.dist else entry.name: entry for entry in entry_points(group=PROJECT)
        }
        # of two components of one name the first stays: ours, so that no installed package changes what a name means
        for package, entry in sorted(found.items(), key=lambda item: (not item[0].startswith(f"{PROJECT}:"), item[0])):
            try:
                self.add(entry.load(), package)
            except KeyboardInterrupt:  # the user's
                raise
            except BaseException as error:  # one broken plug-in must not stop the others, whatever it raised
                self.failed[package] = f"{type(error).__name__}: {clipped(' '.join(str(error).split()))}".removesuffix(": ")
        self._drop_incomplete()
        return self

    def add(self, plugin: Any, package: str) -> None:
        """Registers one plug-in whole or not at all.

        Raises PluginValidationError on a misspelt hook, ValueError or TypeError on a malformed component.
        """
        if earlier := self.plugins.get_name(plugin):
            raise ValueError(f"it is the module of {earlier} under a second name; remove one of the two entry points")
        self.plugins.register(plugin, name=package)
        try:
            self.plugins.check_pending()
            if not self.plugins.get_hookcallers(plugin):
                raise ValueError("it implements no hook; mark its creditlab_components with @hookimpl")
            found = [_component(cls, package) for cls in self._ask(plugin, "creditlab_components")]
            paths = [_search_path(path) for path in self._ask(plugin, "creditlab_config")]
            new: dict[tuple[str, str], Component] = {}
            for component in found:
                other = self.components.get((component.axis, component.name)) or new.get((component.axis, component.name))
                if other:
                    raise ValueError(f"{component.axis}={component.name} is already provided by {other.package}")
                new[component.axis, component.name] = component
        except BaseException:  # a hook may call sys.exit
            self.plugins.unregister(name=package)
            raise
        self.components.update(new)
        self.config_paths += paths

    def _ask(self, plugin: Any, hook: str) -> list[Any]:
        """What this plug-in alone answers to a hook."""
        callers = getattr(self.plugins.hook, hook).get_hookimpls()
        return [answer for caller in callers if caller.plugin is plugin for answer in caller.function()]

    def _drop_incomplete(self) -> None:
        """Leaves out components whose default axes or parts nobody provides, such as those of a plug-in that failed."""
        while broken := [(c, wanted) for c in self.components.values() if (wanted := self._lacking(c))]:
            for component, (axis, name) in broken:
                del self.components[component.axis, component.name]
                reason = f"{component.axis}={component.name} needs {axis}={name}, which no working plug-in provides"
                self.failed[component.package] = "; ".join(filter(None, (self.failed.get(component.package), reason)))

    def _lacking(self, component: Component) -> tuple[str, str] | None:
        wanted = [*component.axes.items(), *component.parts.values()]
        return next((need for need in wanted if need not in self.components), None)

    def names(self, axis: str) -> list[str]:
        """Names of the components of an axis, sorted."""
        return sorted(name for group, name in self.components if group == axis)

    def find(self, axis: str, name: str) -> Component:
        """The component of that name; raises ConfigError listing what exists."""
        if (axis, name) not in self.components:
            raise ConfigError(self.unknown(axis, name))
        return self.components[axis, name]

    def unknown(self, axis: str, name: str) -> str:
        """The message for a component that does not exist."""
        names = self.names(axis)
        message = f"unknown {axis} {name!r}{did_you_mean(name, names)}; available: {', '.join(names) or 'none'}"
        if self.failed:
            message += f". Failed to load: {'; '.join(f'{k} ({v})' for k, v in self.failed.items())}"
        return message

    def build(self, axis: str, node: Node | str, where: str = "", **axes: Any) -> Any:
        """Builds a component from its configuration node (or name), nested parts first.

        `axes` are built parts of the owner (match, fold, weighting). A part uses the axes in its own node where it has
        them, else its owner's. Raises ConfigError naming the key.
        """
        where = where or axis
        options = _as_node(node, where)
        component = self.find(axis, str(options.pop("name", "")))
        options = {k: v for k, v in options.items() if k not in component.axes or v is not None}
        names = [*component.axes, *(name for name in component.parts if "." not in name)]
        nested = {name: _as_node(options.pop(name), f"{where}.{name}") for name in names if name in options}
        unused = next((a for a in AXES if a in options and a not in options_model(component.cls).model_fields), None)
        if unused:
            raise ConfigError(f"{unused_axis(component, unused)}; remove {where}.{unused} with ~{unused}@{where}.{unused}")
        values = validate(component.cls, options, where, names)
        own = {a: self.build(a, nested[a], f"{where}.{a}") for a in component.axes if a in nested}
        built = {a: own.get(a, axes.get(a)) for a in component.axes}
        missing = next((a for a, part in built.items() if part is None), None)
        if missing:
            available = ", ".join(self.names(missing))
            raise ConfigError(f"{axis}={component.name} needs {missing}; choose one of: {available}")
        self._check_calls(component, built)
        for name, (group, _) in component.parts.items():
            if "." not in name:
                part = self._part_node(component, name, nested.get(name, {}))
                if f"{name}_weight" in values:
                    if "weight" in part:
                        raise ConfigError(f"unknown key '{where}.{name}.weight'; the weight is {where}.{name}_weight")
                    part["weight"] = values[f"{name}_weight"]
                place = BASE if name == BASE else f"{where}.{name}"
                built[name] = self.build(group, part, place, **{**axes, **own})
        try:
            return component.cls(**values, **{k: v for k, v in built.items() if k in part_names(component.cls)})
        except ValueError as error:  # what a component finds wrong with the combination of its options
            raise ConfigError(str(error)) from None

    def create(self, axis: str, name: str, /, **options: Any) -> Any:
        """A component with its defaults, for notebooks and tests: `create("method", "graphgpo", match="observation")`."""
        component = self.find(axis, name)
        chosen = {a: options.pop(a, default) for a, default in component.axes.items()}
        axes = {a: self.build(a, value) if isinstance(value, (str, Mapping)) else value for a, value in chosen.items()}
        return self.build(axis, {"name": name, **options}, **axes)

    def able(self, axis: str, capabilities: Iterable[str]) -> list[str]:
        """Names of the components of an axis that implement all of these, sorted."""
        return [
            name
            for name in self.names(axis)
            if all(callable(getattr(self.find(axis, name).cls, c, None)) for c in capabilities)
        ]

    def _check_calls(self, component: Component, axes: Mapping[str, Any]) -> None:
        for axis, capabilities in getattr(component.cls, "calls", {}).items():
            chosen = axes.get(axis)
            missing = next((c for c in capabilities if not callable(getattr(chosen, c, None))), None)
            if missing:
                name, able = getattr(chosen, "name", chosen), self.able(axis, capabilities)
                raise ConfigError(
                    f"{component.axis}={component.name} calls {axis}.{missing}, which {axis}={name} does not implement; "
                    f"choose one of: {', '.join(able) or 'none'}"
                )

    def _part_node(self, component: Component, name: str, given: Node) -> dict[str, Any]:
        """The node of a nested part: what is given, else what its owner declares, with the part's own axes."""
        node: dict[str, Any] = {"name": component.parts[name][1], **given}
        for key, (axis, choice) in component.parts.items():
            if key == f"{name}.{axis}" and axis in self.find(component.parts[name][0], node["name"]).axes:
                node.setdefault(axis, choice)
        return node


def unused_axis(component: Component, axis: str) -> str:
    """The message for an axis that a component does not use."""
    return f"{component.axis}={component.name} does not use {axis}; axes it uses: {', '.join(component.axes) or 'none'}"


@functools.cache
def registry() -> Registry:
    """The process-wide registry, built on first use so that launcher children build it too."""
    return Registry().load()


def _component(cls: type, package: str) -> Component:
    """Checks the shape of a component class; a malformed one raises ValueError or TypeError with its name."""
    if not isinstance(cls, type):
        raise TypeError(f"creditlab_components must return classes, got {cls!r}")
    label = f"component {cls.__name__}"
    if not dataclasses.is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{label} must be a frozen dataclass")
    axis, name = getattr(cls, "axis", None), getattr(cls, "name", None)
    if axis not in GROUPS or not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{label} needs class variables axis (one of {', '.join(GROUPS)}) and name (an identifier)")
    _check_declarations(cls, label)
    component = Component(axis, name, cls, package)
    unknown = set(component.axes) - set(AXES)
    if unknown:
        raise ValueError(f"{label} declares unknown axes {sorted(unknown)}; axes are {', '.join(AXES)}")
    unfilled = part_names(cls) - set(component.axes) - set(component.parts)
    if unfilled:
        raise ValueError(f"{label}: {sorted(unfilled)} are declared with part(), but are neither in its axes nor its parts")
    validate(cls, {}, label)
    try:
        component.defaults()
    except ValueError as error:  # of pydantic, whose first line says what it could not write
        raise ValueError(f"{label}: a default is no plain value: {str(error).splitlines()[0]}") from None
    return component


def _check_declarations(cls: type, label: str) -> None:
    """Raises TypeError for class variables of another shape than every command takes for granted."""
    axes, parts, needs = getattr(cls, "axes", {}), getattr(cls, "parts", {}), getattr(cls, "needs", ())
    if not isinstance(axes, Mapping) or not all(isinstance(default, str) for default in axes.values()):
        raise TypeError(f"{label}: axes must map an axis to the name of its default, got {axes!r}")
    pairs = [*parts.values()] if isinstance(parts, Mapping) else [None]
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise TypeError(f"{label}: parts must map a name to a pair of axis and name, got {parts!r}")
    if not isinstance(needs, (tuple, list)) or not all(isinstance(need, str) for need in needs):
        raise TypeError(f"{label}: needs must be a tuple of names, got {needs!r}")


def _search_path(path: object) -> str:
    """A Hydra search path that exists; Hydra itself passes over one that does not."""
    kind, _, place = str(path).partition("://")
    if not isinstance(path, str) or kind not in ("pkg", "file") or not place:
        raise ValueError(f"creditlab_config must return search paths such as 'pkg://my_package.conf', got {path!r}")
    if not (Path(place).is_dir() if kind == "file" else importlib.util.find_spec(place)):
        raise ValueError(f"creditlab_config names {path!r}, which does not exist")
    return path


def _as_node(value: object, where: str) -> dict[str, Any]:
    """A component's configuration as a dictionary of its own; a bare name stands for its defaults."""
    if isinstance(value, str):
        return {"name": value}
    if not isinstance(value, Mapping):
        raise ConfigError(f"{where} must be a component's name or its keys, got {shown(value)}")
    return dict(value)
