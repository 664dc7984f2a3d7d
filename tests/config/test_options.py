"""Options of a component: checked values, nearest keys, and what the list of components says about them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field

from creditlab.hookspecs import part
from creditlab.options import ConfigError, option_docs, options_model, part_names, shown, type_name, unknown_key, validate


@dataclass(frozen=True)
class Base:
    """An inherited option."""

    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of
    something."""
    undocumented: int = 1


@dataclass(frozen=True)
class Options(Base):
    """Options of every kind."""

    share: Annotated[float, Field(gt=0, le=1)] = 0.25
    """Share, again."""
    mode: Literal["auto"] | bool = "auto"
    names: tuple[str, ...] = field(default_factory=tuple)
    """Names."""
    steps: Annotated[int, Field(ge=1)] | None = None
    built: Any = part()


def test_values_are_converted_and_defaults_filled_in() -> None:
    assert validate(Options, {"share": 1, "names": ["a"]}, "x") == {
        "share": 1.0,
        "undocumented": 1,
        "mode": "auto",
        "names": ("a",),
        "steps": None,
    }
    assert validate(Options, {"mode": True}, "x")["mode"] is True


def test_built_parts_are_no_options() -> None:
    assert part_names(Options) == {"built"}
    assert "built" not in options_model(Options).model_fields
    with pytest.raises(ConfigError, match=r"unknown key 'x\.built'"):
        validate(Options, {"built": 3}, "x")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"share": 0}, "x.share: must be greater than 0, got 0"),
        ({"share": float("nan")}, "x.share: must be a finite number, got nan"),
        ({"share": True}, "x.share: must be a valid number, got true"),
        ({"undocumented": False}, "x.undocumented: must be a valid integer, got false"),
        ({"mode": "fast"}, "x.mode: must be 'auto' or a valid boolean, got 'fast'"),
        ({"names": "a"}, "x.names: must be a list, such as [a, b], got 'a'"),
        ({"names": ["a", 3]}, "x.names.1: must be a valid string, got 3"),
        ({"steps": 0}, "x.steps: must be greater than or equal to 1, got 0"),
        ({"shares": 1}, "unknown key 'x.shares', did you mean 'x.share'?; valid keys of x: mode, names, share, steps, undoc"),
    ],
)
def test_a_wrong_value_is_named_with_its_key(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(Options, options, "x")
    assert str(caught.value).startswith(message)


def test_the_nearest_key_may_lie_elsewhere_or_nowhere() -> None:
    everywhere = ["method.task.omega", "method.pair_weight", "env.seed"]
    assert "did you mean 'method.task.omega'?" in unknown_key("method", "omega", ["task"], everywhere)
    assert "did you mean 'method.pair_weight'?" in unknown_key("method.pair", "weight", ["quota"], everywhere)
    assert unknown_key("method", "zeal", ["task"], everywhere) == "unknown key 'method.zeal'; valid keys of method: task"
    assert unknown_key("", "zeal", []) == "unknown key 'zeal'; valid keys: none"


def test_docstrings_below_fields_are_found_and_inherited() -> None:
    assert option_docs(Options) == {"share": "Share, again.", "names": "Names."}
    assert option_docs(Base) == {"share": "Share of something."}


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (int, "int"),
        (str | None, "str|null"),
        (Annotated[float, Field(gt=0, le=1)], "float > 0, ≤ 1"),
        (Annotated[int, Field(ge=1)] | None, "int ≥ 1 or null"),
        (Annotated[float, Field(lt=1)], "float < 1"),
        (Annotated[str, Field(pattern="a")], "str"),
        (tuple[str, ...], "list of str"),
        (Literal["a", "b"], "a|b"),
        (Literal["auto"] | bool, "auto|bool"),
    ],
)
def test_type_names(annotation: Any, name: str) -> None:
    assert type_name(annotation) == name


def test_values_read_as_one_writes_them() -> None:
    assert [shown(v) for v in (None, True, "a", 0.5, ("a", "b"), [1, None])] == [
        "null",
        "true",
        "'a'",
        "0.5",
        "[a, b]",
        "[1, null]",
    ]
