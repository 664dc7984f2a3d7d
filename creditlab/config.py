"""Composition with Hydra and validation with pydantic: from the command line to built components, or one clear error."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.config_loader import ConfigLoader
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from creditlab.hookspecs import AXES, GROUPS, Feature
from creditlab.options import ConfigError, options_model, part_names, shown, unknown_key, validate
from creditlab.policy.settings import PromptSettings
from creditlab.registry import BASE, Component, registry, unused_axis
from creditlab.training.settings import SECTIONS, RunSettings

FEATURES = ("reference",)
"""What a component's `requires` may name beside a `Feature`: `reference` keeps the frozen start of the run."""
CHOSEN = ("env", "model", "engine", "learner", "tracking")
"""Config groups of which every run has exactly one component, beside the method."""
SECTION_CLASSES: dict[str, type] = {**SECTIONS, "prompt": PromptSettings}
VOLATILE = ("resume", "overwrite", "run_root", "tracking", "name", "seed")
"""Keys that do not change what a run computes."""
VOLATILE_WITHIN = {
    "training": ("updates", "timeout", "threads", "max_skipped"),
    "rollout": ("batch_size",),
    "checkpoint": ("every", "keep", "rollouts_every"),
}
"""The same within sections: a run can be extended, kept in another way, and resumed with less memory.

What changes rounding alone counts among them; of components it is what they call `operational`.
"""

TOP_LEVEL = (*(f.name for f in fields(RunSettings)), "prompt", *CHOSEN, "method", BASE, "shaping", "aux", *AXES)
"""Every top-level key of a run's configuration."""


def config_dir() -> str:
    """Folder of the shipped Hydra configuration: inside an installed package, else beside it in a checkout."""
    package = Path(__file__).resolve().parent
    return str(next(p for p in (package / "conf", package.parent / "conf") if p.is_dir()))


@functools.cache
def install_config() -> None:
    """Gives every component its node in Hydra's config store and adds the plug-ins' own configuration folders.

    A value may depend on a choice: `${choose:${method.name},{mcgpo:250},150}` is the entry of that name, else the last one.
    """
    OmegaConf.register_new_resolver("choose", lambda name, table, default: table.get(name, default), replace=True)
    store = ConfigStore.instance()
    plain = {f.name: f.default for f in fields(RunSettings) if f.name not in SECTIONS}
    sections = {name: _defaults(cls) for name, cls in SECTION_CLASSES.items()}
    store.store(name="settings", node={**plain, **sections})
    for component in registry().components.values():
        axis, name = component.axis, component.name
        package = f"aux.{name}" if axis == "aux" else None
        store.store(group=axis, name=name, node=_node(component), package=package)
    Plugins.instance().register(_PluginConfigs)


def _defaults(cls: type) -> dict[str, Any]:
    return options_model(cls)().model_dump(mode="json")


def _node(component: Component) -> dict[str, Any]:
    """A component's node: its options, its nested parts, and the defaults of the axes it uses."""
    node = _options(component)
    defaults: list[Any] = ["_self_"]
    wrapped = [
        {f"override /{group}@_global_.{key}": choice} for key, (group, choice) in component.parts.items() if key == BASE
    ]
    for key, (group, choice) in component.parts.items():
        if key == BASE:  # stands at the top level, so that its own defaults choose the axes
            continue
        if group == "aux":  # inlined without axes of its own, so that it uses its owner's
            node[key] = _options(registry().find(group, choice))
            if f"{key}_weight" in node:
                node[key].pop("weight", None)
        else:
            defaults.append({f"/{group}@{key}": choice})
    own = component.axis == "aux"
    defaults += [
        {f"/{axis}@{axis}": choice} if own else {f"override /{axis}@_global_.{axis}": choice}
        for axis, choice in component.axes.items()
    ]
    defaults += wrapped
    return {"defaults": defaults, **node}


def _options(component: Component) -> dict[str, Any]:
    """A component's name and options; its convention follows the run's."""
    options = component.defaults()
    return {"name": component.name, **options, **({"convention": "${convention}"} if "convention" in options else {})}


class _PluginConfigs(SearchPathPlugin):
    """Adds the configuration folders that plug-ins announce through `creditlab_config`."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        for path in registry().config_paths:
            search_path.append("creditlab", path)


@contextmanager
def hydra_session() -> Iterator[ConfigLoader]:
    """Hydra's loader of the shipped configuration, beside whatever Hydra session is going on."""
    install_config()
    outer = GlobalHydra.instance().hydra
    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(config_dir(), version_base="1.3"):
            yield GlobalHydra.instance().config_loader()
    finally:
        GlobalHydra.instance().hydra = outer


def compose_config(overrides: Sequence[str]) -> tuple[DictConfig, dict[str, Any]]:
    """A composed configuration and its chosen component per config group; raises Hydra's and OmegaConf's own errors."""
    with hydra_session():
        cfg = compose("config", overrides=list(overrides), return_hydra_config=True)
        return OmegaConf.masked_copy(cfg, [str(k) for k in cfg if k != "hydra"]), dict(cfg.hydra.runtime.choices)


@dataclass(frozen=True)
class Job:
    """Everything a run needs, validated and built."""

    settings: RunSettings
    prompt: PromptSettings
    env: Any
    model: Any
    engine: Any
    learner: Any
    tracking: Any
    method: Any
    shaping: Any
    aux: tuple[Any, ...]
    choices: Mapping[str, Any]
    """Chosen component per config group."""
    config: Mapping[str, Any]
    """The resolved configuration as plain data."""

    @property
    def name(self) -> str:
        """First part of the run folder's name."""
        methods = [str(name) for key in ("method", f"method@{BASE}") if (name := self.choices.get(key))]
        return self.settings.name or "-".join([*methods, str(self.choices["env"])])

    @property
    def hash(self) -> str:
        """Ten hex digits that identify what the run computes, whatever its seed, length or tracking."""
        kept = {k: v for k, v in self.config.items() if k not in VOLATILE}
        for section, names in VOLATILE_WITHIN.items():
            kept[section] = {k: v for k, v in kept.get(section, {}).items() if k not in names}
        for group in CHOSEN:
            unused = getattr(getattr(self, group), "operational", ())
            kept |= {group: {k: v for k, v in kept[group].items() if k not in unused}} if group in kept else {}
        return hashlib.sha256(json.dumps(_canonical(kept), sort_keys=True).encode()).hexdigest()[:10]

    @property
    def folder(self) -> Path:
        """The run's own folder, the same on every rank and for every resumption."""
        return Path(self.settings.run_root) / f"{self.name}-{self.hash}-s{self.settings.seed}"


def _canonical(value: Any) -> Any:
    """The same value however it was written: 8.0 is 8."""
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def resolve(cfg: DictConfig, choices: Mapping[str, Any]) -> Job:
    """Validates a composed configuration and builds its components; raises ConfigError naming the key at fault."""
    try:
        config = OmegaConf.to_container(cfg, resolve=True, throw_on_missing=True)
    except OmegaConfBaseException as error:
        raise ConfigError(f"{error.full_key}: {str(error).splitlines()[0]}") from None
    assert isinstance(config, dict)
    plain: dict[str, Any] = {str(k): v for k, v in config.items()}
    for key in plain:
        if key not in TOP_LEVEL:
            raise ConfigError(unknown_key("", key, TOP_LEVEL))
    _check_names(plain, choices)
    sections = {name: cls(**validate(cls, _section(plain, name), name)) for name, cls in SECTION_CLASSES.items()}
    prompt = sections.pop("prompt")
    top = {f.name: plain[f.name] for f in fields(RunSettings) if f.name not in SECTIONS and f.name in plain}
    settings = RunSettings(**{**validate(RunSettings, top, ""), **sections})
    if settings.name and not settings.name.strip("."):  # a folder `..-<hash>` is hidden, and looks like the one above
        raise ConfigError(f"name={settings.name} holds only dots; write letters or digits, as in name=first-try")
    chosen = {group: registry().build(group, _chosen(plain, group)) for group in CHOSEN}
    method_node = _with_base(plain)
    _check_axes(plain)
    axes = {axis: registry().build(axis, plain[axis]) for axis in AXES if plain.get(axis)}
    method = registry().build("method", method_node, **axes)
    aux = tuple(registry().build("aux", node, f"aux.{name}") for name, node in _added(plain).items())
    shaping = registry().build("shaping", plain["shaping"]) if plain.get("shaping") else None
    job = Job(
        settings=settings, prompt=prompt, method=method, aux=aux, shaping=shaping, choices=choices, config=plain, **chosen
    )
    check_job(job)
    return job


def _section(plain: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = plain.get(name, {})
    if not isinstance(section, Mapping):
        raise ConfigError(f"{name} is a section of keys, got {shown(section)}; set one of its keys: {name}.<key>=<value>")
    return section


def _chosen(plain: Mapping[str, Any], group: str) -> Mapping[str, Any]:
    node = plain.get(group)
    if not node:
        raise ConfigError(f"{group} must be chosen; available: {', '.join(registry().names(group))}")
    if not isinstance(node, Mapping):
        raise ConfigError(
            f"{group} is a component with keys of its own, got {shown(node)}; choose it with {group}=<name>, in a file under "
            f"defaults; available: {', '.join(registry().names(group))}"
        )
    return node


def _added(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """The added auxiliary losses by name."""
    added = plain.get("aux") or {}
    if not isinstance(added, Mapping):
        raise ConfigError(f"aux holds auxiliary losses by name, got {shown(added)}; add one with aux=[<name>]")
    return added


def _check_names(plain: Mapping[str, Any], choices: Mapping[str, Any]) -> None:
    """A component's name decides its options and the defaults around it, so it cannot be changed afterwards."""
    for key, choice in choices.items():
        group, _, package = key.partition("@")
        if group not in GROUPS or choice not in registry().names(group):
            continue
        node: Any = plain
        for step in (package or group).split("."):
            node = node.get(step) if isinstance(node, Mapping) else None
        if isinstance(node, Mapping) and node.get("name", choice) != choice:
            raise ConfigError(f"{package or group}.name={node['name']} has no effect on its own; write {key}={node['name']}")


def _with_base(plain: Mapping[str, Any]) -> Mapping[str, Any]:
    """The method's node, with the node of the method it wraps; raises ConfigError where there is nothing to wrap."""
    node, base = _chosen(plain, "method"), plain.get(BASE)
    if not base:
        return node
    method = registry().find("method", str(node.get("name", "")))
    if not isinstance(base, Mapping) or not isinstance(base.get("name"), str):
        raise ConfigError(
            f"{BASE} is the wrapped method with its keys, got {shown(base)}; choose it with method@{BASE}=<name>"
        )
    if BASE not in method.parts:
        raise ConfigError(f"method={method.name} wraps no other method; leave out method@{BASE}={base.get('name')}")
    if BASE in registry().find("method", str(base.get("name", ""))).parts:
        plain_ones = [name for name in registry().names("method") if BASE not in registry().find("method", name).parts]
        raise ConfigError(f"method@{BASE}={base['name']} wraps a method itself; choose one of: {', '.join(plain_ones)}")
    return {**node, BASE: base}


def _check_axes(plain: Mapping[str, Any]) -> None:
    """An axis that neither the method nor what it wraps uses, and an auxiliary loss that one of them holds, are refused."""
    method = registry().find("method", str(_chosen(plain, "method").get("name", "")))
    base = registry().find("method", plain[BASE]["name"]) if plain.get(BASE) else None
    for axis in AXES:
        if plain.get(axis) and axis not in {**method.axes, **(base.axes if base else {})}:
            raise ConfigError(unused_axis(base or method, axis))
    owners = [(component, node) for component, node in ((method, "method"), (base, BASE)) if component]
    held = {name: (c, f"{node}.{key}") for c, node in owners for key, (group, name) in c.parts.items() if group == "aux"}
    for name in _added(plain):
        if name in held:
            owner, where = held[name]
            raise ConfigError(f"method={owner.name} already contains aux={name}; configure it under {where}")


def check_job(job: Job) -> None:
    """Refuses what a component needs and the run does not give: siblings, group sizes, a rubric, a recorded feature.

    And a prompt and response that together are longer than the model's positions.
    """
    _check_lengths(job)
    if hasattr(job.model, "check_precision") and hasattr(job.learner, "precision"):
        try:
            job.model.check_precision(job.learner.precision)
        except ValueError as error:
            raise ConfigError(str(error)) from None
    size = job.settings.rollout.group_size
    given = {"group", *getattr(job.env, "provides", ())}
    for part in credit_parts(job):
        label = f"{type(part).axis}={type(part).name}"
        needs = tuple(getattr(part, "needs", ()))
        if "group" in needs and size < 2:
            raise ConfigError(
                f"{label} compares siblings and needs rollout.group_size >= 2, got {size}: "
                "every group would be a singleton without any signal"
            )
        for need in needs:
            if need not in given:
                raise ConfigError(f"{label} needs a {need}, which env={type(job.env).name} does not provide")
        _check_views(part, job.env)
        for feature in getattr(part, "requires", ()):
            if not isinstance(feature, Feature) and feature not in FEATURES:
                raise ConfigError(f"{label} requires {feature!r}; known are {', '.join(FEATURES)} and Feature(…)")
            layers = getattr(job.model, "layers", None)
            if isinstance(feature, Feature) and layers is not None and not -layers - 1 <= feature.layer <= layers:
                raise ConfigError(
                    f"{label} wants the hidden state after layer {feature.layer}; model={type(job.model).name} has {layers} "
                    f"layers: give {-layers - 1} … {layers}"
                )
        check = getattr(part, "check_group_size", None)
        if check:
            try:
                check(size)
            except ValueError as error:
                raise ConfigError(f"rollout.group_size={size}: {error}") from None


def _check_views(part: Any, env: Any) -> None:
    """Refuses a match rule that reads a view which the environment says its states do not carry."""
    carried: tuple[str, ...] | None = getattr(env, "views", None)
    if carried is None:
        return
    lacking = [view for view in getattr(part, "views", ()) if view not in carried]
    if lacking:
        raise ConfigError(
            f"{type(part).axis}={type(part).name} reads the view {lacking[0]!r} of states, "
            f"which env={type(env).name} does not record; its views: {', '.join(carried)}"
        )


def _check_lengths(job: Job) -> None:
    positions, longest = (
        getattr(job.model, "max_positions", None),
        job.prompt.max_prompt_tokens + job.prompt.max_response_tokens,
    )
    if positions is not None and longest > positions:
        raise ConfigError(
            f"prompt.max_prompt_tokens={job.prompt.max_prompt_tokens} and "
            f"prompt.max_response_tokens={job.prompt.max_response_tokens} make {longest} tokens, more than "
            f"model.max_positions={positions}; shorten one or raise it"
        )


def credit_parts(job: Job) -> list[Any]:
    """Every component that takes part in credit: method, auxiliary losses, shaping, and the parts below them."""
    return _walk((job.method, *job.aux, job.shaping))


def all_parts(job: Job) -> list[Any]:
    """Every component of a run, with the parts below them; what was put into a job by hand may be none."""
    chosen = (getattr(job, group) for group in CHOSEN)
    return _walk((job.method, *job.aux, job.shaping, *(part for part in chosen if is_dataclass(part))))


def required_features(job: Job) -> tuple[Feature, ...]:
    """Every feature that credit asks for, each once; raises ConfigError where two share a name."""
    asked = dict.fromkeys(f for part in credit_parts(job) for f in getattr(part, "requires", ()) if isinstance(f, Feature))
    names = [feature.name for feature in asked]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ConfigError(f"the feature {twice!r} is required in two different forms; every one needs a name of its own")
    return tuple(asked)


def _walk(parts: tuple[Any, ...]) -> list[Any]:
    """All built components below the given ones, each once."""
    found: list[Any] = []
    for item in parts:
        if item is not None and item not in found:
            found.append(item)
            found += [p for p in _walk(tuple(getattr(item, n) for n in sorted(part_names(type(item))))) if p not in found]
    return found
