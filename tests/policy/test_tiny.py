"""The tiny model's tokenizer knows every word of the games it is for, and gives every command back byte for byte."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conftest import data_path
from hypothesis import given
from hypothesis import strategies as st

from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.families import FAMILIES
from creditlab.policy.loading import load_model, load_tokenizer
from creditlab.policy.policy import encode_prompts, encode_target
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings, TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer

SMALL = TinyModel(hidden_size=16, layers=1, heads=2, ffn_size=16)
GAMES_PER_SOURCE = 24


def tokens(tokenizer: Any, text: str) -> list[str]:
    return list(tokenizer.convert_ids_to_tokens(tokenizer(text, add_special_tokens=False)["input_ids"]))


def played_texts(env: ALFWorld, tasks: Any, turns: int = 12) -> tuple[set[str], set[str]]:
    """All texts shown to a policy, and all commands, on walks of expert, random and inadmissible commands."""
    shown: set[str] = set()
    commands: set[str] = set()
    for number, task in enumerate(tasks):
        rng = np.random.default_rng(number)
        episode, expert = env.episode(task), env.expert(task, rng)
        now = episode.start()
        for turn in range(turns):
            shown |= {task.goal, now.view.observation, now.view.status}
            commands |= set(now.view.actions)
            choice = turn % 4
            action = expert.act(episode) if choice < 2 else str(rng.choice(now.view.actions))
            if choice == 3:
                action = env.slip(episode, rng)
                commands.add(action)
            now = episode.step(action)
            if now.done:
                break
    return shown, commands


def check(env: ALFWorld, tasks: Any) -> None:
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    shown, commands = played_texts(env, tasks)
    assert len(shown) > 100
    for text in shown:
        assert "<unk>" not in tokens(tokenizer, text), text
    prompt = PromptSettings()
    for command in commands:
        ids = encode_target(prompt, tokenizer, command)  # refuses a command that does not come back
        assert tokenizer.decode(ids, skip_special_tokens=True) == command
        assert tokenizer.unk_token_id not in ids


def test_generated_games_of_every_family_and_room_have_no_unknown_word() -> None:
    env = ALFWorld(families=tuple(FAMILIES), rooms=())
    tasks = env.train_tasks()
    check(env, [tasks[i] for i in range(0, 5 * GAMES_PER_SOURCE, 5)])


def test_held_out_games_have_no_unknown_word() -> None:
    env = ALFWorld(families=tuple(FAMILIES), rooms=(), eval_plans="unseen")
    check(env, env.panel(GAMES_PER_SOURCE, 0).tasks)


def test_real_games_have_no_unknown_word() -> None:
    env = ALFWorld(games=str(data_path("alfworld", "train.jsonl.xz")), families=("pick",), rooms=("bathroom", "bedroom"))
    tasks = env.train_tasks()
    check(env, [tasks[i] for i in range(0, len(tasks), max(1, len(tasks) // GAMES_PER_SOURCE))])
    check(env, env.panel(GAMES_PER_SOURCE, 0).tasks)


def test_a_whole_prompt_has_no_unknown_word() -> None:
    env = ALFWorld()
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    task = env.train_tasks()[0]
    episode = env.episode(task)
    first = episode.start()
    second = episode.step(first.view.actions[0])
    history = [(first.view.observation, first.view.actions[0])]
    [(ids, cut)] = encode_prompts(PromptSettings(), tokenizer, [Context("", task.goal, second.view, history, 15)])
    assert not cut
    assert tokenizer.unk_token_id not in ids


def test_the_longest_phrase_comes_first() -> None:
    tokenizer = build_tokenizer(["mug shelf you arrive at the"], ["you", "you arrive at", "you arrive", "go to"])
    assert tokens(tokenizer, "you arrive at shelf you arrive you go to mug") == [
        "you arrive at", "shelf", "you arrive", "you", "go to", "mug",
    ]  # fmt: skip


def test_a_phrase_does_not_match_inside_a_word() -> None:
    tokenizer = build_tokenizer(["cart into art"], ["art", "in"])
    assert tokens(tokenizer, "cart into art in") == ["cart", "into", "art", "in"]


def test_numbers_words_and_signs_are_tokens_and_case_does_not_matter() -> None:
    tokenizer = build_tokenizer(["take mug 12 from shelf 3, please."])
    assert tokens(tokenizer, "TAKE mug  12,shelf\n3.") == ["take", "mug", "12", ",", "shelf", "3", "."]
    assert tokens(tokenizer, "take zebra") == ["take", "<unk>"]


def test_the_vocabulary_does_not_depend_on_the_order_of_the_texts() -> None:
    texts, phrases = ["b a", "d c 1", "a"], ["x y", "x"]
    first, second = build_tokenizer(texts, phrases), build_tokenizer(texts[::-1], phrases[::-1])
    assert first.get_vocab() == second.get_vocab()


def test_special_tokens_are_apart_and_never_read_from_text() -> None:
    tokenizer = build_tokenizer(["a b"])
    assert len({tokenizer.pad_token_id, tokenizer.eos_token_id, tokenizer.unk_token_id}) == 3
    assert tokenizer.decode([tokenizer.pad_token_id, *tokenizer("a b")["input_ids"], tokenizer.eos_token_id]) != "a b"


def test_the_model_depends_on_its_seed_alone_and_on_no_global_state() -> None:
    tokenizer = build_tokenizer(["a b c"])
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = build_model(SMALL, tokenizer, 7)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    second, other = build_model(SMALL, tokenizer, 7), build_model(SMALL, tokenizer, 8)
    weights = [dict(model.named_parameters()) for model in (first, second, other)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    assert not torch.equal(weights[0]["model.embed_tokens.weight"], weights[2]["model.embed_tokens.weight"])


def test_heads_must_divide_the_width() -> None:
    with pytest.raises(ValueError, match=r"model\.heads=2 must divide model\.hidden_size=6 into an even width each, not 3"):
        TinyModel(hidden_size=6, heads=2)
    with pytest.raises(ValueError, match=r"model\.heads=3 must divide model\.hidden_size=16"):
        TinyModel(hidden_size=16, heads=3)


def test_the_default_model_has_about_a_hundred_thousand_parameters() -> None:
    env = ALFWorld()
    model = build_model(TinyModel(), build_tokenizer(env.vocabulary(), env.phrases), 0)
    assert 80_000 < sum(p.numel() for p in model.parameters()) < 150_000  # tied embeddings count once


def test_model_and_tokenizer_come_back_from_disk(tmp_path: Path) -> None:
    env = ALFWorld()
    tokenizer = build_tokenizer(env.vocabulary(), env.phrases)
    model = build_model(SMALL, tokenizer, 0)
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    loaded, again = load_model(tmp_path)
    weights = dict(model.named_parameters())
    assert all(torch.equal(weights[name], value) for name, value in loaded.named_parameters())
    text = "you arrive at cabinet 12. on the cabinet 12, you see a mug 1, and a toiletpaper 2. | task put a mug in desk act"
    for copy in (again, load_tokenizer(tmp_path)):
        assert copy(text)["input_ids"] == tokenizer(text)["input_ids"]
        assert copy.decode(tokenizer("take mug 1 from desk 2")["input_ids"]) == "take mug 1 from desk 2"
        assert copy.padding_side == "left"
        assert (copy.pad_token_id, copy.eos_token_id) == (tokenizer.pad_token_id, tokenizer.eos_token_id)


def test_a_command_with_its_argument_in_brackets_comes_back() -> None:
    phrases = ["search[", "click[b0abc12345]", "click[12 ounce (pack of 1)]", "click[< prev]"]
    tokenizer = build_tokenizer(["red shirt ]"], phrases)
    for command in ("search[red shirt]", "search[red]", *phrases[1:]):
        ids = encode_target(PromptSettings(), tokenizer, command)
        assert tokenizer.decode(ids, skip_special_tokens=True) == command
    assert tokens(tokenizer, "search[red shirt]") == ["search[", "red", "shirt", "]"]
    assert tokens(tokenizer, "click[12 ounce (pack of 1)]") == ["click[12 ounce (pack of 1)]"]


PHRASES = ("a", "ab", "a b", "ab a", "ba", "b a", "1", "a 1", "[a", "[a b]", "]", "b]")


@given(st.sets(st.sampled_from(PHRASES)), st.text("ab1 []", max_size=12))
def test_the_longest_phrase_that_is_no_part_of_a_word_is_taken(phrases: set[str], text: str) -> None:
    """By the definition: at every place the longest phrase whose ends are no letters or digits within a longer run."""
    tokenizer = build_tokenizer([text], phrases)
    expected, rest = [], " ".join(text.split())
    before = " "
    while rest:
        ends = [
            phrase
            for phrase in sorted(phrases, key=len, reverse=True)
            if rest.startswith(phrase)
            and not (phrase[0].isalnum() and before.isalnum())
            and not (phrase[-1].isalnum() and rest[len(phrase) : len(phrase) + 1].isalnum())
        ]
        word = re.match(r"[a-z]+|\d+|\s|.", rest)
        assert word
        token = ends[0] if ends else word[0]
        expected += [token] if token != " " else []
        before, rest = token[-1], rest[len(token) :]
    assert tokens(tokenizer, " ".join(text.split())) == expected


@pytest.mark.parametrize("word", ["café", "naïve", "שלום", "m²", "ﬁne", "ångström"])
def test_a_word_of_any_script_is_one_token(word: str) -> None:
    tokenizer = build_tokenizer([f"a {word} b"], ["search["])
    assert tokens(tokenizer, f"a {word}, 12{word} b") == ["a", word, "<unk>", "<unk>", word, "b"]
    assert len(encode_target(PromptSettings(), build_tokenizer([f"{word} ]"], ["search["]), f"search[{word}]")) == 4
