"""Discovery and look-up: a plug-in is registered whole or not at all, and built parts are what was asked for."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, ClassVar

import pytest
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from pluggy import PluginValidationError
from pydantic import Field

from creditlab.config import compose_config, resolve
from creditlab.credit.folds import Same
from creditlab.credit.match import GraphState, Observation, StateOnly
from creditlab.credit.weighting import Evidence
from creditlab.hookspecs import MatchRule, hookimpl, part
from creditlab.options import clipped
from creditlab.registry import ConfigError, Registry, registry


class Plugin:
    """A plug-in that provides the given classes."""

    def __init__(self, *components: Any, paths: Iterable[str] = ()) -> None:
        self.components, self.paths = components, paths

    @hookimpl
    def creditlab_components(self) -> Iterable[Any]:
        return self.components

    @hookimpl
    def creditlab_config(self) -> Iterable[str]:
        return self.paths


@dataclass(frozen=True)
class Zero:
    """A fold."""

    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "zero"
    size: Annotated[int, Field(ge=1)] = 1
    """Size."""


@dataclass(frozen=True)
class Toothless:
    """A weighting that weighs nothing."""

    axis: ClassVar[str] = "weighting"
    name: ClassVar[str] = "toothless"


@pytest.fixture
def fresh() -> Registry:
    """A registry of its own, so that the process-wide one keeps what it found."""
    return Registry().load()


def test_first_party_plugins_load_like_any_other(fresh: Registry) -> None:
    assert fresh.failed == {}
    assert {"graphgpo", "grpo", "mcgpo"} <= set(fresh.names("method"))
    assert fresh.find("method", "graphgpo").package == "creditlab:graphgpo"
    assert fresh.find("match", "observation").package == "creditlab:builtin"


def test_a_plugin_adds_its_components(fresh: Registry, tmp_path: Path) -> None:
    fresh.add(Plugin(Zero, paths=[f"file://{tmp_path}"]), "mine:zero")
    assert fresh.build("fold", {"name": "zero", "size": 3}) == Zero(3)
    assert fresh.find("fold", "zero").defaults() == {"size": 1}
    assert fresh.config_paths == [f"file://{tmp_path}"]


@dataclass
class NotFrozen:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "thawed"


@dataclass(frozen=True)
class NoDefault:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "required"
    size: int


@dataclass(frozen=True)
class WrongDefault:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "wrong"
    share: Annotated[float, Field(le=1)] = 2.0


@dataclass(frozen=True)
class WrongAxis:
    axis: ClassVar[str] = "folds"
    name: ClassVar[str] = "lost"


@dataclass(frozen=True)
class NoName:
    axis: ClassVar[str] = "fold"


@dataclass(frozen=True)
class OddName:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "leave one out"


@dataclass(frozen=True)
class UnknownAxes:
    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "odd"
    axes: ClassVar[dict[str, str]] = {"matches": "observation"}


@dataclass(frozen=True)
class NobodyFillsIt:
    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "hollow"
    match: MatchRule = part()


@dataclass(frozen=True)
class Taken:
    axis: ClassVar[str] = "fold"
    name: ClassVar[str] = "same"


@dataclass(frozen=True)
class AxesInAList(Zero):
    """Names its axes without their defaults."""

    axes: ClassVar[Any] = ["match"]


@dataclass(frozen=True)
class HalfAPart(Zero):
    """Names a part without its axis."""

    parts: ClassVar[Any] = {"task": "grpo"}


@dataclass(frozen=True)
class OneNeed(Zero):
    """Forgot a comma."""

    needs: ClassVar[Any] = "rubric"


@dataclass(frozen=True)
class NoPlainDefault(Zero):
    """Has a default that no configuration can hold."""

    raw: bytes = b"\xff"
    """Bytes."""


MALFORMED: list[tuple[Any, str]] = [
    (NotFrozen, "component NotFrozen must be a frozen dataclass"),
    (NoDefault, "component NoDefault: option 'size' has no default"),
    (WrongDefault, "component WrongDefault.share: must be less than or equal to 1, got 2.0"),
    (WrongAxis, "component WrongAxis needs class variables axis (one of env, model, "),
    (NoName, "component NoName needs class variables axis (one of env, model, "),
    (OddName, "component OddName needs class variables axis (one of env, model, "),
    (UnknownAxes, "component UnknownAxes declares unknown axes ['matches']; axes are match, fold, weighting"),
    (NobodyFillsIt, "component NobodyFillsIt: ['match'] are declared with part(), but are neither in its axes nor its parts"),
    (AxesInAList, "component AxesInAList: axes must map an axis to the name of its default, got ['match']"),
    (HalfAPart, "component HalfAPart: parts must map a name to a pair of axis and name, got {'task': 'grpo'}"),
    (OneNeed, "component OneNeed: needs must be a tuple of names, got 'rubric'"),
    (NoPlainDefault, "component NoPlainDefault: a default is no plain value: "),
    (Taken, "fold=same is already provided by creditlab:builtin"),
    (SimpleNamespace(name="x"), "creditlab_components must return classes, got namespace(name='x')"),
]


@pytest.mark.parametrize(("component", "reason"), MALFORMED, ids=lambda v: getattr(v, "__name__", ""))
def test_a_malformed_component_keeps_its_whole_plugin_out(fresh: Registry, component: Any, reason: str) -> None:
    before = dict(fresh.components)
    with pytest.raises((TypeError, ValueError)) as caught:
        fresh.add(Plugin(Zero, component), "mine:broken")
    assert str(caught.value).startswith(reason)
    assert fresh.components == before
    assert not fresh.plugins.has_plugin("mine:broken")
    fresh.add(Plugin(Zero), "mine:broken")  # it can be corrected


def test_two_components_of_one_name_in_one_plugin(fresh: Registry) -> None:
    with pytest.raises(ValueError, match="fold=zero is already provided by mine:twice"):
        fresh.add(Plugin(Zero, Zero), "mine:twice")


def test_one_module_under_two_names_is_told_apart_from_two_plugins(fresh: Registry) -> None:
    plugin = Plugin(Zero)
    fresh.add(plugin, "mine:one")
    with pytest.raises(ValueError, match=r"^it is the module of mine:one under a second name; remove one of the two"):
        fresh.add(plugin, "mine:two")
    assert fresh.find("fold", "zero").package == "mine:one"


def test_a_plugin_that_ends_the_program_when_asked_leaves_nothing_behind(fresh: Registry) -> None:
    class Exits:
        @hookimpl
        def creditlab_components(self) -> list[type]:
            raise SystemExit("no licence")

    with pytest.raises(SystemExit):
        fresh.add(Exits(), "mine:exits")
    assert not fresh.plugins.has_plugin("mine:exits")


def test_every_component_that_is_left_out_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Plugin(Leaning, LeaningOnLeaning)
    monkeypatch.setattr("creditlab.registry.entry_points", lambda group: [EntryPoint("both", plugin)])
    assert Registry().load().failed == {
        "mine:both": "method=leaning needs aux=absent, which no working plug-in provides; "
        "method=second needs method=leaning, which no working plug-in provides"
    }


def test_a_misspelt_hook_is_named(fresh: Registry) -> None:
    class Misspelt:
        @hookimpl
        def creditlab_component(self) -> list[type]:
            return [Zero]

    with pytest.raises(PluginValidationError, match="creditlab_component"):
        fresh.add(Misspelt(), "mine:misspelt")
    assert "zero" not in fresh.names("fold")


def test_a_hook_without_its_marker_is_named(fresh: Registry) -> None:
    class Unmarked:
        def creditlab_components(self) -> list[type]:
            return [Zero]

    with pytest.raises(ValueError, match="implements no hook; mark its creditlab_components with @hookimpl"):
        fresh.add(Unmarked(), "mine:unmarked")


@pytest.mark.parametrize("path", ["pkg://no_such_package_anywhere", "file:///no/such/folder", "conf", 3])
def test_a_search_path_that_is_none_is_refused(fresh: Registry, path: Any) -> None:
    with pytest.raises(ValueError, match="creditlab_config"):
        fresh.add(Plugin(Zero, paths=[path]), "mine:paths")
    assert "zero" not in fresh.names("fold")


@dataclass(frozen=True)
class EntryPoint:
    """Stands for an installed entry point that brings `plugin`, or fails with it."""

    name: str
    plugin: Any

    @property
    def dist(self) -> Any:
        return SimpleNamespace(name="mine")

    def load(self) -> Any:
        if isinstance(self.plugin, BaseException):
            raise self.plugin
        return self.plugin


@dataclass(frozen=True)
class Leaning:
    """Needs an auxiliary loss that is not there."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "leaning"
    parts: ClassVar[dict[str, tuple[str, str]]] = {"help": ("aux", "absent")}
    help: Any = part()


@dataclass(frozen=True)
class LeaningOnLeaning:
    """Needs a method that cannot work."""

    axis: ClassVar[str] = "method"
    name: ClassVar[str] = "second"
    parts: ClassVar[dict[str, tuple[str, str]]] = {"task": ("method", "leaning")}
    task: Any = part()


def test_broken_plugins_are_recorded_and_the_rest_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        EntryPoint("absent", ModuleNotFoundError("No module named 'sentence_transformers'")),
        EntryPoint("exits", SystemExit("no licence")),
        EntryPoint("outside", GeneratorExit("no Exception")),
        EntryPoint("fine", Plugin(Zero)),
        EntryPoint("leaning", Plugin(Leaning)),
        EntryPoint("second", Plugin(LeaningOnLeaning, Toothless)),
        EntryPoint("spread", ValueError("two\n  lines")),
        EntryPoint("talks", ValueError("on and " * 1000)),
    ]
    monkeypatch.setattr("creditlab.registry.entry_points", lambda group: entries)
    found = Registry().load()
    assert set(found.components) == {("fold", "zero"), ("weighting", "toothless")}
    assert found.failed == {
        "mine:absent": "ModuleNotFoundError: No module named 'sentence_transformers'",
        "mine:exits": "SystemExit: no licence",
        "mine:leaning": "method=leaning needs aux=absent, which no working plug-in provides",
        "mine:outside": "GeneratorExit: no Exception",
        "mine:second": "method=second needs method=leaning, which no working plug-in provides",
        "mine:spread": "ValueError: two lines",
        "mine:talks": f"ValueError: {clipped('on and ' * 999 + 'on and')}",
    }
    assert len(found.failed["mine:talks"]) < 2000
    message = found.unknown("fold", "zeros")
    assert message.startswith(
        "unknown fold 'zeros', did you mean 'zero'?; available: zero. Failed to load: mine:absent (Module"
    )


def test_a_weighting_without_the_called_capability_is_refused_by_name(fresh: Registry) -> None:
    fresh.add(Plugin(Toothless), "mine:toothless")
    with pytest.raises(
        ConfigError, match=r"method=mcgpo calls weighting\.pair, which weighting=toothless does not implement"
    ):
        fresh.create("method", "mcgpo", weighting="toothless")
    with pytest.raises(ConfigError, match=r"aux=pair calls weighting\.pair, which weighting=toothless does not implement"):
        fresh.create("aux", "pair", weighting="toothless")


def test_create_takes_names_nodes_and_built_parts() -> None:
    assert registry().create("method", "grpo", coefficient=0.2) == GRPO(coefficient=0.2)
    assert registry().create("method", "graphgpo") == GraphGPO(match=GraphState())
    assert registry().create("method", "graphgpo", match="observation") == GraphGPO(match=Observation())
    assert registry().create("method", "graphgpo", match=StateOnly(), omega=0.2) == GraphGPO(omega=0.2, match=StateOnly())
    pair = registry().create("aux", "pair", weighting={"name": "evidence", "kappa": 1}, fold="same")
    assert (pair.weighting, pair.fold) == (Evidence(kappa=1.0), Same())


def test_a_nested_part_keeps_its_own_match_when_only_its_options_are_given() -> None:
    method = registry().create("method", "mcgpo", match="state_only", task={"omega": 0.3})
    assert method.task == GraphGPO(omega=0.3, match=GraphState())
    assert method.pair.match == StateOnly()
    assert registry().create("method", "mcgpo", task="grpo").task == GRPO()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omega": 0.2}, "unknown key 'method.omega'; valid keys of method: "),
        ({"task": {"omeg": 0.2}}, "unknown key 'method.task.omeg', did you mean 'method.task.omega'?"),
        ({"task": {"omega": 0}}, "method.task.omega: must be greater than 0, got 0"),
        ({"task": "nope"}, "unknown method 'nope'; available: "),
        ({"match": "nope"}, "unknown match 'nope'; available: "),
        ({"match": None}, "method=mcgpo needs match; choose one of: coarse_state, exact_state, graph_state, "),
        ({"pair": {"weight": 2}}, "unknown key 'method.pair.weight'; the weight is method.pair_weight"),
        ({"task": {"name": "grpo", "match": "observation"}}, "method=grpo does not use match; axes it uses: none; remove "),
    ],
)
def test_create_names_the_key_at_fault(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        registry().create("method", "mcgpo", **options)
    assert str(caught.value).startswith(message)


def test_a_choice_from_a_file_of_its_own_is_no_mistake() -> None:
    """A file `method/small.yaml` with `defaults: [grpo]` chooses `small` and is built as grpo."""
    cfg, choices = compose_config(["method=grpo"])
    assert resolve(cfg, {**choices, "method": "small"}).method == GRPO()
