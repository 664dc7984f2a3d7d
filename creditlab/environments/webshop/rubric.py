"""The rubric of WebShop: channels C from the scorer, and the dependency template (MCGPO, Table 16).

While a product is open, the channels tell what buying it now would score; without one only the search counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from creditlab.environments.rubric import GOAL_PROGRESS, SUCCESS, Template, channel
from creditlab.environments.webshop.records import Goal, Score
from creditlab.rollouts import Channel

SEARCHED = "search_issued"
OPENED = "product_opened"
TYPE = "type_match"
ATTRIBUTES = "attribute_match"
OPTIONS = "option_match"
PRICE = "price_ok"

TEMPLATE = Template(
    ever=((SEARCHED, OPENED),),
    current=(
        (OPENED, TYPE),
        (OPENED, ATTRIBUTES),
        (OPENED, OPTIONS),
        (OPENED, PRICE),
        (TYPE, GOAL_PROGRESS),
        (ATTRIBUTES, GOAL_PROGRESS),
        (OPTIONS, GOAL_PROGRESS),
        (PRICE, GOAL_PROGRESS),
        (GOAL_PROGRESS, SUCCESS),
    ),
)
"""The dependencies of every goal that asks for options; the paper prints none for WebShop."""
TEMPLATE_WITHOUT_OPTIONS = replace(TEMPLATE, current=tuple(edge for edge in TEMPLATE.current if OPTIONS not in edge))
"""Where the goal asks for no option the scorer omits that part, and nothing may wait for it."""


def template(goal: Goal) -> Template:
    """The dependency template of a goal."""
    return TEMPLATE if goal.options else TEMPLATE_WITHOUT_OPTIONS


def channels(goal: Goal, score: Score | None, *, searched: bool) -> Mapping[str, Channel]:
    """The status C of a state; `score` is that of buying the open product now, None while no product is open."""
    values = {SEARCHED: Fraction(searched), OPENED: Fraction(score is not None), **_matches(goal, score)}
    return {name: channel(value, Fraction(1)) for name, value in values.items()}


def preview(goal: Goal, score: Score | None) -> Fraction:
    """The reward of buying now, exactly: type match times the hits over |A| + |O| + 1."""
    return _matches(goal, score)[GOAL_PROGRESS]


def _matches(goal: Goal, score: Score | None) -> dict[str, Fraction]:
    """The channels of the open product; the scorer's shares are restored to the counts that they came from."""
    asked, wanted = len(goal.attributes), len(goal.options)
    if score is None:
        return dict.fromkeys((TYPE, ATTRIBUTES, OPTIONS, PRICE, GOAL_PROGRESS), Fraction(0))
    attributes, options = round(score.r_att * asked), round((score.r_option or 0.0) * wanted)
    kind = Fraction(str(score.r_type))
    return {
        TYPE: kind,
        ATTRIBUTES: Fraction(attributes, asked),
        OPTIONS: Fraction(options, max(wanted, 1)),
        PRICE: Fraction(score.r_price),
        GOAL_PROGRESS: kind * Fraction(attributes + options + score.r_price, asked + wanted + 1),
    }
