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
PAPER = {
    "paper/alfworld_qwen2.5_1.5b": "Qwen/Qwen2.5-1.5B-Instruct",
    "paper/alfworld_qwen2.5_7b": "Qwen/Qwen2.5-7B-Instruct",
    "paper/alfworld_qwen3_4b": "Qwen/Qwen3-4B",
    "paper/alfworld_qwen3_8b": "Qwen/Qwen3-8B",
}
FOLDER = "model.path=some/folder"


def shipped(group: str) -> list[str]:
    return sorted(str(path.relative_to(CONF / group).with_suffix("")) for path in (CONF / group).rglob("*.yaml"))


def with_path(*overrides: str) -> list[str]:
    """Overrides that choose a pretrained model need to say which."""
    return [*overrides, FOLDER] if "model=hf" in overrides else [*overrides]


def test_no_file_is_left_out() -> None:
    groups = {path.relative_to(CONF).parts[0] for path in CONF.rglob("*.yaml")}
    assert groups == {"config.yaml", "hydra", "paper", *FILE_GROUPS}
    assert shipped("paper") == ["alfworld", "alfworld_methods"]  # the base of the experiments below
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
    """The published settings on ALFWorld: sixteen groups of eight, fifty turns, 2048 and 512 tokens, and so on."""
    job = paper_job(name)
    assert job.model.path == PAPER[name]
    assert (job.settings.rollout.groups, job.settings.rollout.group_size, job.settings.rollout.temperature) == (16, 8, 1.0)
    assert (job.env.horizon, job.env.games, set(job.env.rooms)) == (50, "auto", set())
    assert set(job.env.families) == {"pick", "look", "clean", "heat", "cool", "two"}
    assert job.env.hide_commands == ("help",)
    assert (job.prompt.max_prompt_tokens, job.prompt.max_response_tokens) == (2048, 512)
    assert (job.prompt.layout, job.prompt.history, job.prompt.past_actions) == ("full", 2, 0)
    learner = job.learner
    assert (learner.lr, learner.weight_decay, learner.max_grad_norm) == (1e-6, 0.01, 1.0)
    assert (learner.kl, learner.entropy, learner.clip, learner.dual_clip) == (0.01, 0.001, 0.2, 3.0)
    assert (learner.epochs, learner.steps, learner.aggregation) == (1, None, "token_mean")
    assert (learner.precision, learner.zero_stage, job.model.gradient_checkpointing) == ("bf16", 2, True)
    evaluation = job.settings.evaluation
    assert (evaluation.every, evaluation.episodes, evaluation.temperature) == (5, 128, 0.4)
    assert job.settings.warm_start.steps == 0


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
    ("name", "mini", "micro", "style", "thinking"),
    [
        ("paper/alfworld_qwen2.5_1.5b", 256, 32, "think_action", None),
        ("paper/alfworld_qwen2.5_7b", 64, 4, "think_action", None),
        ("paper/alfworld_qwen3_4b", 64, 4, "action_only", False),
        ("paper/alfworld_qwen3_8b", 64, 4, "action_only", False),
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
