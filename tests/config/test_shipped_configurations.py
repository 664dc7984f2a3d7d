"""Every configuration that is shipped composes and validates, with every method, and says what the papers say."""

from __future__ import annotations

from pathlib import Path

import pytest

from creditlab.cli import compose_job
from creditlab.config import Job, compose_config, config_dir
from creditlab.mistakes import FILE_GROUPS
from creditlab.registry import ConfigError, registry

CONF = Path(config_dir())
METHODS = registry().names("method")
MODELS = {
    "qwen2.5_1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "qwen2.5_7b": "Qwen/Qwen2.5-7B-Instruct",
    "qwen3_4b": "Qwen/Qwen3-4B",
    "qwen3_8b": "Qwen/Qwen3-8B",
}
ALFWORLD = {f"paper/alfworld_{name}": path for name, path in MODELS.items()}
WEBSHOP = {f"paper/webshop_{name}": path for name, path in MODELS.items()}
PAPER = {**ALFWORLD, **WEBSHOP}
FOLDER = "model.path=some/folder"


def shipped(group: str) -> list[str]:
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in (CONF / group).rglob("*.yaml"))


def with_path(*overrides: str) -> list[str]:
    """Overrides that choose a pretrained model need to say which."""
    return [*overrides, FOLDER] if "model=hf" in overrides else [*overrides]


def test_no_file_is_left_out() -> None:
    groups = {path.relative_to(CONF).parts[0] for path in CONF.rglob("*.yaml")}
    assert groups == {"config.yaml", "hydra", "paper", "suite", *FILE_GROUPS}
    bases = ["alfworld", "alfworld_methods", "common", "webshop", "webshop_methods"]
    assert shipped("paper") == bases  # of the experiments below
    assert set(shipped("experiment")) == {"quick", *PAPER}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["", *shipped("experiment")])
def test_every_experiment_composes_with_every_method(name: str, method: str) -> None:
    job = compose_job([f"method={method}", *([f"experiment={name}"] if name else [])])
    assert (job.choices["method"], type(job.method).name, job.choices["experiment"]) == (method, method, name or None)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", shipped("preset"))
def test_every_preset_is_the_one_of_its_model_and_environment(name: str, method: str) -> None:
    model, env = name.split("_")
    job = compose_job(with_path(f"model={model}", f"env={env}", f"method={method}"))
    assert (job.choices["preset"], job.choices["model"]) == (name, model)


@pytest.mark.parametrize("name", shipped("tuning"))
def test_every_tuning_is_the_one_of_its_method_and_environment(name: str) -> None:
    method, env = name.split("_")
    for model in registry().names("model"):
        job = compose_job(with_path(f"method={method}", f"env={env}", f"model={model}"))
        assert job.choices["tuning@method"] == name


def paper_job(name: str, method: str = "mcgpo") -> Job:
    return compose_job([f"experiment={name}", f"method={method}"])


@pytest.mark.parametrize("name", PAPER)
def test_the_papers_common_settings(name: str) -> None:
    """Those of both environments: sixteen groups of eight, 512 tokens, two pairs, and so on."""
    job = paper_job(name)
    assert job.model.path == PAPER[name]
    assert (job.settings.rollout.groups, job.settings.rollout.group_size, job.settings.rollout.temperature) == (16, 8, 1.0)
    assert (job.prompt.layout, job.prompt.history, job.prompt.past_actions) == ("full", 2, 0)
    assert job.prompt.max_response_tokens == 512
    learner = job.learner
    assert (learner.lr, learner.weight_decay, learner.max_grad_norm) == (1e-6, 0.01, 1.0)
    assert (learner.kl, learner.entropy, learner.clip, learner.dual_clip) == (0.01, 0.001, 0.2, 3.0)
    assert (learner.epochs, learner.steps, learner.aggregation) == (1, None, "token_mean")
    assert (learner.precision, learner.zero_stage, job.model.gradient_checkpointing) == ("bf16", 2, True)
    evaluation = job.settings.evaluation
    assert (evaluation.every, evaluation.episodes, evaluation.temperature) == (5, 128, 0.4)
    assert job.settings.warm_start.steps == 0


@pytest.mark.parametrize("name", ALFWORLD)
def test_the_papers_settings_on_alfworld(name: str) -> None:
    job = paper_job(name)
    assert (job.env.name, job.env.horizon, job.env.games, set(job.env.rooms)) == ("alfworld", 50, "auto", set())
    assert set(job.env.families) == {"pick", "look", "clean", "heat", "cool", "two"}
    assert job.env.hide_commands == ("help",)
    prompt = job.prompt
    assert (prompt.max_prompt_tokens, prompt.max_prompt_characters, prompt.fallback_characters) == (2048, None, 30)


@pytest.mark.parametrize("name", WEBSHOP)
def test_the_papers_settings_on_webshop(name: str) -> None:
    """The small set with synthetic goals, five hundred of them held out, fifteen turns, and the field's prompts."""
    job = paper_job(name)
    assert (job.env.name, job.env.horizon, job.env.data, job.env.limit) == ("webshop", 15, "auto", 1000)
    assert (job.env.goals, job.env.held_out, job.env.page_size) == ("synthetic", 500, 10)
    assert (job.env.observation_mode, job.env.show_attributes) == ("text", False)
    assert (job.env.quoted, job.env.hide_clicks) == (True, ())
    assert (job.env.nouns, job.env.stemming) == ("spacy", True)
    prompt = job.prompt
    assert (prompt.max_prompt_tokens, prompt.max_prompt_characters, prompt.fallback_characters) == (4096, 13_000, 20)


@pytest.mark.parametrize("method", METHODS)
def test_the_formulas_are_those_of_the_papers_unless_asked_otherwise(method: str) -> None:
    """In the method and in the parts that it holds."""
    [name, *_] = PAPER
    for convention, words in (("paper", []), ("reference", ["convention=reference"])):
        built = compose_job([f"experiment={name}", f"method={method}", *words]).method
        told = {
            part.convention
            for part in (built, getattr(built, "task", None), getattr(built, "base", None))
            if hasattr(part, "convention")
        }
        assert told == {convention}


@pytest.mark.parametrize(
    ("method", "prompt", "micro", "updates"),
    [("hgpo", 4096, 16, 160), ("g2po", 2048, 32, 100), ("mcgpo", 2048, 32, 250), ("gigpo", 2048, 32, 150)],
)
def test_what_a_methods_own_publication_sets_otherwise(method: str, prompt: int, micro: int, updates: int) -> None:
    """By the method's name, so that it also holds for methods of other packages."""
    cfg, _ = compose_config(["experiment=paper/alfworld_qwen2.5_1.5b"])
    cfg.method.name = method
    assert (cfg.prompt.max_prompt_tokens, cfg.learner.micro_batch, cfg.training.updates) == (prompt, micro, updates)


@pytest.mark.parametrize(
    ("method", "horizon", "prompt", "micro", "updates"),
    [
        ("hgpo", 30, 4096, 4, 160),
        ("graphgpo", 15, 5120, 8, 150),
        ("g2po", 15, 4096, 8, 100),
        ("mcgpo", 15, 4096, 8, 250),
        ("gigpo", 15, 4096, 8, 150),
    ],
)
def test_what_a_methods_own_publication_sets_otherwise_on_webshop(
    method: str, horizon: int, prompt: int, micro: int, updates: int
) -> None:
    job = paper_job("paper/webshop_qwen2.5_1.5b", method)
    assert (job.env.horizon, job.prompt.max_prompt_tokens) == (horizon, prompt)
    assert (job.learner.micro_batch, job.settings.training.updates) == (micro, updates)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("env", ["alfworld", "webshop"])
def test_the_papers_normalisers(env: str, method: str) -> None:
    """On WebShop GiGPO, HGPO, G²PO and CCPO only centre; GraphGPO divides on both, and its decay is another."""
    built = paper_job(f"paper/{env}_qwen2.5_7b", method).method
    centred = method == "rloo" or (env == "webshop" and method in {"gigpo", "hgpo", "g2po", "ccpo"})
    part = getattr(built, "task", built)
    if hasattr(part, "normalise"):
        assert part.normalise == ("mean" if centred else "mean_std")
    if hasattr(part, "omega"):
        assert part.omega == {"alfworld": 0.1, "webshop": 0.2}[env]
    if method == "ccpo":
        assert (built.final, built.episode_weight) == {"alfworld": ("task", 0.0), "webshop": ("none", 1.0)}[env]


def test_a_wrapped_method_is_tuned_to_its_environment_too() -> None:
    job = compose_job(["method=covgpo", "method@base=gigpo", "env=webshop"])
    assert job.method.base.normalise == "mean"


@pytest.mark.parametrize(
    ("name", "mini", "micro", "style", "thinking"),
    [
        ("paper/alfworld_qwen2.5_1.5b", 256, 32, "think_action", None),
        ("paper/alfworld_qwen2.5_7b", 64, 4, "think_action", None),
        ("paper/alfworld_qwen3_4b", 64, 4, "action_only", False),
        ("paper/alfworld_qwen3_8b", 64, 4, "action_only", False),
        ("paper/webshop_qwen2.5_1.5b", 64, 8, "think_action", None),
        ("paper/webshop_qwen2.5_7b", 64, 4, "think_action", None),
        ("paper/webshop_qwen3_4b", 64, 4, "action_only", False),
        ("paper/webshop_qwen3_8b", 64, 4, "action_only", False),
    ],
)
def test_what_differs_between_the_models(name: str, mini: int, micro: int, style: str, thinking: bool | None) -> None:
    job = paper_job(name)
    assert (job.learner.mini_batch, job.learner.micro_batch) == (mini, micro)
    assert (job.prompt.style, job.prompt.thinking) == (style, thinking)


@pytest.mark.parametrize("name", PAPER)
def test_iterations_are_those_of_the_method_and_can_be_overridden(name: str) -> None:
    assert {method: paper_job(name, method).settings.training.updates for method in ("mcgpo", "grpo", "graphgpo")} == {
        "mcgpo": 250,
        "grpo": 150,
        "graphgpo": 150,
    }
    assert compose_job([f"experiment={name}", "training.updates=7"]).settings.training.updates == 7


def test_the_penalty_for_invalid_actions_is_the_papers_in_every_method() -> None:
    [name, *_] = PAPER
    for method in METHODS:
        built = paper_job(name, method).method
        task = getattr(built, "task", getattr(built, "base", built))
        assert task.coefficient == 0.1


def test_a_paper_experiment_takes_keys_and_axes_from_the_command_line() -> None:
    job = compose_job(
        ["experiment=paper/alfworld_qwen2.5_7b", "method=mcgpo", "match=state_only", FOLDER, "learner.micro_batch=8"]
    )
    assert (job.model.path, job.learner.micro_batch, job.choices["match"]) == ("some/folder", 8, "state_only")


def test_a_misspelt_experiment_in_a_folder_lists_those_that_exist() -> None:
    with pytest.raises(
        ConfigError, match=r"unknown experiment 'paper/alfworld'; available: quick, paper/alfworld_qwen2\.5_1\.5b"
    ):
        compose_job(["experiment=paper/alfworld"])


def test_a_pretrained_model_reads_sentences_and_starts_as_it_is() -> None:
    job = compose_job(["model=hf", FOLDER])
    assert (job.prompt.layout, job.prompt.style, job.settings.warm_start.steps) == ("full", "think_action", 0)
    assert job.env.hide_commands == ("help",)  # the tiny model's shorter list is not for it
    assert compose_job([]).prompt.layout == "compact"


def test_a_pretrained_model_shops_by_the_fields_rules() -> None:
    """Prompts of 4096 tokens, 13,000 characters beyond which history is dropped, and the last twenty characters."""
    prompt = compose_job(["model=hf", "env=webshop", FOLDER]).prompt
    assert (prompt.layout, prompt.style, prompt.history, prompt.max_response_tokens) == ("full", "think_action", 2, 512)
    assert (prompt.max_prompt_tokens, prompt.max_prompt_characters, prompt.fallback_characters) == (4096, 13_000, 20)


@pytest.mark.parametrize("path", [[], ["model.path=null"], ["model.path=''"], ["model.path='  '"]])
def test_a_pretrained_model_needs_a_path(path: list[str]) -> None:
    with pytest.raises(ConfigError, match=r"model\.path is empty: model=hf needs the folder of a model .* or a hub id"):
        compose_job(["model=hf", *path])


def test_the_type_of_the_weights_must_be_the_learners() -> None:
    with pytest.raises(
        ConfigError, match=r"model\.dtype=bfloat16 contradicts learner\.precision=fp32; set learner\.precision=bf16"
    ):
        compose_job(["model=hf", FOLDER, "model.dtype=bfloat16"])
    with pytest.raises(
        ConfigError, match=r"model\.dtype=float32 contradicts learner\.precision=bf16; set learner\.precision=fp32"
    ):
        compose_job(["model=hf", FOLDER, "model.dtype=float32", "learner.precision=bf16"])
    for agreed in (["model.dtype=bfloat16", "learner.precision=bf16"], ["model.dtype=float32"], ["learner.precision=bf16"]):
        compose_job(["model=hf", FOLDER, *agreed])
