"""The option reference in docs/ is the one that the components generate."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

from creditlab.config import SECTION_CLASSES
from creditlab.hookspecs import hookimpl
from creditlab.reference import reference
from creditlab.registry import Registry, registry

PAGE = Path(__file__).parents[2] / "docs" / "reference.md"


def test_the_page_is_up_to_date() -> None:
    again = "write it anew with: python -m creditlab.reference > docs/reference.md"
    assert PAGE.read_text(encoding="utf-8") == reference(), f"docs/reference.md is not what the components say; {again}"


def test_every_component_and_section_has_its_heading_once() -> None:
    headings = [line for line in reference().splitlines() if line.startswith("##")]
    ours = [c for c in registry().components.values() if c.package.startswith("creditlab:")]
    assert len(ours) > 35
    for heading in [f"### {c.axis}={c.name}" for c in ours] + [f"## Section `{name}`" for name in SECTION_CLASSES]:
        assert headings.count(heading) == 1, heading


def test_an_option_is_shown_with_key_type_default_and_meaning() -> None:
    lines = reference().splitlines()
    meaning = "Support κ at which a contrast counts half, in evidence records (MCGPO, Table 6)."
    assert f"| `weighting.kappa` | `float ≥ 0` | `2.0` | {meaning} |" in lines
    meaning = "Smallest contrast \\|Δu\\| that orders a pair; ties never do."
    assert f"| `aux.pair.epsilon` | `float ≥ 0, ≤ 1` | `0.1` | {meaning} |" in lines


@dataclass(frozen=True)
class Elsewhere:
    """A fold of another package."""

    axis = "fold"
    name = "elsewhere"


def test_components_of_other_packages_are_left_out() -> None:
    found = Registry().load()
    found.add(SimpleNamespace(creditlab_components=hookimpl(lambda: [Elsewhere])), "mine:elsewhere")
    assert "elsewhere" in found.names("fold")
    assert reference(found) == reference()
