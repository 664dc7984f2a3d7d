"""Generation records exactly what was sampled: right tokens, right log-probabilities, right ends."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.stats import chisquare
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from creditlab.policy.engine import Sample, TransformersGenerator, left_pad
from creditlab.policy.policy import Policy, encode_prompts
from creditlab.policy.prompts import Context
from creditlab.policy.settings import PromptSettings, TinyModel
from creditlab.policy.tiny import build_model, build_tokenizer
from creditlab.rollouts import View
from creditlab.training.seeds import derive

WORDS = [a + b for a in "abcdefghij" for b in "abcdefgh"]
LIMIT = 12


@functools.cache
def tiny() -> tuple[Any, Any]:
    """A random model over 80 words, with sharper predictions than fresh weights give."""
    tokenizer = build_tokenizer(WORDS)
    model = build_model(TinyModel(hidden_size=16, layers=1, heads=2, ffn_size=16, init_std=0.3), tokenizer, 0)
    return model.eval(), tokenizer


def prompts(count: int, longest: int = 20) -> list[NDArray[np.int32]]:
    rng = derive(1, "prompts")
    return [rng.integers(3, 80, rng.integers(1, longest)).astype(np.int32) for _ in range(count)]


def uniforms(count: int, limit: int = LIMIT, name: str = "uniforms") -> NDArray[np.float64]:
    return np.stack([derive(name, row).random(limit) for row in range(count)])


@torch.no_grad()
def direct(prompt: NDArray[np.int32], response: NDArray[np.int32], temperature: float) -> NDArray[np.float64]:
    """Log-probabilities of a response from one unpadded pass without a cache."""
    ids = torch.tensor([[*prompt.tolist(), *response.tolist()]])
    logits = tiny()[0](ids, use_cache=False).logits[0, len(prompt) - 1 : -1].double() / temperature
    chosen = torch.log_softmax(logits, -1).gather(1, torch.tensor(response, dtype=torch.int64)[:, None])
    return np.asarray(chosen[:, 0].numpy())


@pytest.mark.parametrize("temperature", [1.0, 0.4])
def test_recorded_log_probabilities_are_those_of_a_direct_pass(temperature: float) -> None:
    given = prompts(16)
    samples = TransformersGenerator(*tiny())(given, uniforms(16), temperature, batch_size=6)
    assert {len(sample.ids) for sample in samples} != {LIMIT}  # some ended before the limit
    for prompt, sample in zip(given, samples, strict=True):
        assert sample.ids.dtype == np.int32
        assert len(sample.logprobs) == len(sample.ids)
        np.testing.assert_allclose(sample.logprobs, direct(prompt, sample.ids, temperature), atol=1e-5)


def test_padding_and_company_in_the_batch_change_nothing() -> None:
    given, numbers = prompts(16), uniforms(16)
    generate = TransformersGenerator(*tiny())
    together = generate(given, numbers, 1.0, batch_size=16)
    order = derive("order").permutation(16)
    others = {
        "alone": generate(given, numbers, 1.0, batch_size=1),
        "in fives": generate(given, numbers, 1.0, batch_size=5),
        "shuffled": [
            s for _, s in sorted(zip(order, generate([given[i] for i in order], numbers[order], 1.0, 16), strict=True),
                                 key=lambda pair: pair[0])
        ],
    }  # fmt: skip
    for samples in others.values():
        for one, other in zip(together, samples, strict=True):
            assert one.ids.tolist() == other.ids.tolist()
            assert one.cut == other.cut
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-5)


@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_sampled_frequencies_are_those_of_the_softmax(temperature: float) -> None:
    """All tokens count, the improbable ones too: nothing is cut off the distribution (top-p, top-k)."""
    prompt, draws = prompts(3)[2], 6000
    with torch.no_grad():
        logits = tiny()[0](torch.tensor(prompt[None].astype(np.int64))).logits[0, -1].double()
    expected = torch.softmax(logits / temperature, -1).numpy() * draws
    samples = TransformersGenerator(*tiny())([prompt] * draws, uniforms(draws, 1), temperature, batch_size=1000)
    counts = np.bincount([int(sample.ids[0]) for sample in samples], minlength=len(expected))
    rare = expected < 5
    assert rare.any()
    observed = [*counts[~rare], counts[rare].sum()]
    assert chisquare(observed, [*expected[~rare], expected[rare].sum()]).pvalue > 1e-3
    assert (counts > 0).sum() > 50  # more than the 50 that a default top-k would leave


class Scripted(Qwen2ForCausalLM):
    """Gives fixed logits at every position; a prompt's last token says which of the scripts it follows."""

    def __init__(self, scripts: Sequence[NDArray[np.float64]], vocabulary: int) -> None:
        super().__init__(
            Qwen2Config(vocab_size=vocabulary, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                        num_attention_heads=1, num_key_value_heads=1, eos_token_id=None, pad_token_id=0)
        )  # fmt: skip
        self.scripts = scripts
        self.rows: list[int] = []
        self.position = 0

    def forward(self, input_ids: torch.Tensor, **options: Any) -> Any:
        output = super().forward(input_ids, **options)
        if input_ids.shape[1] > 1:  # a whole prompt
            self.rows, self.position = input_ids[:, -1].tolist(), -1
        self.position += 1
        logits = np.stack([self.scripts[row][self.position] for row in self.rows])
        output.logits = torch.from_numpy(logits).to(output.logits.dtype)[:, None]
        return output


def test_a_token_is_the_inverse_of_the_cumulative_distribution() -> None:
    share = np.log(np.array([0.1, 0.2, 0.0, 0.3, 0.4]) + 1e-300)
    share[2] = -np.inf
    model = Scripted([share[None]], 5)
    generate = TransformersGenerator(model, build_tokenizer([]))
    generate.eos = []
    # the intervals are [0, .1), [.1, .3), empty, [.3, .6), [.6, 1)
    numbers = [0.0, 0.05, 0.0999, 0.1001, 0.2999, 0.3001, 0.5999, 0.6001, 0.9999, 1 - 2**-53]
    samples = generate([np.array([1, 0], np.int32)] * len(numbers), np.array(numbers)[:, None], 1.0, 64)
    assert [int(sample.ids[0]) for sample in samples] == [0, 0, 0, 1, 1, 3, 3, 4, 4, 4]
    np.testing.assert_allclose(np.exp([float(s.logprobs[0]) for s in samples])[[0, 3, 5, 7]], [0.1, 0.2, 0.3, 0.4], rtol=1e-6)


def test_temperature_zero_takes_the_likeliest_token() -> None:
    given = prompts(3)
    samples = TransformersGenerator(*tiny())(given, uniforms(3), 0.0, batch_size=2)
    for prompt, sample in zip(given, samples, strict=True):
        ids = prompt.tolist()
        for token in sample.ids.tolist():
            with torch.no_grad():
                assert token == int(tiny()[0](torch.tensor([ids])).logits[0, -1].argmax())
            ids.append(token)
        np.testing.assert_allclose(sample.logprobs, direct(prompt, sample.ids, 1.0), atol=1e-5)


def test_a_response_ends_with_its_only_end_token_or_at_the_limit() -> None:
    model, tokenizer = tiny()
    samples = TransformersGenerator(model, tokenizer)(prompts(150), uniforms(150), 1.0, batch_size=50)
    ended = [sample for sample in samples if not sample.cut]
    assert 10 < len(ended) < 150
    for sample in samples:
        ends = [i for i, token in enumerate(sample.ids) if token == tokenizer.eos_token_id]
        assert ends == ([] if sample.cut else [len(sample.ids) - 1])
        assert len(sample.ids) == LIMIT if sample.cut else len(sample.ids) <= LIMIT


@functools.cache
def byte_tokenizer() -> Any:
    """One token per byte, decoded without spaces, and two tokens more that hold the end of a tag and something after it."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate(["<pad>", "<eos>", *alphabet, "n>", ">!"])}
    tokenizer = Tokenizer(models.BPE(vocabulary, [(">", "!"), ("n", ">")]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")


def play(scripts: Sequence[str], limit: int, stop: tuple[str, ...] = ("</action>",)) -> list[tuple[str, bool]]:
    """What is kept of scripted responses (`$` is the end token), sampled in one batch, and whether each was cut."""
    tokenizer = byte_tokenizer()
    logits = []
    for script in scripts:
        ids = [i for part in script.split("$") for i in (*tokenizer(part)["input_ids"], tokenizer.eos_token_id)][:-1]
        rows = np.full((limit, len(tokenizer)), -200.0)
        rows[np.arange(limit), (ids + [tokenizer("z")["input_ids"][0]] * limit)[:limit]] = 200.0
        logits.append(rows)
    generate = TransformersGenerator(Scripted(logits, len(tokenizer)), tokenizer, stop)
    given = [np.array([5] * (2 + row % 3) + [row], np.int32) for row in range(len(scripts))]
    samples = generate(given, np.full((len(scripts), limit), 0.5), 1.0, 64)
    return [(tokenizer.decode(sample.ids).replace("<eos>", "$"), sample.cut) for sample in samples]


def test_every_row_of_a_batch_stops_where_its_own_response_ends() -> None:
    played = play(
        [
            "<action>go</action> and then more",  # a stop string
            "<action>x$more</action>",  # the end token before it
            "no tag at all, and no end",  # neither: the limit
            "<think>a</think><action>b</action>$",  # the end token after it is not part of the response
            "</action>",  # at once
            "$",
        ],
        limit=40,
    )
    assert played == [
        ("<action>go</action>", False),
        ("<action>x$", False),
        ("no tag at all, and no end" + "z" * 15, True),
        ("<think>a</think><action>b</action>", False),
        ("</action>", False),
        ("$", False),
    ]


def test_a_stop_string_that_ends_inside_a_token_keeps_the_whole_token() -> None:
    assert play(["<action>go</action>!more"], limit=30) == [("<action>go</action>!", False)]


def test_a_response_may_end_exactly_at_the_limit() -> None:
    tag = len(byte_tokenizer()("</action>")["input_ids"])
    assert play(["</action>"], limit=tag) == [("</action>", False)]
    assert play(["</action>"], limit=tag - 1) == [("</actio", True)]
    assert play(["abc$"], limit=4) == [("abc$", False)]
    assert play(["abc$"], limit=3) == [("abc", True)]


def test_without_stop_strings_a_tag_ends_nothing() -> None:
    assert play(["<a></action>b$"], limit=30, stop=()) == [("<a></action>b$", False)]


def test_prompts_are_padded_on_the_left_with_masks_made_from_lengths() -> None:
    pad = 7  # also a token of the prompts
    ids, mask = left_pad([np.array([7, 3], np.int32), np.array([4, 5, 7, 6], np.int32)], pad, "cpu")
    assert ids.tolist() == [[7, 7, 7, 3], [4, 5, 7, 6]]
    assert mask.tolist() == [[0, 0, 1, 1], [1, 1, 1, 1]]


def test_prompts_need_as_many_rows_of_random_numbers() -> None:
    with pytest.raises(ValueError, match="3 prompts need as many rows of random numbers, got 2"):
        TransformersGenerator(*tiny())(prompts(3), uniforms(2), 1.0, 8)


def test_generation_leaves_the_model_and_the_global_random_state_as_they_were() -> None:
    model, tokenizer = tiny()
    generate = TransformersGenerator(model, tokenizer)
    for training in (True, False):
        model.train(training)
        before = torch.get_rng_state(), np.random.get_state()[1].copy()  # the state that must not be used
        generate(prompts(3), uniforms(3), 1.0, 8)
        assert model.training is training
        assert torch.equal(before[0], torch.get_rng_state())
        assert np.array_equal(before[1], np.random.get_state()[1])


def test_a_decision_records_the_sampled_tokens_and_not_those_of_its_text() -> None:
    """Two sampled words may read like one phrase; what is trained is what was sampled."""
    tokenizer = build_tokenizer(["go", "to", "desk"], ["go to"])
    go, to, desk = (tokenizer.convert_tokens_to_ids(word) for word in ("go", "to", "desk"))
    ids = np.array([go, to, desk, tokenizer.eos_token_id], np.int32)

    class Fixed:
        def __call__(self, prompts: Any, uniforms: Any, temperature: float, batch_size: int) -> list[Any]:
            return [Sample(ids, np.zeros(4, np.float32), cut=False) for _ in prompts]

    context = Context("", "go to desk", View("desk", ("go to desk",)), [], 15)
    [decision] = Policy(PromptSettings(), tokenizer, Fixed(), 8).decide([context], np.zeros((1, 12)), 1.0)
    assert decision.response == "go to desk"
    assert decision.projection.action == "go to desk"
    assert decision.sample.ids.tolist() == ids.tolist()
    assert tokenizer("go to desk")["input_ids"] == [tokenizer.convert_tokens_to_ids("go to"), desk]
    [(prompt, _)] = encode_prompts(PromptSettings(), tokenizer, [context])
    assert decision.prompt_ids.tolist() == prompt.tolist()
