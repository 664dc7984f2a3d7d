"""The shopping expert: full rewards, by the shortest way, from wherever it is asked; slips and words beside it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product as combinations

import numpy as np
import pytest
import webshop_recorded
import webshop_shop
import webshop_synthetic
from hypothesis import given, settings
from hypothesis import strategies as st

from creditlab.environments.webshop.expert import Expert, choices, slip
from creditlab.environments.webshop.goals import Mode
from creditlab.environments.webshop.records import Goal
from creditlab.environments.webshop.scorer import Scorer
from creditlab.environments.webshop.session import Session, Shop, parse_action
from creditlab.environments.webshop.vocabulary import phrases, texts
from creditlab.policy.tiny import build_tokenizer

SHOPS = [(50, 0, 5, 4, "human"), (90, 1, 9, 6, "synthetic"), (700, 4, None, None, "human"), (700, 4, None, None, "synthetic")]


def finish(session: Session, limit: int) -> tuple[list[str], float]:
    """Plays the expert until it has bought something: its actions and the reward."""
    expert, actions, reward = Expert(session.shop, session.goal), [], 0.0
    while not session.done and len(actions) < limit:
        actions.append(expert.act(session))
        outcome = session.step(actions[-1])
        assert outcome.effective, actions
        reward = outcome.reward
    return actions, reward


@pytest.mark.parametrize(("products", "seed", "kinds", "breadth", "mode"), SHOPS)
def test_meets_every_goal(products: int, seed: int, kinds: int | None, breadth: int | None, mode: Mode) -> None:
    shop, goals = webshop_synthetic.shop(products, seed, kinds, breadth, mode)
    direct = 0
    for goal in goals[:200]:
        assert shop.prices[goal.asin] < goal.price_upper
        actions, reward = finish(Session(shop, goal), limit=12)
        assert reward == 1.0, (goal, actions)
        direct += len(actions) == 3 + len(goal.options)  # search, open, choose, buy
    assert direct > 0.85 * 200


def test_searches_with_words_of_the_instruction() -> None:
    shop, goals = webshop_synthetic.shop(50, 0, 5, 4)
    for goal in goals:
        query = Expert(shop, goal).act(Session(shop, goal))
        assert query.startswith("search[")
        assert all(word in goal.instruction.split(", and price")[0] for word in query[7:-1].split())
        assert query[7:-1].endswith(" ".join(goal.attributes))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 199), st.integers(0, 2**32), st.integers(0, 12))
def test_goes_on_from_anywhere(number: int, seed: int, wandering: int) -> None:
    shop, goals = webshop_synthetic.shop(700, 4)
    session, rng = Session(shop, goals[number]), np.random.default_rng(seed)
    for _ in range(wandering):
        clicks = [f"click[{label}]" for label in session.page.clickables if label != "buy now"]
        session.step(str(rng.choice([*clicks, "search[red backpack]", "search[zzz]", f"search[{goals[seed % 200].name}]"])))
    # Out of a sub page and a product, back to search, then search, up to four pages on, open, two options, buy.
    actions, reward = finish(session, limit=3 + 1 + 4 + 1 + 2 + 1)
    assert reward == 1.0, actions


@pytest.mark.parametrize("mode", webshop_recorded.MODES)
def test_chooses_the_best_options_of_the_recorded_products(mode: str) -> None:
    goals, prices = webshop_recorded.goals_and_prices(mode)
    catalogue, score = webshop_recorded.catalogue(), Scorer(webshop_recorded.RecordedNouns(webshop_recorded.title_nouns()))
    shop = Shop(catalogue, prices, webshop_recorded.index().search, score)
    for goal in goals[::5]:
        options = {name: values for name, values in catalogue.get(goal.asin).options.items() if values}
        best = max(
            score(catalogue.get(goal.asin), goal, dict(zip(options, values, strict=True)), prices[goal.asin]).reward
            for values in combinations(*options.values())
        )
        assert finish(Session(shop, goal), limit=15)[1] == best


def test_refines_a_search_that_does_not_find_the_product() -> None:
    def search(query: str) -> tuple[str, ...]:
        return (webshop_shop.RED_MUG.asin,) if query == "tall mug" else ()

    made = replace(webshop_shop.shop(), search=search)
    assert Expert(made, webshop_shop.goal()).act(Session(made, webshop_shop.goal())) == "search[tall mug]"
    with pytest.raises(ValueError, match="B000000001 is in the catalogue, but no search finds it"):
        Expert(replace(made, search=lambda query: ()), webshop_shop.goal())


def test_leaves_a_wrong_product() -> None:
    shop, goal = webshop_shop.shop(), webshop_shop.goal()
    session, expert = Session(shop, goal), Expert(shop, goal)
    for action in ("search[mug]", "click[b000000002]"):
        session.step(action)
    assert expert.act(session) == "click[< prev]"
    for action in ("click[< prev]", "click[b000000001]", "click[blue]"):
        session.step(action)
    assert expert.act(session) == "click[red]"
    session.step("click[features]")
    assert expert.act(session) == "click[< prev]"


def wants(**asked: str) -> Goal:
    return replace(webshop_shop.goal(), options=tuple(asked.values()), option_names=tuple(asked))


def test_choices() -> None:
    def chosen(goal: Goal, **options: tuple[str, ...]) -> dict[str, str]:
        return choices(replace(webshop_shop.RED_MUG, options=options), goal)

    human = webshop_shop.goal(options=("navy blue", "10"))
    assert chosen(human, color=("red", "sky blue", "navy blue"), size=("8", "10")) == {"color": "navy blue", "size": "10"}
    assert chosen(human, color=("red", "sky blue")) == {"color": "sky blue"}, "both are blue"
    assert chosen(human, color=("red",), size=("8",)) == {}
    assert chosen(wants(size="10"), width=("10",), size=("8", "10")) == {"size": "10"}
    assert chosen(wants(size="10"), size=("8", "10"), width=("10",)) == {}, "a click on 10 chooses the width"
    assert chosen(webshop_shop.goal(options=("features",)), style=("features", "plain")) == {}, "a click opens the features"
    assert chosen(webshop_shop.goal(options=("a [b]",)), style=("a [b]", "plain")) == {}, "no click reaches it"


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 199), st.integers(0, 2**32), st.integers(0, 6))
def test_slips_have_no_effect(number: int, seed: int, steps: int) -> None:
    shop, goals = webshop_synthetic.shop(700, 4)
    session, expert, rng = Session(shop, goals[number]), Expert(shop, goals[number]), np.random.default_rng(seed)
    for _ in range(steps):
        session.step(expert.act(session))
    before = session.snapshot()
    assert not session.step(slip(session, rng)).effective
    assert session.snapshot() == before


def test_slips_are_of_many_kinds() -> None:
    shop, goals = webshop_synthetic.shop(50, 0, 5, 4)
    session, rng = Session(shop, goals[0]), np.random.default_rng(0)
    session.step("search[rug]")
    slips = {slip(session, rng) for _ in range(300)}
    assert any(parse_action(action)[1] is None for action in slips)
    assert {"click[buy now]", "click[< prev]"} <= slips
    assert any(action.startswith("click[b0") for action in slips)
    assert "click[next >]" not in slips


@pytest.mark.parametrize("mode", ["human", "synthetic"])
def test_the_tiny_tokenizer_knows_every_word(mode: Mode) -> None:
    """Actions come back from their tokens, and neither pages nor slips hold an unknown word."""
    shop, goals = webshop_synthetic.shop(50, 0, 5, 4, mode)
    tokenizer = build_tokenizer(texts(shop.catalogue, goals), phrases(shop.catalogue))
    rng = np.random.default_rng(0)

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False)
        assert tokenizer.unk_token_id not in found, (text, tokenizer.convert_ids_to_tokens(found))
        return found

    def check(session: Session) -> None:
        ids(session.page.text)
        ids("'" + session.page.text.replace(" [SEP] ", "' [SEP] '") + "'")
        ids(session.rich())
        ids(slip(session, rng))
        for label in session.page.clickables:
            assert len(ids(f"click[{label}]")) == 1

    for goal in goals[:200]:
        session, expert = Session(shop, goal), Expert(shop, goal)
        while not session.done:
            check(session)
            action = expert.act(session)
            tokens = ids(action)
            assert tokenizer.decode(tokens) == action
            session.step(action)
    for product in shop.catalogue.products[:20]:
        session = Session(shop, goals[0])
        for action in (
            f"search[{product.name}]",
            f"click[{product.asin}]",
            "click[description]",
            "click[< prev]",
            "click[features]",
        ):
            ids(action.lower())
            session.step(action)
            check(session)


def test_phrases_of_a_page_shorten_it() -> None:
    shop, goals = webshop_synthetic.shop(50, 0, 5, 4)
    tokenizer = build_tokenizer(texts(shop.catalogue, goals), phrases(shop.catalogue))
    product = shop.catalogue.products[0]
    value = next(iter(product.options.values()))[0]
    for text in (
        product.asin,
        value,
        product.attributes[0],
        "search[<your query>]",
        "' [SEP] '",
        "Back to Search [SEP] < Prev",
    ):
        assert len(tokenizer.encode(text, add_special_tokens=False)) == 1, text
