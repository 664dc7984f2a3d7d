"""`python -m creditlab.evaluate`: the run's own numbers again, other settings and seeds, any model folder, and mistakes."""

from __future__ import annotations

import json
import shutil
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from corridor import Corridor, quick_job
from past_runs import records, without_figures
from qwen_folder import save_qwen

from creditlab import evaluate
from creditlab.cli import compose_job
from creditlab.config import Job
from creditlab.environments.alfworld.environment import ALFWorld
from creditlab.environments.alfworld.families import PICK
from creditlab.environments.alfworld.generator import generate
from creditlab.training.session import train

TINY = (
    "model.hidden_size=32", "model.layers=1", "model.heads=2", "model.ffn_size=32", "warm_start.steps=100",
    "warm_start.games=30", "warm_start.demonstrations=1", "evaluation.episodes=6", "evaluation.every=1",
    "checkpoint.every=1", "rollout.groups=2", "rollout.group_size=3", "rollout.batch_size=5", "env.horizon=4",
    "env.families=[pick,look]", "method=grpo", "tracking.wandb=disabled", "tracking.console=quiet", "training.updates=2",
    "evaluation.temperature=0.9",
)  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("evaluated")


@pytest.fixture(scope="module")
def run(root: Path) -> Path:
    """The folder of a finished run of two updates in ALFWorld."""
    job = compose_job([*TINY, f"run_root={root / 'runs'}", f"warm_start.cache={root / 'cache'}"])
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        assert train(job) == 0
    return job.folder


@pytest.fixture(scope="module")
def walked(root: Path) -> Job:
    """The job of a finished run of two updates in the corridor, where some episodes succeed."""
    job = quick_job(
        root / "corridor", "training.updates=2", "evaluation.every=1", "evaluation.episodes=12", env=Corridor(horizon=7)
    )
    with pytest.MonkeyPatch.context() as patch:
        without_figures(patch)
        assert train(job) == 0
    return job


def result(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """The results that a command line prints as JSON."""
    capsys.readouterr()
    assert evaluate.main([*arguments, "json=-"]) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def mistake(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line with which a command line is refused."""
    capsys.readouterr()
    assert evaluate.main(arguments) == 2
    shown = capsys.readouterr()
    assert not shown.out
    assert shown.err.count("\n") == 1, shown.err
    return shown.err.removeprefix("creditlab: ").rstrip("\n")


def logged(path: Path, update: int) -> dict[str, float]:
    """What a run logged of its evaluation after an update."""
    lines = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    [line] = [line for line in lines if line["step"] == update]
    return {name: value for name, value in line.items() if name.startswith("val/")}


def test_every_evaluation_of_the_run_comes_out_as_it_was_logged(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for which, update in (("warm_start", 0), ("1", 1), ("last", 2)):
        facts = result(capsys, f"run={run}", f"checkpoint={which}")
        assert facts["metrics"] == logged(run, update), which
        assert facts["update"] == update
        assert facts["logged_success_rate"] == logged(run, update)["val/success_rate"]
    assert facts["panel"]["of_the_run"] is True
    assert facts["panel"]["hash"] == json.loads((run / "manifest.json").read_text())["panel"]["hash"]
    assert facts["configuration"] == {
        key: json.loads((run / "config.json").read_text())[key] for key in facts["configuration"]
    }
    assert 0 < facts["metrics"]["val/ineffective_rate"] < 1, "numbers that say nothing"
    assert len({tuple(logged(run, update).values()) for update in range(3)}) > 1, "the updates cannot be told apart"


def test_a_run_in_webshop_comes_out_as_it_was_logged_and_plays_other_goals(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    without_figures(monkeypatch)
    shop = ("env=webshop", "env.products=20", "env.kinds=2", "env.breadth=3", "env.nouns=rules", "training.updates=1")
    ours = [option for option in TINY if not option.startswith(("env.", "training."))]
    job = compose_job([*ours, *shop, "env.horizon=6", f"run_root={root / 'shops'}", f"warm_start.cache={root / 'cache'}"])
    assert train(job) == 0
    facts = result(capsys, f"run={job.folder}")
    earlier = logged(job.folder, 1)
    assert facts["metrics"]["val/score"] == earlier["val/score"]
    assert facts["metrics"]["val/success_rate"] == earlier["val/success_rate"]
    other = result(capsys, f"run={job.folder}", "env.goals=synthetic")
    assert other["panel"]["hash"] != facts["panel"]["hash"]
    assert other["environment"]["goals"] == "synthetic"


def test_the_success_of_a_run_that_has_some(walked: Job, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same through the corridor, an environment that no command line knows."""
    for which, update in (("warm_start", 0), ("last", 2)):
        request, overrides = evaluate.read_request([f"run={walked.folder}", f"checkpoint={which}", "json=-"])
        assert any(override.startswith("prompt.max_response_tokens=2") for override in overrides)
        assert evaluate._evaluate(walked, request) == 0
        facts = json.loads(capsys.readouterr().out)
        [own] = [line for line in records(walked) if line["step"] == update]
        assert 0 < own["val/success_rate"] < 1
        assert facts["metrics"]["val/success_rate"] == own["val/success_rate"]
        assert facts["metrics"]["val/even/success_rate"] == own["val/even/success_rate"]


def test_seeds_are_other_draws_on_the_same_panel_and_count_together(walked: Job, capsys: pytest.CaptureFixture[str]) -> None:
    request, _ = evaluate.read_request([f"run={walked.folder}", "seeds=[0,1,2,3]", "json=-"])
    assert evaluate._evaluate(walked, request) == 0
    facts = json.loads(capsys.readouterr().out)
    each = [metrics["val/success_rate"] for metrics in facts["by_seed"].values()]
    assert list(facts["by_seed"]) == ["0", "1", "2", "3"]
    assert facts["by_seed"]["0"] == {k: v for k, v in records(walked)[-1].items() if k in facts["metrics"]}
    assert len({tuple(metrics.values()) for metrics in facts["by_seed"].values()}) > 1
    # twelve episodes per seed: equal weights, so that the mean over all is the mean of the means
    assert facts["metrics"]["val/episodes"] == 4 * 12
    assert facts["metrics"]["val/success_rate"] == pytest.approx(statistics.mean(each))
    alone, _ = evaluate.read_request([f"run={walked.folder}", "seeds=2", "json=-"])
    assert evaluate._evaluate(walked, alone) == 0
    assert json.loads(capsys.readouterr().out)["metrics"] == facts["by_seed"]["2"]


def test_the_table_and_the_file_say_the_same(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    arguments = [f"run={run}", "evaluation.episodes=4", "evaluation.temperature=0", "seeds=[0,3]"]
    assert evaluate.main(arguments) == 0
    table = capsys.readouterr().out
    [path] = (run / "evaluations").iterdir()
    facts = json.loads(path.read_text())
    assert path.name.startswith("update-000002-")
    assert facts["changed"] == ["evaluation.episodes=4", "evaluation.temperature=0"]
    assert facts["panel"]["of_the_run"] is False
    assert facts["panel"]["hash"] == ALFWorld(families=("pick", "look"), horizon=4).panel(4, 20260).hash
    assert facts["by_seed"]["0"] == facts["by_seed"]["3"], "greedy play needs no seed"
    for text in (
        "temperature 0, seeds 0, 3",
        f"alfworld-4, {facts['panel']['hash'][:12]}, not the run's",
        "pick_and_place_simple",
        "look_at_obj_in_light",
        f"{100 * (1 - facts['metrics']['val/invalid_rate']):.1f} %",
        f"{facts['metrics']['val/turns']:.1f}",
    ):
        assert text in table
    assert "logged by the run" not in table
    assert facts["metrics"]["val/success_rate"] == 0
    assert "0.0 % of 8, bound 75.0 %" in table, "3/4: both seeds play the same four tasks"
    assert "± is one standard error" in table
    assert evaluate.main(arguments) == 0
    assert list((run / "evaluations").iterdir()) == [path], "the same evaluation has one place"


def test_a_model_folder_alone_plays_with_the_defaults(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = run / "checkpoints" / "update-000002" / "model"
    facts = result(capsys, f"model.path={folder}", "evaluation.episodes=3")
    default = compose_job([])
    assert facts["configuration"]["env"] == default.config["env"]
    assert facts["panel"]["hash"] == default.env.panel(3, default.settings.evaluation.panel_seed).hash
    assert (facts["run"], facts["checkpoint"], facts["model"]) == (None, None, str(folder))
    assert not (folder / "evaluations").exists()
    own = [override for override in TINY if override.startswith(("env.", "evaluation."))]
    assert result(capsys, f"model.path={folder}", *own)["metrics"] == logged(run, 2)


def packed(path: Path, *seeds: int) -> Path:
    """A packed file of generated games, one for each seed."""
    games = [generate(PICK, "bathroom", seed) for seed in seeds]
    lines = [
        {"path": f"{path.stem}/{game.name}", "task": game.task, "task_type": PICK, "floor_plan": f"FloorPlan{game.plan}"}
        | {"pddl_problem": game.problem}
        for game in games
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return path


def test_games_of_a_packed_file_are_played_from_the_one_beside_it(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The panel is of the held-out games, whatever their place is called and whichever games are for training."""
    folder = run / "checkpoints" / "update-000002" / "model"
    games = packed(tmp_path / "mine" / "train.jsonl", 1, 2)
    packed(games.with_name("valid_seen.jsonl"), 1, 3, 4, 5)  # the first is a training game and no held-out one
    words = (f"model.path={folder}", "evaluation.episodes=5", "env.horizon=3")
    facts = result(capsys, *words, f"env.games={games}")
    environment = facts["environment"]
    assert (environment["source"], environment["train_games"], environment["skipped"]) == (str(games), 2, {})
    assert facts["configuration"]["env"]["games"] == str(games)
    assert (facts["panel"]["name"], facts["metrics"]["val/episodes"]) == ("alfworld-5", 5)
    again = result(capsys, *words, f"env.games={games}")
    assert (again["panel"], again["metrics"]) == (facts["panel"], facts["metrics"])

    def panel(*more: str) -> str:
        return str(result(capsys, *words, *more)["panel"]["hash"])

    elsewhere = packed(tmp_path / "copy" / "games.jsonl", 1, 2)
    packed(elsewhere.with_name("valid_seen.jsonl"), 3, 4, 5)
    assert panel(f"env.games={elsewhere}") == facts["panel"]["hash"]
    assert panel() != facts["panel"]["hash"], "the generated games were played"
    others = packed(tmp_path / "others.jsonl", 3, 4, 6)
    assert panel(f"env.games={games}", f"env.eval_games={others}") != facts["panel"]["hash"]


def test_a_pretrained_model_brings_the_prompt_of_its_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save_qwen(tmp_path / "qwen")
    short = ("prompt.max_response_tokens=4", "evaluation.episodes=2", "env.horizon=2")
    for kind, layout in (((), "compact"), (("model=hf",), "full")):
        facts = result(capsys, *kind, f"model.path={folder}", *short)
        assert facts["configuration"]["prompt"]["layout"] == layout
        assert facts["metrics"]["val/episodes"] == 2
        assert facts["metrics"]["val/turns"] == 2.0


def test_the_file_of_the_results_can_be_named(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "there" / "result.json"
    assert evaluate.main([f"run={run}", "evaluation.episodes=1", f"json={path}"]) == 0
    assert json.loads(path.read_text())["panel"]["episodes"] == 1
    (tmp_path / "file").write_text("")
    assert "cannot write there: " in mistake(capsys, f"run={run}", f"json={tmp_path / 'file' / 'x.json'}")


def test_results_that_find_no_place_in_the_run_are_shown_and_the_file_is_named(
    walked: Job, capsys: pytest.CaptureFixture[str]
) -> None:
    place = walked.folder / "evaluations"
    place.write_text("in the way")
    request, _ = evaluate.read_request([f"run={walked.folder}"])
    try:
        assert evaluate._evaluate(walked, request) == 1
    finally:
        place.unlink()
    shown = capsys.readouterr()
    assert "held-out success" in shown.out
    assert f"cannot write {place}/update-000002-" in shown.err
    assert shown.err.endswith("and evaluate again, or write elsewhere with json=<file>\n")


def test_best_is_the_best_evaluation_after_an_update(walked: Job, capsys: pytest.CaptureFixture[str]) -> None:
    request, _ = evaluate.read_request([f"run={walked.folder}", "checkpoint=best", "json=-"])
    assert evaluate._evaluate(walked, request) == 0
    facts = json.loads(capsys.readouterr().out)
    trained = {
        line["step"]: line["val/success_rate"] for line in records(walked) if line["step"] and "val/success_rate" in line
    }
    assert facts["update"] == max(trained, key=lambda step: (trained[step], -step))


def test_a_damaged_last_checkpoint_is_named_and_the_one_before_it_played(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    copy = tmp_path / run.name
    shutil.copytree(run, copy)
    weights = copy / "checkpoints" / "update-000002" / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    assert evaluate.main([f"run={copy}", "json=-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["metrics"] == logged(run, 1)
    assert f"{weights} is missing or damaged" in shown.err.replace("\n", "")
    # asked for by number, another one would not be the answer
    assert f"{weights} is missing or damaged" in mistake(capsys, f"run={copy}", "checkpoint=2")
    for path in (copy / "checkpoints").glob("*/state.json"):
        path.write_text("{}")
    assert evaluate.main([f"run={copy}"]) == 2
    assert "no checkpoint in" in capsys.readouterr().err.splitlines()[-1]


def test_an_evaluation_in_which_every_episode_fails_ends_with_code_1(walked: Job, capsys: pytest.CaptureFixture[str]) -> None:
    request, _ = evaluate.read_request([f"run={walked.folder}", "json=-"])
    broken = replace(walked, env=Corridor(fault=lambda episode, moment: moment == "step"))
    assert evaluate._evaluate(broken, request) == 1
    shown = capsys.readouterr()
    assert not shown.out
    assert "12 episodes of the evaluation failed, first: task 'p0'" in shown.err
    assert shown.err.endswith("every episode failed\n")


MISTAKES = {
    "": "nothing to evaluate: give run=<run folder> or model.path=<model folder>",
    "checkpoint=last model.path=/nowhere": "checkpoint= names a model of a run",
    "model=tiny": "model=tiny has nothing to evaluate; give model.path=<model folder>",
    "run=~nobody-is-called-so/run": "run: ~nobody-is-called-so/run is no path",
    "model.path=~nobody-is-called-so/m": "model.path: ~nobody-is-called-so/m is no path",
    "run={run} checkpoint=²": "checkpoint=² is none of last, best, warm_start or the number of an update",
    "run={run}x": "there is no such folder, did you mean '{name}'?",
    "run={root}": "is no run folder, for it has no config.json; it holds {name}: name one of them",
    "run={run}/checkpoints/update-000002/model": "for it lacks the section 'env'; a folder with a model goes into",
    "model.path={run}": "is a run folder: evaluate it with run={run}",
    "model.path={root}/nowhere": "model.path={root}/nowhere does not exist",
    "model.path={root}": "{root} is no model: it has no config.json",
    "run={run} checkpoint=7": "has no checkpoint of update 7; there are checkpoints of update 1, 2",
    "run={run} checkpoint=bets": "or the number of an update, did you mean 'best'?; there are",
    "run={run} checkpoint=warm_start warm_start.cache={root}/none": "is no longer in {root}/none",
    "run={run} seeds=0,1": "write different whole numbers from 0 on, up to 4294967295, as in seeds=[0,1,2]",
    "run={run} seeds=[1,1]": "write different whole numbers from 0 on",
    "run={run} seed=1": "seeds=[0,1,2] names the sampling seeds of an evaluation",
    "run={run} sedes=[1]": "unknown key 'sedes', did you mean 'seeds'?",
    "run={run} env.gmaes=auto": "unknown key 'env.gmaes', did you mean 'env.games'?",
    "run={run} evaluation.temperature=hot": "evaluation.temperature: must be a valid number, got 'hot'",
    "run={run} learner.lr=1": "learner.lr has no effect on an evaluation; it reads env, ",
    "run={run} model.path=/nowhere": "model.path has no effect on an evaluation; it reads env, ",
    "run={run} method=grpo": "method has no effect on an evaluation",
    "run={run} run={run}": "run is given twice; keep one",
    "-m run={run} json=x.json evaluation.temperature=0,1": "json= names one file, but -m makes several results",
    "run={run} env.games={root}/none": "env.games: no games at {root}/none",
}


@pytest.mark.parametrize("line", MISTAKES, ids=str)
def test_a_mistake_is_one_line(line: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    places = {"run": str(run), "name": run.name, "root": str(run.parent)}
    assert MISTAKES[line].format(**places) in mistake(capsys, *line.format(**places).split())


def test_metrics_that_cannot_be_read_are_told_of_and_the_result_is_there(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / run.name
    shutil.copytree(run, broken)
    metrics = broken / "metrics.jsonl"
    metrics.write_bytes(b"{broken\n" + metrics.read_bytes())
    capsys.readouterr()
    assert evaluate.main([f"run={broken}", "evaluation.episodes=4", "json=-"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["logged_success_rate"] is None
    assert f"what the run logged is not shown: {metrics}, line 1: not a record of metrics" in shown.err


def test_a_run_without_a_checkpoint_says_what_can_be_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = quick_job(tmp_path)
    job.folder.mkdir(parents=True)
    (job.folder / "config.json").write_text(json.dumps(job.config))
    assert "holds no checkpoint yet; checkpoint=warm_start takes the model the run began with" in mistake(
        capsys, f"run={job.folder}"
    )
    (job.folder / "config.json").write_text("{")
    assert f"{job.folder / 'config.json'} is damaged" in mistake(capsys, f"run={job.folder}")


def test_help_names_every_key_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert evaluate.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(key in shown for key in (*evaluate.OWN, *evaluate.READ))


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"env": {}, "model": {"name": "tiny"}, "evaluation": {}}, "it lacks the section 'engine'"),
        ([], "it holds no keys"),
        ({"env": None}, "'env' is no section of keys"),
    ],
)
def test_what_is_no_configuration_of_a_run_is_named(
    config: Any, problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert f"{tmp_path / 'config.json'} is not the configuration of a run, for {problem};" in mistake(
        capsys, f"run={tmp_path}"
    )


def test_a_component_without_a_name_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = quick_job(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({**job.config, "env": {"name": 3}}))
    assert "is not the configuration of a run, for 'env' has no name;" in mistake(capsys, f"run={tmp_path}")
