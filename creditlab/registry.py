"""Discovery of plug-ins and look-up of components by axis and name."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import textwrap
from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, get_args, get_origin, get_type_hints

import pluggy
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from creditlab import hookspecs
from creditlab.hookspecs import AXES, PROJECT, is_part

Node = Mapping[str, Any]


class ConfigError(ValueError):
    """A user's mistake in the configuration: one clear sentence, shown without a stack trace."""


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
        self.failed: dict[str, str] = {}

    def load(self) -> Registry:
        """Loads every entry point of the group `creditlab`; a broken one is recorded and the rest go on."""
        for entry in sorted(entry_points(group=PROJECT), key=lambda e: e.name):
            package = f"{entry.dist.name}:{entry.name}" if entry.dist else entry.name
            try:
                self.add(entry.load(), package)
            except Exception as error:  # one broken plug-in must not stop the others, whatever it raised
                self.failed[package] = f"{type(error).__name__}: {error}"
        return self

    def add(self, plugin: Any, package: str) -> None:
        """Registers one plug-in whole or not at all; raises ValueError on a misspelt hook or a malformed component."""
        self.plugins.register(plugin, name=package)
        try:
            self.plugins.check_pending()
            hook = getattr(plugin, "creditlab_components", None)
            found = [_component(cls, package) for cls in hook()] if hook else []
            for component in found:
                other = self.components.get((component.axis, component.name))
                if other:
                    raise ValueError(f"{component.axis}={component.name} is already provided by {other.package}")
        except Exception:
            self.plugins.unregister(name=package)
            raise
        self.components.update({(c.axis, c.name): c for c in found})

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
        message = f"unknown {axis} {name!r}{_did_you_mean(name, names)}; available: {', '.join(names) or 'none'}"
        if self.failed:
            message += f". Failed to load: {'; '.join(f'{k} ({v})' for k, v in self.failed.items())}"
        return message

    def build(self, axis: str, node: Node | str, where: str = "", **axes: Any) -> Any:
        """Builds a component from its configuration node (or name), nested parts first.

        `axes` are built parts of the owner (match, fold, weighting). A part uses the axes in its own node where it has
        them, else its owner's. Raises ConfigError naming the key.
        """
        node = {"name": node} if isinstance(node, str) else dict(node)
        where = where or axis
        component = self.find(axis, str(node.pop("name", "")))
        nested, options = self._split(component, node)
        values = validate(component.cls, options, where)
        own = {a: self.build(a, nested.pop(a), f"{where}.{a}") for a in component.axes if nested.get(a)}
        available = {**axes, **own}
        missing = [a for a in component.axes if available.get(a) is None]
        if missing:
            raise ConfigError(
                f"{axis}={component.name} needs {missing[0]}; choose one of: {', '.join(self.names(missing[0]))}"
            )
        built = {a: available[a] for a in component.axes}
        _check_calls(component, built)
        for name, (group, default) in component.parts.items():
            if "." not in name:
                child = dict(nested.get(name) or self._part_node(component, name, group, default))
                if f"{name}_weight" in values:
                    child["weight"] = values[f"{name}_weight"]
                built[name] = self.build(group, child, f"{where}.{name}", **available)
        return component.cls(**values, **{k: v for k, v in built.items() if k in part_names(component.cls)})

    def create(self, axis: str, name: str, /, **options: Any) -> Any:
        """A component with its defaults, for notebooks and tests: `create("method", "graphgpo", match="observation")`."""
        component = self.find(axis, name)
        chosen = {a: options.pop(a, default) for a, default in component.axes.items()}
        axes = {a: self.build(a, value) if isinstance(value, (str, Mapping)) else value for a, value in chosen.items()}
        return self.build(axis, {"name": name, **options}, **axes)

    def _split(self, component: Component, node: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        names = {*component.axes, *(n for n in component.parts if "." not in n)}
        return {k: v for k, v in node.items() if k in names}, {k: v for k, v in node.items() if k not in names}

    def _part_node(self, component: Component, name: str, group: str, default: str) -> dict[str, Any]:
        """The node of a nested part as its owner declares it, with the part's own axes."""
        axes = {
            key.split(".", 1)[1]: {"name": choice}
            for key, (_, choice) in component.parts.items()
            if key.startswith(f"{name}.")
        }
        return {"name": default, **axes}


@functools.cache
def registry() -> Registry:
    """The process-wide registry, built on first use so that launcher children build it too."""
    return Registry().load()


@functools.cache
def options_model(cls: type) -> type[BaseModel]:
    """Pydantic model of a component's options: its dataclass fields without the built parts; unknown keys are refused."""
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {f.name: (hints[f.name], _default(cls, f)) for f in dataclasses.fields(cls) if not is_part(f)}
    return create_model(cls.__name__, __config__=ConfigDict(extra="forbid", frozen=True, protected_namespaces=()), **fields)


def part_names(cls: type) -> set[str]:
    """Names of the fields that the builder fills with built parts."""
    return {f.name for f in dataclasses.fields(cls) if is_part(f)}


def validate(cls: type, options: Node, where: str) -> dict[str, Any]:
    """Checked option values of a dataclass; raises ConfigError naming the key, the value and the nearest valid key."""
    model = options_model(cls)
    try:
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join([where, *(str(p) for p in first["loc"])]) if where else ".".join(str(p) for p in first["loc"])
        if first["type"] == "extra_forbidden":
            raise ConfigError(unknown_key(key, [*model.model_fields])) from None
        raise ConfigError(f"{key}: {first['msg'][:1].lower()}{first['msg'][1:]}, got {first['input']!r}") from None
    return {name: getattr(checked, name) for name in model.model_fields}


def unknown_key(key: str, valid: list[str]) -> str:
    """The message for a key that does not exist, with the nearest valid one."""
    parent, _, leaf = key.rpartition(".")
    suggestion = _did_you_mean(leaf, valid, f"{parent}." if parent else "")
    return f"unknown key {key!r}{suggestion}; valid keys{' of ' + parent if parent else ''}: {', '.join(sorted(valid))}"


def option_docs(cls: type) -> dict[str, str]:
    """The docstring under each field of a dataclass, inherited ones included, as one line each."""
    docs: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(base):
            continue
        tree = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        body = tree.body if isinstance(tree, ast.ClassDef) else []
        for statement, following in itertools.pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                text = following.value if isinstance(following, ast.Expr) else None
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    docs[statement.target.id] = " ".join(text.value.split())
    return docs


def type_name(annotation: Any) -> str:
    """A short readable form of an option's type."""
    if get_origin(annotation) is not None and hasattr(annotation, "__metadata__"):
        return type_name(get_args(annotation)[0])
    if isinstance(annotation, type) and not get_args(annotation):
        return "null" if annotation is type(None) else annotation.__name__
    arguments = get_args(annotation)
    if str(get_origin(annotation)) == "typing.Literal":
        return "|".join(str(a) for a in arguments)
    if get_origin(annotation) is tuple:
        return f"list of {type_name(arguments[0])}"
    return "|".join(type_name(a) for a in arguments) or str(annotation)


def _component(cls: type, package: str) -> Component:
    """Checks the shape of a component class; a malformed one raises ValueError or TypeError with its name."""
    label = f"component {cls.__name__}"
    if not dataclasses.is_dataclass(cls) or not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise TypeError(f"{label} must be a frozen dataclass")
    axis, name = getattr(cls, "axis", None), getattr(cls, "name", None)
    if axis not in hookspecs.GROUPS or not isinstance(name, str) or not name.isidentifier():
        raise ValueError(f"{label} needs class variables axis (one of {', '.join(hookspecs.GROUPS)}) and name")
    unknown = set(getattr(cls, "axes", {})) - set(AXES)
    if unknown:
        raise ValueError(f"{label} declares unknown axes {sorted(unknown)}; axes are {', '.join(AXES)}")
    component = Component(axis, name, cls, package)
    component.defaults()
    return component


def _check_calls(component: Component, axes: Mapping[str, Any]) -> None:
    for axis, capabilities in getattr(component.cls, "calls", {}).items():
        for capability in capabilities:
            if not callable(getattr(axes.get(axis), capability, None)):
                chosen = getattr(axes.get(axis), "name", axes.get(axis))
                raise ConfigError(
                    f"{component.axis}={component.name} calls {axis}.{capability}, which {axis}={chosen} does not implement"
                )


def _default(cls: type, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise ValueError(f"component {cls.__name__}: option {field.name!r} has no default")


def _did_you_mean(word: str, valid: list[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(word, valid, n=1, cutoff=0.5)
    return f", did you mean {prefix + near[0]!r}?" if near else ""
