"""What a command line composes: defaults of the axes, precedence, nested parts, and the run's folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from commandline import jobs_of, write_conf
from creditlab_graphgpo import GraphGPO
from creditlab_grpo import GRPO
from creditlab_mcgpo import MCGPO
from creditlab_pair import Pair

from creditlab.cli import compose_job
from creditlab.config import config_dir
from creditlab.credit.folds import Opposite, Same
from creditlab.credit.match import GraphState, Observation, StateOnly, StateRubric
from creditlab.credit.weighting import Evidence, Uniform
from creditlab.hookspecs import AXES
from creditlab.registry import registry


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra notes a sweep in its folder; not in the repository."""
    monkeypatch.chdir(tmp_path)


def test_the_default_is_mcgpo_on_alfworld_with_the_papers_axes() -> None:
    job = compose_job([])
    assert {key: job.choices[key] for key in ("env", "method", *AXES)} == {
        "env": "alfworld",
        "method": "mcgpo",
        "match": "state_rubric",
        "fold": "opposite",
        "weighting": "evidence",
    }
    assert job.method == MCGPO(
        task=GraphGPO(omega=0.1, match=GraphState()),
        pair=Pair(match=StateRubric(), fold=Opposite(), weighting=Evidence(kappa=2.0), weight=1.0),
    )


def test_the_axes_of_mcgpo_change_the_pair_loss_only() -> None:
    plain, changed = compose_job([]).method, compose_job(["match=state_only", "fold=same", "weighting=uniform"]).method
    assert changed.pair == Pair(match=StateOnly(), fold=Same(), weighting=Uniform())
    assert changed.task == plain.task
    assert isinstance(changed.task.match, GraphState)


def test_the_task_branch_of_mcgpo_has_its_own_keys() -> None:
    method = compose_job(["match@method.task.match=observation", "method.task.omega=0.3", "method.pair.quota=5"]).method
    assert method.task == GraphGPO(omega=0.3, match=Observation())
    assert method.pair == Pair(quota=5, match=StateRubric(), fold=Opposite(), weighting=Evidence())


@pytest.mark.parametrize("weight", [0.0, 0.25])
def test_the_weight_of_mcgpos_pair_loss_has_one_place(weight: float) -> None:
    method = compose_job([f"method.pair_weight={weight}"]).method
    assert (method.pair_weight, method.pair.weight) == (weight, weight)


def test_a_loss_added_to_another_method_has_axes_of_its_own() -> None:
    job = compose_job(["method=graphgpo", "aux=[pair]", "match@aux.pair.match=state_only", "aux.pair.weight=0.5"])
    assert job.method == GraphGPO(match=GraphState())
    assert job.aux == (Pair(weight=0.5, match=StateOnly(), fold=Opposite(), weighting=Evidence()),)


def test_the_convention_reaches_nested_parts_and_can_be_set_on_one() -> None:
    assert compose_job(["convention=paper"]).method.task.convention == "paper"
    assert compose_job(["convention=paper", "method=grpo"]).method == GRPO(convention="paper")
    assert compose_job(["convention=paper", "method.task.convention=reference"]).method.task.convention == "reference"


def test_precedence_of_default_tuning_experiment_and_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each layer sets one option more than the next, so that every one of them decides something."""
    tuning = "graph_weight: 2\nepisode_weight: 2\nomega: 0.2"
    experiment = "# @package _global_\ndefaults:\n  - override /method: graphgpo\n  - override /match: observation\n"
    experiment += "method: {episode_weight: 3, omega: 0.3}\n"
    write_conf(monkeypatch, tmp_path, tuning__mine=tuning, experiment__mine=experiment)
    default = GraphGPO(match=Observation())
    assert (default.graph_weight, default.episode_weight, default.coefficient) == (1, 1, 0.1)
    job = compose_job(["experiment=mine", "tuning@method=mine", "method.omega=0.4"])
    assert job.method == GraphGPO(graph_weight=2, episode_weight=3, omega=0.4, match=Observation())
    assert compose_job(["experiment=mine", "tuning@method=mine", "match=state_only"]).method.match == StateOnly()


def test_the_tuning_of_method_and_environment_is_found_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = "# @package _global_\ndefaults: [{override /method: grpo}]"
    write_conf(monkeypatch, tmp_path, tuning__grpo_alfworld="coefficient: 0.5", experiment__mine=experiment)
    assert compose_job(["method=grpo"]).method.coefficient == 0.5
    assert compose_job(["experiment=mine"]).method.coefficient == 0.5


def test_without_a_file_a_method_keeps_its_defaults_in_every_environment() -> None:
    assert not list(Path(config_dir(), "tuning").glob("grpo_*"))
    assert compose_job(["method=grpo"]).method == GRPO()


def test_every_component_composes() -> None:
    """Each under a method that accepts it, so that no node refers to anything that is not there."""
    users = {"match": "gigpo", "fold": "ccpo", "weighting": "mcgpo"}
    needed = {"depth": "hgpo", "context_kernel": "ccpo", "inverse_variance": "progpo"}
    for axis, name in registry().components:
        method = name if axis == "method" else needed.get(name, users.get(axis, "grpo"))
        line = [f"method={method}", *({"aux": [f"aux=[{name}]"], "method": []}.get(axis, [f"{axis}={name}"]))]
        line += ["model.path=some/folder"] if (axis, name) == ("model", "hf") else []
        assert compose_job(line).choices.get(axis, name) == name


def test_a_sweep_composes_every_combination(tmp_path: Path) -> None:
    code, jobs = jobs_of("-m method=grpo,graphgpo seed=0,1 run_root=here")
    assert code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["here"], "a sweep writes into the folder of the runs only"
    assert [(job.choices["method"], job.settings.seed) for job in jobs] == [
        ("grpo", 0), ("grpo", 1), ("graphgpo", 0), ("graphgpo", 1),
    ]  # fmt: skip
    assert len({job.folder for job in jobs}) == 4


def test_the_hash_ignores_what_does_not_change_the_computation() -> None:
    plain = compose_job([])
    same = ["seed=7", "tracking.wandb=disabled", "tracking.tags=[a]", "resume=auto", "overwrite=true", "name=other"]
    changed = compose_job([*same, "run_root=elsewhere", "training.updates=3", "method.pair_weight=1", "rollout.groups=8.0"])
    assert changed.hash == plain.hash
    assert changed.folder == Path(f"elsewhere/other-{plain.hash}-s7")
    assert plain.folder == Path(f"runs/mcgpo-alfworld-{plain.hash}-s0")


def test_what_changes_rounding_alone_is_the_same_run() -> None:
    """A run that was out of memory can be resumed with less."""
    less = [
        "learner.micro_batch=2", "learner.zero_stage=3", "rollout.batch_size=4", "training.threads=2",
        "training.max_skipped=9", "checkpoint.every=1", "checkpoint.keep=7", "checkpoint.rollouts_every=0",
    ]  # fmt: skip
    assert compose_job(less).hash == compose_job([]).hash
    hf = ["model=hf", "model.path=some/folder", "method=grpo"]
    small = compose_job([*hf, "model.gradient_checkpointing=true", "model.attention=eager"])
    assert small.hash == compose_job(hf).hash != compose_job([*hf, "learner.precision=bf16"]).hash
    # with `filter` the micro-batches decide which pairs count
    chance = ["learner.pair_placement=filter"]
    assert compose_job(chance).hash != compose_job([*chance, "learner.micro_batch=2"]).hash


def test_the_hash_changes_with_everything_else() -> None:
    lines = ["", "rollout.temperature=0.9", "rollout.groups=4", "warm_start.steps=1", "method.pair_weight=0", "fold=same",
             "env.horizon=20", "env.games=games.jsonl", "learner.lr=1e-3", "convention=paper", "method=grpo",
             "method=grpo aux=[pair]", "shaping=rubric_progress", "prompt.history=2", "evaluation.episodes=32"]  # fmt: skip
    assert len({compose_job(line.split()).hash for line in lines}) == len(lines)


def test_folder_names_hold_no_character_that_tools_trip_over() -> None:
    job = compose_job(["method=grpo", "aux=[pair]", "match@aux.pair.match=state_only", "env.rooms=[kitchen,bedroom]"])
    assert set(str(job.folder)) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/")


def test_composition_leaves_no_hydra_session_behind(tmp_path: Path) -> None:
    compose_job(["method=grpo"])
    assert jobs_of("method=grpo")[0] == 0
    code, jobs = jobs_of("method=graphgpo")
    assert (code, jobs[0].method) == (0, compose_job(["method=graphgpo"]).method)
    assert not list(tmp_path.iterdir()), "composing writes nothing"
