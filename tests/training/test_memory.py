"""The estimate of memory: against published sizes, against what torch holds and keeps, and as it is printed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from qwen_folder import save_qwen
from torch.profiler import ProfilerActivity, profile
from transformers import AutoConfig, Qwen2Config, Qwen2ForCausalLM

from creditlab.cli import compose_job
from creditlab.config import Job
from creditlab.learner.learner import Learner
from creditlab.learner.module import PolicyModule
from creditlab.learner.state import optimizer_tensors
from creditlab.memory import main
from creditlab.policy.loading import load_model
from creditlab.policy.shape import KNOWN, measure, shape_of
from creditlab.training.memory import LOGIT, Estimate, estimate, layer_bytes
from creditlab.training.remarks import of_start

PUBLISHED = {
    "Qwen/Qwen2.5-1.5B-Instruct": 1_543_714_304,
    "Qwen/Qwen2.5-7B-Instruct": 7_615_616_512,
    "Qwen/Qwen3-4B": 4_022_468_096,
    "Qwen/Qwen3-8B": 8_190_735_360,
}
"""Parameters that the hub counts in the files of these models."""


@pytest.fixture(scope="module", params=["qwen2", "qwen3"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose heads together are wider than its residual stream, so that the two cannot be mistaken."""
    return save_qwen(tmp_path_factory.mktemp(request.param), family=request.param, head_dim=24)


def hf_job(folder: Path | str, *overrides: str) -> Job:
    return compose_job(["model=hf", f"model.path={folder}", "method=grpo", *overrides])


def size(tensors: Any) -> int:
    return sum(t.numel() * t.element_size() for t in tensors)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_the_papers_models_are_those_of_their_files(name: str) -> None:
    assert shape_of(name).parameters == PUBLISHED[name]


def test_the_known_models_are_those_of_the_shipped_configurations() -> None:
    assert set(KNOWN) == set(PUBLISHED)


def test_the_shape_of_a_folder_is_that_of_its_weights(folder: Path) -> None:
    shape, (model, _) = shape_of(str(folder)), load_model(folder)
    assert shape.parameters == sum(p.numel() for p in model.parameters())
    assert (shape.layers, shape.hidden, shape.ffn, shape.heads, shape.kv_heads, shape.head) == (2, 64, 160, 4, 2, 24)
    assert shape.normed_heads is (model.config.model_type == "qwen3")


def test_a_model_of_unknown_shape_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model\.path=nobody/nothing is not on this machine, .* \(Qwen/Qwen2\.5-1\.5B-"):
        shape_of("nobody/nothing")
    (tmp_path / "config.json").write_text('{"model_type": "newest"}')
    with pytest.raises(ValueError, match=r"model\.path=.*: the configuration in .* cannot be used: "):
        shape_of(str(tmp_path))


@pytest.mark.parametrize("kind", ["newest", "qwen2"], ids=["of an unknown type", "of a known type"])
def test_code_of_a_folder_is_not_run_whoever_says_yes(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """transformers asks on the terminal where nobody has told it not to, and imports the folder's module after a yes."""
    where, ran = save_qwen(tmp_path / "model"), tmp_path / "ran"
    (where / "configuration_newest.py").write_text(
        "from transformers import Qwen2Config\n"
        f"open({str(ran)!r}, 'w').close()\n"
        f"class NewestConfig(Qwen2Config):\n    model_type = {kind!r}\n"
    )
    changes = {"model_type": kind, "auto_map": {"AutoConfig": "configuration_newest.NewestConfig"}}
    (where / "config.json").write_text(json.dumps(json.loads((where / "config.json").read_text()) | changes))
    monkeypatch.setattr("sys.stdin", io.StringIO("y\ny\n"))
    code = main(["model=hf", f"model.path={where}"])
    told = capsys.readouterr()
    assert not ran.exists()
    assert "[y/N]" not in told.out + told.err
    if kind == "newest":
        assert (code, "which is never run (trust_remote_code is off)" in told.err) == (2, True)
    else:
        assert code == 0


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"model_type": "mamba", "num_hidden_layers": 1}, "a model of type mamba has no num_attention_heads"),
        ({"model_type": "qwen3_moe", "num_hidden_layers": 1}, "a model of type qwen3_moe consists of experts"),
        ({"model_type": "mixtral", "num_hidden_layers": 1}, "a model of type mixtral consists of experts"),
        ({"model_type": "qwen2", "num_attention_heads": 0}, "no model can be built from its configuration: integer division"),
        ({"model_type": "qwen2", "hidden_size": -3}, "no model can be built from its configuration: .*negative"),
        ({"model_type": "qwen2", "num_hidden_layers": "x"}, "the configuration in .* cannot be used: .*num_hidden_layers"),
        ({"model_type": ["x"]}, "the configuration in .* cannot be used: "),
    ],
)
def test_a_model_that_cannot_be_estimated_is_refused_by_name(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ValueError, match=rf"^model\.path={tmp_path}: {message}") as caught:
        shape_of(str(tmp_path))
    assert "\n" not in str(caught.value)


def test_a_run_whose_memory_cannot_be_estimated_says_why(tmp_path: Path) -> None:
    where = save_qwen(tmp_path / "model", attention_dropout=0.5)
    job = hf_job(where)
    dropped, told = of_start(job, where)
    assert dropped == "dropout is off, although the model's configuration has attention_dropout above 0"
    assert told.startswith("estimated memory on one rank: ")
    (where / "config.json").write_text('{"model_type": "mamba", "num_hidden_layers": 1}')
    [told] = of_start(job, where)
    assert told.startswith(f"memory is not estimated: model.path={where}: a model of type mamba has no")
    assert of_start(compose_job([]), where) == []


@pytest.mark.parametrize(("precision", "stage"), [("fp32", 0), ("fp32", 2), ("bf16", 1)])
def test_lasting_parts_are_what_the_learner_holds(tmp_path: Path, precision: str, stage: int) -> None:
    where = save_qwen(tmp_path / "model", hidden_size=128, vocab_size=2000)
    job = hf_job(where, f"learner.precision={precision}", f"learner.zero_stage={stage}", "learner.kl=0.1")
    estimated = estimate(job, 1)
    start = where
    model, reference = (job.model.load(start, job.prompt, precision, training)[0] for training in (True, False))
    learner = Learner(model, job.learner, pad=0, reference=reference)
    learner.idle_step()  # moments exist after it
    own = list(learner.module.parameters())
    masters = [p for group in learner.optimizer.param_groups for p in group["params"]] if learner.zero_stage else []
    moments = [
        t for state in learner.optimizer.state.values() for t in state.values() if torch.is_tensor(t) and t.numel() > 1
    ]
    held = {
        "weights": size(own),
        "gradients": size(own),  # one of each weight's type and size
        "optimizer": size(masters) + size(moments),
        "reference": size(learner.reference.parameters()) if learner.reference else 0,
    }
    assert estimated.lasting == pytest.approx(held, rel=0.01)  # ZeRO pads its flat buffers
    assert estimated.checkpoint == pytest.approx(size(optimizer_tensors(learner).values()) + size(own), rel=0.01)


@pytest.mark.parametrize(
    ("stage", "shares"),
    [
        (0, {"weights": 1, "gradients": 1, "optimizer": 1}),
        (1, {"weights": 1, "gradients": 1, "optimizer": 4}),
        (2, {"weights": 1, "gradients": 4, "optimizer": 4}),
        (3, {"weights": 4, "gradients": 4, "optimizer": 4}),
    ],
)
def test_stages_of_zero_share_what_they_share(tmp_path: Path, stage: int, shares: dict[str, int]) -> None:
    job = hf_job(save_qwen(tmp_path / "model"), f"learner.zero_stage={stage}")
    alone, four = estimate(job, 1).lasting, estimate(job, 4).lasting
    for part, ranks in shares.items():
        assert four[part] == pytest.approx(alone[part] / ranks, abs=1)
    assert four["reference"] == alone["reference"] > 0  # whole on every rank


def kept(model: Any, rows: int, length: int) -> int:
    """Bytes that a forward pass keeps for the backward pass, each storage once, weights excepted."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    found: dict[int, torch.Tensor] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.untyped_storage().data_ptr() not in own:
            found[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    mask = torch.ones(rows, length, dtype=torch.long)
    mask[0, :3] = 0  # without padding no mask would be kept
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model.train()(torch.ones(rows, length, dtype=torch.long), attention_mask=mask, use_cache=False, logits_to_keep=1)
    return sum(t.untyped_storage().nbytes() for t in found.values())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_keeps_what_is_estimated(folder: Path, dtype: torch.dtype) -> None:
    """Measured as the difference between four layers and two."""
    rows, length = 2, 48
    config = AutoConfig.from_pretrained(folder)
    totals = []
    for layers in (4, 2):
        config.num_hidden_layers, config.layer_types = layers, ["full_attention"] * layers
        totals.append(kept(type(load_model(folder)[0])(config).to(dtype), rows, length))
    measured = (totals[0] - totals[1]) / 2 / (rows * length)
    assert layer_bytes(measure(config), dtype.itemsize, length) == pytest.approx(measured, rel=0.03)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_peak_of_the_logits_is_the_learners(dtype: torch.dtype) -> None:
    """The largest number of bytes alive at once in a forward and backward pass of a model that is almost all vocabulary."""
    vocabulary, rows, length, response = 20_000, 4, 48, 32
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        num_key_value_heads=1,
        tie_word_embeddings=True,
    )
    module = PolicyModule(Qwen2ForCausalLM(config).to(dtype).train())
    ids = torch.arange(rows * length).view(rows, length)

    def run() -> None:
        logp, entropy = module(ids, torch.ones_like(ids), torch.arange(length).expand(rows, length), response)
        (logp.sum() - 0.001 * entropy.sum()).backward()

    run()  # gradients exist from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        run()
    alive = peak = 0
    changes = [e for e in profiler.profiler.kineto_results.events() if e.name() == "[memory]"]
    for change in sorted(changes, key=lambda e: e.start_ns()):
        alive += change.nbytes()
        peak = max(peak, alive)
    assert peak / (rows * response * vocabulary) == pytest.approx(LOGIT, rel=0.1)


def test_the_cache_of_a_rollout_is_the_models(folder: Path) -> None:
    limits = ("prompt.max_prompt_tokens=20", "prompt.max_response_tokens=10", "rollout.batch_size=3")
    model, _ = load_model(folder)
    with torch.no_grad():
        cache = model(torch.ones(3, 30, dtype=torch.long), use_cache=True).past_key_values
    held = size(t for layer in cache.layers for t in (layer.keys, layer.values))
    assert estimate(hf_job(folder, *limits), 1).moments["rollout"]["KV cache"] == held


def test_what_changes_the_largest_moment(tmp_path: Path) -> None:
    where = save_qwen(tmp_path / "model", num_hidden_layers=8)
    lines = {"plain": (), "half": ("learner.micro_batch=2",), "again": ("model.gradient_checkpointing=true",)}
    found = {name: estimate(hf_job(where, *line), 1).moments["backward pass"] for name, line in lines.items()}
    assert found["half"]["activations"] * 2 == found["plain"]["activations"]
    assert found["half"]["logits"] * 2 == found["plain"]["logits"]
    assert found["again"]["activations"] < 0.5 * found["plain"]["activations"]
    assert found["again"]["logits"] == found["plain"]["logits"]


def test_the_peak_is_the_lasting_parts_and_the_largest_moment() -> None:
    found = Estimate(1, 2, {"weights": 10, "optimizer": 5}, {"a": {"x": 3, "y": 4}, "b": {"z": 6}}, 9)
    assert (found.peak, found.moment) == (22, "a")


@pytest.mark.parametrize("env", ["alfworld", "webshop"])
@pytest.mark.parametrize(("model", "ranks"), [("qwen2.5_1.5b", 2), ("qwen2.5_7b", 4), ("qwen3_4b", 4), ("qwen3_8b", 4)])
def test_every_paper_configuration_prints_its_estimate(
    env: str, model: str, ranks: int, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [f"experiment=paper/{env}_{model}", f"ranks={ranks}"]
    assert main(words) == 0
    table = capsys.readouterr().out
    for part in ("weights", "gradients", "optimizer", "reference", "activations", "logits", "KV cache", "peak"):
        assert part in table
    assert main([*words, "output=json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["ranks"] == ranks
    parameters = found["parameters"]
    assert parameters in PUBLISHED.values()
    # bfloat16 weights, gradients and optimizer under ZeRO 2, and a whole reference for the KL term
    assert found["lasting"]["weights"] == found["lasting"]["reference"] == 2 * parameters
    assert found["lasting"]["gradients"] == pytest.approx(2 * parameters / ranks, abs=1)
    assert found["lasting"]["optimizer"] == pytest.approx(12 * parameters / ranks, abs=1)
    assert found["peak"] > sum(found["lasting"].values())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["ranks=two", "experiment=paper/alfworld_qwen3_4b"], "ranks=two must be a whole number of at least 1"),
        (["ranks=0", "experiment=paper/alfworld_qwen3_4b"], "ranks=0 must be a whole number of at least 1"),
        (["output=xml", "experiment=paper/alfworld_qwen3_4b"], "output=xml is not one of table, json"),
        ([], "the estimate is for model=hf, not model=tiny"),
        (["model=hf"], "model.path is empty"),
        (["model=hf", "model.path=no/model"], "model.path=no/model is not on this machine"),
    ],
)
def test_mistakes_are_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"creditlab.memory: {message}")
    assert len(error.splitlines()) == 1


def test_recording_hidden_states_is_a_moment_only_where_credit_asks_for_them(folder: Path) -> None:
    """4 prompts of 20 tokens, each with three streams of the feed-forward and of the residual, in bfloat16."""
    shape = shape_of(str(folder))
    limits = ("prompt.max_prompt_tokens=20", "prompt.max_response_tokens=10", "learner.micro_batch=4")
    assert "hidden states" not in estimate(hf_job(folder, *limits), 1).moments
    asking = compose_job(["model=hf", f"model.path={folder}", "method=bipace", "learner.precision=bf16", *limits])
    found = estimate(asking, 1).moments["hidden states"]
    assert found["prompts"] == 4 * 20 * 3 * (shape.ffn + shape.hidden) * 2
