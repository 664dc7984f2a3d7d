"""The reward of a purchase: against WebShop's own scorer, as recorded, and against its definition."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from webshop_recorded import MODES, RecordedNouns, catalogue, details, goals_and_prices, records, title_nouns
from webshop_shop import LAMP, RED_MUG, Nouns, goal, product

from creditlab.environments.webshop.colours import COLOURS, normalise, normalise_pair
from creditlab.environments.webshop.records import Goal, Product
from creditlab.environments.webshop.scorer import Scorer, alike

SCORER = Scorer(Nouns())
ATTRIBUTES = ("heavy duty", "dishwasher safe", "easy clean", "long lasting", "gluten free")
VALUES = {
    "color": ("red", "navy blue", "black | white", "marble"),
    "size": ("small", "3 ounce (pack of 1)", "x-large", "8.5"),
    "flavor name": ("vanilla bean", "lemon", "sea salt & lime"),
}
WORDS = ("mug", "lamp", "rug", "tall", "desk", "cable", "set", "kitchen")
PATHS = ("Home › Kitchen › Mugs", "Home › Kitchen", "Home › Garden", "Office › Lights › Desk")

chosen_options = st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in VALUES.items()})
some_attributes = st.lists(st.sampled_from(ATTRIBUTES), min_size=1, max_size=4, unique=True)


@st.composite
def products(draw: st.DrawFn) -> Product:
    title = " ".join(draw(st.lists(st.sampled_from(WORDS), max_size=5)))
    return replace(
        product("B000000009", title, draw(some_attributes), 10.0, **VALUES),
        query=draw(st.sampled_from(("mugs", "lamps"))),
        product_category=draw(st.sampled_from(PATHS)),
    )


@st.composite
def goals(draw: st.DrawFn) -> Goal:
    """A goal made from one product; whether it names its options decides how they are compared."""
    origin, options = draw(products()), draw(chosen_options)
    return Goal(
        asin=origin.asin,
        category=origin.category,
        query=origin.query,
        name=origin.name,
        product_category=origin.product_category,
        instruction="buy it",
        attributes=origin.attributes[: draw(st.integers(1, 4))],
        price_upper=draw(st.sampled_from((10.0, 50.0, 1_000_000.0))),
        options=tuple(options.values()),
        option_names=tuple(options) if draw(st.booleans()) else None,
    )


@pytest.mark.parametrize("mode", MODES)
def test_every_field_of_every_recorded_score(mode: str) -> None:
    scorer = Scorer(RecordedNouns(title_nouns()))
    wanted, _ = goals_and_prices(mode)
    calls = [record for record in records("rewards") if record["mode"] == mode]
    assert len(calls) == {"human": 400, "synthetic": 200}[mode]
    for call in calls:
        bought = catalogue().get(call["asin"])
        score = scorer(bought, wanted[call["goal_index"]], call["options"], call["price"])
        assert score.reward == call["reward"], call
        assert details(score) == call["reward_info"], call


def test_scores_a_purchase_by_its_parts() -> None:
    """One of two attributes, one of two options and the price: 3 of 5 hits, of the right type."""
    score = SCORER(RED_MUG, goal(("red", "large"), ("heavy duty", "gluten free")), {"color": "red"}, 30.0)
    assert score.reward == 3 / 5
    assert (score.r_att, score.r_option, score.r_price, score.r_type) == (1 / 2, 1 / 2, True, 1.0)
    assert (score.w_att, score.w_option, score.w_price) == (2 / 5, 2 / 5, 1 / 5)
    assert score.query_match
    assert score.category_match
    assert score.title_score == 1.0


def test_a_price_hits_up_to_the_bound() -> None:
    assert SCORER(RED_MUG, goal(), {}, 30.0).r_price
    assert not SCORER(RED_MUG, goal(), {}, 30.01).r_price


def test_attributes_are_also_read_from_title_bullet_points_and_description() -> None:
    wanted = goal((), ("matte finish",))
    bare = replace(RED_MUG, attributes=("gluten free",))
    assert SCORER(bare, wanted, {}, 1.0).r_att == 0.0
    for text in ("Mug, Matte Finish", "a MATTE FINISHED thing"):
        assert SCORER(replace(bare, name=text), wanted, {}, 1.0).r_att == 1.0
        assert SCORER(replace(bare, bullets=("one", text)), wanted, {}, 1.0).r_att == 1.0
        assert SCORER(replace(bare, description=text), wanted, {}, 1.0).r_att == 1.0
    assert SCORER(replace(bare, bullets=("all matte", "finish")), wanted, {}, 1.0).r_att == 1.0  # they are joined by spaces


@pytest.mark.parametrize(
    ("title", "query", "path", "r_type"),
    [
        ("one b c d e f g h i j", "mugs", "", 1.0),  # a tenth of the nouns, the same query
        ("one b c d e f g h i j", "lamps", "Mugs › Home", 1.0),  # two levels of the path, in any order
        ("one b c d e f g h i j", "lamps", "Home › Office", 0.5),  # one level is not enough
        ("one two", "lamps", "", 0.5),  # 0.2 is not above 0.2
        ("one two three", "lamps", "", 1.0),
        ("nothing alike", "mugs", "Home › Kitchen › Mugs", 0.0),  # no noun in common overrides the rest
    ],
)
def test_the_type_reward(title: str, query: str, path: str, r_type: float) -> None:
    bought = replace(RED_MUG, name=title, query=query, product_category=path)
    wanted = replace(goal(), name="one two three four five six seven eight nine ten")
    assert SCORER(bought, wanted, {}, 1.0).r_type == r_type


def test_fewer_than_a_tenth_of_the_nouns_gives_a_tenth_even_of_the_right_query() -> None:
    wanted = replace(goal(), name="one two three four five six seven eight nine ten eleven")
    score = SCORER(replace(RED_MUG, name="one"), wanted, {}, 1.0)
    assert (score.query_match, score.title_score, score.r_type) == (True, 1 / 11, 0.1)


def test_repeated_nouns_of_the_wanted_title_count_in_the_denominator_only() -> None:
    wanted = replace(goal(), name="mug and mug")
    assert SCORER(replace(RED_MUG, name="mug mug mug"), wanted, {}, 1.0).title_score == 1 / 3


def test_a_title_without_nouns_leaves_it_to_query_and_category() -> None:
    """Its title score is 0.2, which neither makes the type nor breaks it."""
    wanted = replace(goal(), name="")
    assert SCORER(RED_MUG, wanted, {}, 1.0).title_score == 0.2
    assert SCORER(RED_MUG, wanted, {}, 1.0).r_type == 1.0
    assert SCORER(LAMP, wanted, {}, 1.0).r_type == 0.5


@pytest.mark.parametrize(
    ("value", "colour"),
    [
        ("navy blue", "blue"),  # the list is alphabetical, and its first word decides
        ("blue heather", "blue"),
        ("light grey", "grey"),
        ("dark red wine", "dark"),
        ("uncovered", "red"),  # also inside a word
        ("Black", "Black"),
        ("5 x 7 feet", "5 x 7 feet"),
        ("", ""),
    ],
)
def test_the_first_colour_word_stands_for_an_option_value(value: str, colour: str) -> None:
    assert normalise(value) == colour


def test_the_colours_are_in_the_released_order() -> None:
    """WebShop's list has 102 words in the order of the alphabet."""
    assert len(set(COLOURS)) == 102
    assert list(COLOURS) == sorted(COLOURS)


def test_a_pair_is_a_colour_only_where_name_or_value_is_one() -> None:
    assert normalise_pair("color", "navy") == "navy"
    assert normalise_pair("gold", "5") == "gold"
    assert normalise_pair("color", "navy blue") == "('color', 'navy blue')"


def test_named_options_are_compared_with_their_names() -> None:
    """The name's words count: a value that is the name hits, and one that hides a colour word inside a word misses."""
    wanted = replace(goal(("uncovered",)), option_names=("style",))
    assert SCORER(RED_MUG, wanted, {"anything": "style"}, 1.0).r_option == 1.0
    assert SCORER(RED_MUG, wanted, {"style": "uncovered"}, 1.0).r_option == 0.0
    assert SCORER(RED_MUG, replace(wanted, option_names=None), {"style": "uncovered"}, 1.0).r_option == 1.0


def test_remembers_by_what_a_product_is() -> None:
    """Two products of one id, as two catalogues may hold them, are scored each for itself."""
    scorer = Scorer(Nouns())
    changed = replace(RED_MUG, attributes=("gluten free",))
    wanted = goal(())
    assert [scorer(bought, wanted, {}, 1.0).r_att for bought in (RED_MUG, changed, RED_MUG)] == [1.0, 0.0, 1.0]
    assert scorer(RED_MUG, replace(wanted, attributes=("gluten free",)), {}, 1.0).r_att == 0.0


@settings(deadline=None, max_examples=200)
@given(products(), goals(), chosen_options, st.floats(0.01, 2000))
def test_a_reward_is_its_weighted_parts_times_the_type(
    bought: Product, wanted: Goal, options: dict[str, str], price: float
) -> None:
    score = SCORER(bought, wanted, options, price)
    assert 0.0 <= score.reward <= 1.0
    assert score.r_type in (0.0, 0.1, 0.5, 1.0)
    assert (score.r_option is None) == (score.w_option is None) == (not wanted.options)
    parts = [(score.r_att, score.w_att), (score.r_price, score.w_price), (score.r_option or 0.0, score.w_option or 0.0)]
    assert score.reward == pytest.approx(score.r_type * sum(part * weight for part, weight in parts), abs=1e-12)
    assert sum(weight for _, weight in parts) == pytest.approx(1.0)


@settings(deadline=None, max_examples=100)
@given(st.data(), products(), goals(), chosen_options)
def test_the_order_of_choosing_does_not_matter(
    data: st.DataObject, bought: Product, wanted: Goal, options: dict[str, str]
) -> None:
    other = dict(data.draw(st.permutations(sorted(options.items()))))
    assert SCORER(bought, wanted, options, 9.0) == SCORER(bought, wanted, other, 9.0)


@settings(deadline=None, max_examples=200)
@given(st.data(), products(), chosen_options, st.booleans())
def test_the_goals_own_product_with_its_options_is_a_success(
    data: st.DataObject, origin: Product, options: dict[str, str], named: bool
) -> None:
    assume(origin.name)
    wanted = Goal(
        asin=origin.asin,
        category=origin.category,
        query=origin.query,
        name=origin.name,
        product_category=origin.product_category,
        instruction="buy it",
        attributes=tuple(data.draw(st.lists(st.sampled_from(origin.attributes), min_size=1, unique=True))),
        price_upper=30.0,
        options=tuple(options.values()),
        option_names=tuple(options) if named else None,
    )
    score = SCORER(origin, wanted, options, 30.0)
    assert score.r_att == 1.0
    assert score.r_option == (1.0 if options else None)
    nouns = origin.name.split()
    assert score.title_score == len(set(nouns)) / len(nouns)
    assert score.reward == score.r_type == 1.0


snippets = st.lists(
    st.sampled_from(("red", "Blue", "pack", "of", "12", "é", "x-large", "'s", "(", "µm", "", "\\", '"')), max_size=5
).map(" ".join)


@settings(deadline=None, max_examples=400)
@given(snippets, snippets)
def test_texts_are_alike_as_the_released_scorer_finds(first: str, second: str) -> None:
    fuzz = pytest.importorskip("thefuzz.fuzz", reason="the library of WebShop's scorer; extra dev")
    assert alike(first, second) == (fuzz.token_set_ratio(first, second) > 85)
    assume(normalise_pair(first, second) not in COLOURS)
    assert alike(first, normalise_pair(first, second)) == (fuzz.token_set_ratio(first, (first, second)) > 85)
