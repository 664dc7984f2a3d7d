"""All combinations of method, match, fold and weighting: the valid ones give credit, the others name what is valid."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from every_method import names

from creditlab.cli import compose_job
from creditlab.config import ConfigError
from creditlab.credit.types import Feature
from creditlab.hookspecs import AXES
from creditlab.registry import Component, registry
from creditlab.rollouts import RolloutBatch, Rows
from creditlab.testing import random_groups
from creditlab.testing.conformance import check_shape, featured
from creditlab.training.assign import assign

METHODS = [(name, None) for name in names() if "base" not in registry().find("method", name).parts]
WRAPPED = [(name, base) for name in names() if "base" in registry().find("method", name).parts for base, _ in METHODS]


class Everything:
    """Stands for a component that asks for both features, so that one batch serves all combinations."""

    requires = (Feature("actor_hidden_-1", "actor"), Feature("reference_hidden", "reference"))


GROUPS = featured(Everything, random_groups(np.random.default_rng(0), groups=3, slots=8))  # type: ignore[arg-type]
"""Large enough that every match rule and fold of the pair loss finds pairs."""
ROWS = Rows.from_groups(GROUPS)


def owner(name: str, base: str | None) -> Component:
    """The component whose axes count: a wrapper's are those of its base."""
    return registry().find("method", base or name)


def works(component: Component, axis: str, choice: str) -> bool:
    """Whether a part implements what the component calls, by the method names it has."""
    calls = getattr(component.cls, "calls", {}).get(axis, ())
    return all(hasattr(registry().find(axis, choice).cls, call) for call in calls)


def used(name: str) -> list[str]:
    """The axes of a method with its defaults, in the order of its declaration."""
    parts = registry().find("method", name).parts
    return list(owner(name, parts["base"][1] if "base" in parts else None).axes)


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
        assert credit.advantages.any(), axes
        assert all(len(loss.pairs) for loss in credit.auxiliary), axes
        count += 1
    assert count > 0


@pytest.mark.parametrize("choices", list(product(*(registry().names(axis) for axis in AXES))))
def test_the_pair_loss_under_every_combination(choices: tuple[str, str, str]) -> None:
    component, axes = registry().find("aux", "pair"), dict(zip(AXES, choices, strict=True))
    parts = {axis: registry().build(axis, choice) for axis, choice in axes.items()}
    wrong = [axis for axis, choice in axes.items() if not works(component, axis, choice)]
    if wrong:
        with pytest.raises(ConfigError) as refusal:
            registry().build("aux", {"name": "pair"}, **parts)
        valid = [c for c in registry().names(wrong[0]) if works(component, wrong[0], c)]
        assert str(refusal.value).endswith(f"choose one of: {', '.join(valid)}")
        return
    loss, diagnostics = registry().build("aux", {"name": "pair"}, **parts)(ROWS)
    assert 0 < len(loss.pairs) == diagnostics["pairs/accepted"]


@pytest.mark.parametrize(("name", "base"), METHODS + WRAPPED)
def test_the_pair_loss_beside_every_method(name: str, base: str | None) -> None:
    """The method's advantages stay and the same pairs join, unless the method holds the loss already."""
    line = [f"method={name}", *([f"method@base={base}"] if base else []), "aux=pair"]
    holder = owner(name, base)
    if ("aux", "pair") in holder.parts.values():
        place = "base.pair" if base else "method.pair"
        with pytest.raises(ConfigError, match=f"method={holder.name} already contains aux=pair; configure it under {place}"):
            compose_job(line)
        return
    job = compose_job(line)
    rows, credit = assign(job, RolloutBatch(GROUPS, update=1, seed=0))
    np.testing.assert_array_equal(credit.advantages, job.method(rows).advantages)
    alone, _ = registry().create("aux", "pair")(rows)
    assert len(alone.pairs)
    np.testing.assert_array_equal(credit.auxiliary[-1].pairs, alone.pairs)


UNUSED = [(name, axis) for name in names() for axis in AXES if axis not in used(name)]


@pytest.mark.parametrize(("name", "axis"), UNUSED)
def test_an_axis_that_a_method_does_not_use_is_refused_with_those_it_uses(name: str, axis: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        compose_job([f"method={name}", f"{axis}={registry().names(axis)[0]}"])
    assert str(refusal.value).endswith(f"does not use {axis}; axes it uses: {', '.join(used(name)) or 'none'}")
