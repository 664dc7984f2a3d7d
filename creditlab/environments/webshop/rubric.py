"""The rubric of WebShop: channels C from the scorer, and the dependency template (MCGPO, Table 16).

While a product is open, the channels tell what buying it now would score; without one only the search counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

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
    if score is None:
        return _CLOSED[searched]
    # the scorer's shares are restored to the counts that they came from, so that values are exact
    attributes, options = round(score.r_att * len(goal.attributes)), round((score.r_option or 0.0) * len(goal.options))
    return _open(score.r_type, attributes, len(goal.attributes), options, len(goal.options), score.r_price, searched)


@lru_cache(maxsize=4096)
def _open(
    r_type: float, attributes: int, asked: int, options: int, wanted: int, price: bool, searched: bool
) -> Mapping[str, Channel]:
    """The status while a product is open, from its hits; the reward of buying it is r_type · hits / (|A| + |O| + 1)."""
    kind = Fraction(str(r_type))
    return {
        **_CLOSED[searched],
        OPENED: channel(1, 1),
        TYPE: channel(kind, 1),
        ATTRIBUTES: channel(Fraction(attributes, asked), 1),
        OPTIONS: channel(Fraction(options, max(wanted, 1)), 1),
        PRICE: channel(int(price), 1),
        GOAL_PROGRESS: channel(kind * Fraction(attributes + options + price, asked + wanted + 1), 1),
    }


_MATCHES = (OPENED, TYPE, ATTRIBUTES, OPTIONS, PRICE, GOAL_PROGRESS)
_CLOSED = [{SEARCHED: channel(searched, 1), **dict.fromkeys(_MATCHES, channel(0, 1))} for searched in (0, 1)]
"""The status while no product is open, before and after the search."""
