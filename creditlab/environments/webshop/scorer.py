"""The reward of a purchase, as WebShop defines it (Yao et al. 2022, section 3.1, and its released scorer).

reward = r_type · (attribute hits + option hits + price hit) / (|A| + |O| + 1), A and O the goal's attributes and options.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from rapidfuzz.fuzz import token_set_ratio
from rapidfuzz.utils import default_process

from creditlab.environments.webshop.colours import normalise, normalise_pair
from creditlab.environments.webshop.nouns import Nouns
from creditlab.environments.webshop.records import Goal, Product, Score

_ALIKE = 85
"""Texts match where their similarity, a whole number from 0 to 100, is above."""
_SHARED_LEVELS = 2
"""Levels of the category paths that have to agree."""
_NOUNLESS = 0.2
"""Title score where the goal's title has no noun."""
_NO_LATIN_1 = dict.fromkeys(range(128, 256))
"""Characters that the comparison drops before anything else."""
_PURCHASES = 1 << 14
_CHOICES = 1 << 16
_TEXTS = 1 << 16
"""Results that are kept: of pairs of product and goal, of chosen options, and of single texts."""


@dataclass(frozen=True, slots=True)
class _Fit:
    """What a product is worth for a goal, whatever its price and the chosen options."""

    attributes: int
    query_match: bool
    category_match: bool
    title_score: float
    r_type: float


class Scorer:
    """Scores purchases; remembers what does not depend on price and options, for a rollout scores the same pairs often."""

    def __init__(self, nouns: Nouns) -> None:
        self.nouns = nouns
        self._fit = lru_cache(_PURCHASES)(self._judge)

    def __call__(self, product: Product, goal: Goal, options: Mapping[str, str], price: float) -> Score:
        """The score of buying `product` for `price` dollars with the chosen `options`, name to value."""
        fit = self._fit(
            product.name,
            product.query,
            product.product_category,
            product.attributes,
            product.bullets,
            product.description,
            goal,
        )
        chosen = _option_hits(goal.options, goal.option_names, tuple(options.values()))
        affordable = price <= goal.price_upper
        attributes, wanted = len(goal.attributes), len(goal.options)
        total = attributes + wanted + 1
        return Score(
            reward=(fit.attributes + chosen + affordable) / total * fit.r_type,
            r_type=fit.r_type,
            r_att=fit.attributes / attributes,
            w_att=attributes / total,
            query_match=fit.query_match,
            category_match=fit.category_match,
            title_score=fit.title_score,
            r_option=chosen / wanted if wanted else None,
            w_option=wanted / total if wanted else None,
            r_price=affordable,
            w_price=1 / total,
        )

    def _judge(
        self,
        title: str,
        query: str,
        path: str,
        attributes: tuple[str, ...],
        bullets: tuple[str, ...],
        description: str,
        goal: Goal,
    ) -> _Fit:
        texts = (title.lower(), " ".join(bullets).lower(), description.lower())
        hits = sum(
            any(alike(own, wanted) for own in attributes) or any(wanted in text for text in texts)
            for wanted in goal.attributes
        )
        query_match = query == goal.query
        category_match = len(_levels(path) & _levels(goal.product_category)) >= _SHARED_LEVELS
        title_score = self._title_score(title, goal.name)
        r_type = _type_reward(query_match or category_match, title_score)
        return _Fit(hits, query_match, category_match, title_score, r_type)

    def _title_score(self, title: str, wanted: str) -> float:
        """The share of a wanted title's nouns that another has; the nouns it shares count once, its own with repeats."""
        nouns = self.nouns(wanted)
        return len({*nouns}.intersection(self.nouns(title))) / len(nouns) if nouns else _NOUNLESS


def _type_reward(match: bool, title_score: float) -> float:
    if title_score == 0:
        return 0.0
    if title_score < 0.1:
        return 0.1
    return 1.0 if match or title_score > 0.2 else 0.5


def alike(first: str, second: str) -> bool:
    """Whether two texts share so many words that WebShop takes them for the same (thefuzz.token_set_ratio above 85)."""
    return round(token_set_ratio(_words(first), _words(second))) > _ALIKE


@lru_cache(_CHOICES)
def _option_hits(wanted: tuple[str, ...], names: tuple[str, ...] | None, chosen: tuple[str, ...]) -> int:
    """How many of the wanted options one of the chosen values is like; named ones are compared together with their name."""
    own = [normalise(value) for value in chosen]
    goals = map(normalise, wanted) if names is None else map(normalise_pair, names, wanted)
    return sum(any(alike(value, goal) for value in own) for goal in goals)


@lru_cache(_TEXTS)
def _words(text: str) -> str:
    """A text as it is compared: letters and digits in lower case, everything else a space."""
    return default_process(text.translate(_NO_LATIN_1))


@lru_cache(_TEXTS)
def _levels(path: str) -> frozenset[str]:
    return frozenset(level.strip() for level in path.split("›"))
