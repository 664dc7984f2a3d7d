"""All combinations of method, match, fold and weighting: the valid ones give credit, the others name what is valid."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from every_method import names

from creditlab.config import ConfigError
from creditlab.credit.types import Feature
from creditlab.hookspecs import AXES
from creditlab.registry import Component, registry
from creditlab.rollouts import Rows
from creditlab.testing import random_groups
from creditlab.testing.conformance import check_shape, featured

METHODS = [(name, None) for name in names() if "base" not in registry().find("method", name).parts]
WRAPPED = [(name, base) for name in names() if "base" in registry().find("method", name).parts for base, _ in METHODS]


class Everything:
    """Stands for a component that asks for both features, so that one batch serves all combinations."""

    requires = (Feature("actor_hidden_-1", "actor"), Feature("reference_hidden", "reference"))


ROWS = Rows.from_groups(featured(Everything, random_groups(np.random.default_rng(0), groups=2, slots=4)))  # type: ignore[arg-type]


def owner(name: str, base: str | None) -> Component:
    """The component whose axes count: a wrapper's are those of its base."""
    return registry().find("method", base or name)


def works(component: Component, axis: str, choice: str) -> bool:
    """Whether a part implements what the component calls, by the method names it has."""
    calls = getattr(component.cls, "calls", {}).get(axis, ())
    return all(hasattr(registry().find(axis, choice).cls, call) for call in calls)


def built(name: str, base: str | None, **axes: str) -> object:
    parts = {axis: registry().build(axis, choice) for axis, choice in axes.items()}
    node = {"name": name, **({"base": {"name": base}} if base else {})}
    return registry().build("method", node, **parts)


@pytest.mark.parametrize(("name", "base"), METHODS + WRAPPED)
def test_every_valid_combination_gives_credit_and_every_other_lists_what_is_valid(name: str, base: str | None) -> None:
    component, count = owner(name, base), 0
    for choices in product(*(registry().names(axis) for axis in component.axes)):
        axes = dict(zip(component.axes, choices, strict=True))
        wrong = [axis for axis, choice in axes.items() if not works(component, axis, choice)]
        if wrong:
            with pytest.raises(ConfigError, match=f"which {wrong[0]}={axes[wrong[0]]} does not implement") as refusal:
                built(name, base, **axes)
            valid = [c for c in registry().names(wrong[0]) if works(component, wrong[0], c)]
            assert str(refusal.value).endswith(f"choose one of: {', '.join(valid)}")
            continue
        credit = built(name, base, **axes)(ROWS)  # type: ignore[operator]
        check_shape(ROWS, credit)
        count += 1
    assert count > 0


@pytest.mark.parametrize("choices", list(product(*(registry().names(axis) for axis in AXES))))
def test_the_pair_loss_beside_any_method_under_every_valid_combination(choices: tuple[str, str, str]) -> None:
    component, axes = registry().find("aux", "pair"), dict(zip(AXES, choices, strict=True))
    parts = {axis: registry().build(axis, choice) for axis, choice in axes.items()}
    if not all(works(component, axis, choice) for axis, choice in axes.items()):
        with pytest.raises(ConfigError, match="choose one of"):
            registry().build("aux", {"name": "pair"}, **parts)
        return
    loss, diagnostics = registry().build("aux", {"name": "pair"}, **parts)(ROWS)
    assert len(loss.pairs) == diagnostics["pairs/accepted"]
