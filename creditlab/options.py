"""A component's options: its dataclass fields checked by pydantic, and what its source says about them."""

from __future__ import annotations

import ast
import dataclasses
import difflib
import functools
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Literal, get_args, get_origin, get_type_hints

import annotated_types
from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from creditlab.hookspecs import is_part

NEAR = 0.6
"""Similarity from which a name is offered in place of an unknown one."""
NEAR_ELSEWHERE = 0.75
"""The same for a whole dotted key somewhere else in the configuration."""
LONGEST_MESSAGE = 1600
"""Characters of a message from which its middle is left out."""
_SHOULD = "Input should be "
_VALID = re.compile(r"(a valid \w+),.*")
"""What pydantic wants, and why the value is none: the value itself, shown after it, says that as well."""


class ConfigError(ValueError):
    """A user's mistake in the configuration: one clear sentence, of a length to read, shown without a stack trace."""

    def __init__(self, message: str) -> None:
        super().__init__(clipped(message))


@functools.cache
def options_model(cls: type) -> type[BaseModel]:
    """Pydantic model of a component's options: its dataclass fields without the built parts; unknown keys are refused."""
    hints = get_type_hints(cls, include_extras=True)
    fields: dict[str, Any] = {f.name: (hints[f.name], _default(cls, f)) for f in dataclasses.fields(cls) if not is_part(f)}
    config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=(), allow_inf_nan=False, validate_default=True)
    return create_model(cls.__name__, __config__=config, **fields)


def part_names(cls: type) -> set[str]:
    """Names of the fields that the builder fills with built parts."""
    return {f.name for f in dataclasses.fields(cls) if is_part(f)}


def validate(cls: type, options: Mapping[str, Any], where: str, parts: Iterable[str] = ()) -> dict[str, Any]:
    """Checked option values of a dataclass; raises ConfigError naming the key, the value and the nearest valid key.

    `parts` are further valid keys beside the options, for the message.
    """
    model = options_model(cls)
    for name in options:
        if name not in model.model_fields:
            raise ConfigError(unknown_key(where, str(name), [*model.model_fields, *parts]))
    flags = {name: value for name, value in options.items() if isinstance(value, bool)}
    try:
        model.model_validate(flags, strict=True)  # otherwise pydantic reads true as the number 1
        checked = model.model_validate(dict(options))
    except ValidationError as error:
        raise ConfigError(_complaint(error, where)) from None
    return {name: getattr(checked, name) for name in model.model_fields}


def unknown_key(parent: str, leaf: str, valid: Iterable[str], everywhere: Iterable[str] = ()) -> str:
    """The message for a key that does not exist: the nearest of the full keys `everywhere`, else of its siblings."""
    siblings, key = sorted(valid), _join(parent, leaf)
    same_leaf = [k for k in everywhere if difflib.get_close_matches(_leaf(key), [_leaf(k)], cutoff=NEAR)]
    near = difflib.get_close_matches(key, same_leaf, n=1, cutoff=NEAR_ELSEWHERE)
    near = near or [_join(parent, name) for name in difflib.get_close_matches(leaf, siblings, n=1, cutoff=NEAR)]
    suggestion = f", did you mean {near[0]!r}?" if near else ""
    return f"unknown key {key!r}{suggestion}; valid keys{' of ' + parent if parent else ''}: {', '.join(siblings) or 'none'}"


def did_you_mean(word: str, valid: Iterable[str]) -> str:
    """A suggestion to append to a message, empty where no valid word is near."""
    near = difflib.get_close_matches(word, list(valid), n=1, cutoff=NEAR)
    return f", did you mean {near[0]!r}?" if near else ""


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
    """A short readable form of an option's type, with its bounds: `float > 0, ≤ 1`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        bounds = ", ".join(_bounds(annotation.__metadata__))
        return f"{type_name(arguments[0])} {bounds}".rstrip()
    if origin is Literal:
        return "|".join(shown(a) if a is None else str(a) for a in arguments)
    if origin is tuple:
        return f"list of {type_name(arguments[0])}"
    if isinstance(annotation, type) and not arguments:
        return "null" if annotation is type(None) else annotation.__name__
    names = [type_name(a) for a in arguments]
    return (" or " if any(" " in name for name in names) else "|").join(names) or str(annotation)


def shown(value: Any) -> str:
    """A value as one writes it on the command line or in YAML."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(str(v) if isinstance(v, str) else shown(v) for v in value)}]"
    return repr(value)


def clipped(text: str) -> str:
    """The text, cut in the middle where it is too long for a message."""
    return text if len(text) <= LONGEST_MESSAGE else f"{text[: LONGEST_MESSAGE // 2]} … {text[-LONGEST_MESSAGE // 2 :]}"


def _bounds(metadata: Iterable[Any]) -> list[str]:
    signs = {annotated_types.Gt: (">", "gt"), annotated_types.Ge: ("≥", "ge"), annotated_types.Lt: ("<", "lt")}
    signs |= {annotated_types.Le: ("≤", "le")}
    constraints = [c for entry in metadata for c in getattr(entry, "metadata", [entry])]
    return [f"{sign} {getattr(c, field)}" for c in constraints for kind, (sign, field) in signs.items() if type(c) is kind]


def _complaint(error: ValidationError, where: str) -> str:
    """One sentence from pydantic's list: the first key at fault, and every form it could have taken."""
    errors = error.errors()
    option, *rest = errors[0]["loc"]
    same = [e for e in errors if e["loc"][0] == option]
    index = itertools.takewhile(lambda step: isinstance(step, int), rest)  # what follows names branches of a union
    key = _join(where, ".".join(str(step) for step in (option, *index)))
    messages = list(dict.fromkeys(_VALID.sub(r"\1", str(e["msg"])) for e in same))
    if all(message.startswith(_SHOULD) for message in messages):
        wanted = "must be " + " or ".join(message.removeprefix(_SHOULD) for message in messages)
        wanted = wanted.replace("a valid tuple", "a list, such as [a, b]")
    else:
        wanted = " or ".join(message[:1].lower() + message[1:] for message in messages)
    return f"{key}: {wanted}, got {shown(errors[0]['input'])}"


def _join(parent: str, leaf: str) -> str:
    return ".".join(name for name in (parent, leaf) if name)


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _default(cls: type, field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise ValueError(f"component {cls.__name__}: option {field.name!r} has no default")
