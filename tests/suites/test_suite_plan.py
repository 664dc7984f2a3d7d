"""What a suite's file and command line come to, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from suite_runs import whole, write_run

from creditlab import compare
from creditlab.cli import compose_job
from creditlab.options import ConfigError
from creditlab.suites import hydra_runner
from creditlab.suites.plan import PlannedRun, merge, plan, scheduled
from creditlab.suites.request import Request, read_request
from creditlab.suites.runner import LocalRunner
from creditlab.suites.suite import Entry, find_suite, read_suite, shipped_suites

TWO_SETTINGS = """
name: both
baseline: grpo
overrides: [training.updates=3, learner.lr=1e-3]
entries:
  - grpo
  - {name: state only, method: mcgpo, overrides: [match=state_only]}
  - mcgpo fold=same
settings:
  - {name: near, overrides: [experiment=quick], seeds: [4, 5]}
  - {name: far, overrides: [experiment=quick, env.horizon=9], entries: [grpo, state only]}
seeds: [0]
"""


def write(folder: Path, text: str) -> str:
    path = folder / "mine.yaml"
    path.write_text(text)
    return f"suite={path}"


def planned(*words: str) -> list[PlannedRun]:
    request = read_request(words)
    assert isinstance(request, Request)
    return plan(request.suite, request.overrides, request.run_root)


def test_a_file_with_several_settings_gives_every_run_seed_by_seed(tmp_path: Path) -> None:
    runs = planned(write(tmp_path, TWO_SETTINGS))
    assert [(run.setting, run.entry.name, run.seed) for run in runs] == [
        ("near", "grpo", 4), ("near", "state only", 4), ("near", "mcgpo fold=same", 4),
        ("near", "grpo", 5), ("near", "state only", 5), ("near", "mcgpo fold=same", 5),
        ("far", "grpo", 0), ("far", "state only", 0),
    ]  # fmt: skip
    assert {run.updates for run in runs} == {3}
    assert runs[-1].config["env"]["horizon"] == 9
    assert runs[1].config["method"]["name"] == "mcgpo"


def test_the_commands_of_the_runs_compose_to_the_runs_that_were_planned() -> None:
    runs = planned("methods=[grpo,'mcgpo match=state_only']", "seeds=[0,7]", "experiment=quick", "run_root=some where")
    for run in runs:
        job = compose_job(run.overrides)
        assert (job.folder, job.hash, job.settings.seed) == (run.folder, run.hash, run.seed)
        assert job.settings.resume == "auto"
        assert (job.tracking.group, job.tracking.job_type) == ("default", run.entry.method)
    assert compose_job(runs[1].overrides).tracking.tags == ("setting=alfworld", "match=state_only")
    assert runs[0].folder == compose_job(["method=grpo", "experiment=quick", "run_root='some where'"]).folder


def test_a_value_that_follows_the_seed_is_composed_for_every_seed() -> None:
    runs = planned("methods=grpo", "seeds=[0,1,2]", "env.seed=${seed}")
    assert [run.config["env"]["seed"] for run in runs] == [0, 1, 2]
    assert len({run.hash for run in runs}) == 3


def test_later_levels_win_and_the_entry_wins_last() -> None:
    assert merge(["a=1", "b=1"], ["a=2"], ["+c=3", "b=4"]) == ["a=2", "+c=3", "b=4"]
    runs = planned("methods=[grpo,'mcgpo learner.lr=2e-4']", "seeds=0", "learner.lr=1e-4")
    assert [run.config["learner"]["lr"] for run in runs] == [1e-4, 2e-4]


def test_the_command_line_replaces_entries_and_seeds_of_every_setting(tmp_path: Path) -> None:
    runs = planned(write(tmp_path, TWO_SETTINGS), "methods=[rloo,gigpo]", "seeds=3", "training.updates=2")
    assert [(run.setting, run.entry.name, run.seed, run.updates) for run in runs] == [
        ("near", "rloo", 3, 2), ("near", "gigpo", 3, 2), ("far", "rloo", 3, 2), ("far", "gigpo", 3, 2),
    ]  # fmt: skip


def test_what_follows_from_a_method_may_differ_from_entry_to_entry() -> None:
    updates = "training.updates='${choose:${method.name},{mcgpo:6},4}'"
    runs = planned("methods=[grpo,'mcgpo match=state_only']", "seeds=0", updates)
    assert [run.updates for run in runs] == [4, 6]


def test_the_schedule_is_that_of_a_session() -> None:
    assert scheduled(10, 4) == {0, 4, 8, 10}
    assert scheduled(8, 4) == {0, 4, 8}
    assert scheduled(5, 0) == {0, 5}


@pytest.mark.parametrize("name", shipped_suites())
def test_every_shipped_suite_can_be_read(name: str) -> None:
    suite = read_suite(find_suite(name))
    assert suite.name == name
    assert suite.entries


def test_the_default_suite_composes() -> None:
    assert len(planned("experiment=quick")) == 15


def test_the_factorial_controls_of_the_results_are_the_papers() -> None:
    suite = read_suite(find_suite("results"))
    controls = {entry.name: entry for entry in suite.entries if entry.overrides}
    assert {frozenset(entry.overrides) for entry in controls.values()} == {
        frozenset({"fold=same"}), frozenset({"weighting=uniform"}), frozenset({"fold=same", "weighting=uniform"}),
    }  # fmt: skip
    assert {entry.method for entry in controls.values()} == {"mcgpo"}
    by_name = {setting.name: setting for setting in suite.settings}
    assert len(suite.seeds_of(by_name["alfworld"])) >= 5
    assert [entry.name for entry in suite.entries_of(by_name["webshop"])] == ["grpo", "gigpo", "graphgpo", "mcgpo"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["suite=defalt"], "unknown suite 'defalt', did you mean 'default'?"),
        (["suite=nowhere.yaml"], "suite=nowhere.yaml: there is no such file"),
        (["seeds=[0,-1]"], "seeds=[0,-1]: write different whole numbers from 0 on"),
        (["seeds=[1,1]"], "seeds=[1,1]: write different whole numbers"),
        (["seeds=[a]"], "seeds=[a]: write different whole numbers"),
        (["seeds=[]"], "seeds=[]: write different whole numbers"),
        (["seeds=4294967296"], "seeds=4294967296: write different whole numbers from 0 on, up to 4294967295"),
        (["seeds=0,1"], "seeds=0,1 gives several values; write [a,b] for a list"),
        (["methods=[]"], "a suite needs at least one method"),
        (["methods=[grpo,mcgpoo]"], "mcgpoo: unknown method 'mcgpoo', did you mean 'mcgpo'?"),
        (["methods=[grpo,grpo]"], "the entry 'grpo' appears twice"),
        (["methods=['grpo match=task']"], "grpo match=task: method=grpo does not use match"),
        (["methods=[grpo,'match=task']"], "begins with no method"),
        (["methods=[grpo,'mcgpo same']"], "holds 'same', which is not key=value"),
        (["methods=[grpo,[mcgpo]]"], "is no entry"),
        (["methods=[grpo,'rloo seed=3']"], "rloo seed=3: seed is not for a run of a suite to set: seeds=[0,1,2]"),
        (["methods=[grpo,'rloo env=alfworld']"], "env sets the setting, which all entries share"),
        (["methods=[grpo,'rloo warm_start.steps=5']"], "warm_start.steps sets the initial weights"),
        (["methods=[grpo,'rloo evaluation.panel_seed=5']"], "evaluation.panel_seed sets the panel and schedule"),
        (["methods=[grpo,'rloo training.updates=5']"], "training.updates sets the number of updates, which all entries"),
        (["methods=[grpo,'rloo hydra.run.dir=/x']"], "rloo hydra.run.dir=/x: hydra.run.dir is no setting of a run"),
        (["hydra.run.dir=/x"], "hydra.run.dir is no setting of a run; remove it"),
        (["methods=[grpo,'rloo +hydra.verbose=true']"], "hydra.verbose is no setting of a run"),
        (["methods=[grpo,'rloo hydra/launcher=joblib']"], "no setting of a run; launcher= on the command line chooses one"),
        (["methods=[grpo,'rloo hydra.launcher.n_jobs=2']"], "belong beside launcher= on the command line"),
        (["experiment=quick", "experiment=quick"], "experiment is given twice: experiment=quick experiment=quick; keep one"),
        (["env=alfworld,webshop"], "'env=alfworld,webshop' gives several values, but a run takes one: write [a,b]"),
        (["methods=[grpo,'rloo learner.lr=1e-3,2e-3']"], "gives several values, but a run takes one"),
        (
            ["methods=[grpo,'rloo training={updates:5}']", "training.updates=4"],
            "rloo training={updates:5}: its overrides make training.updates 5 instead of 4, and with it the number of",
        ),
        (["methods=[grpo,'grpo aux=[]']"], "are the same run, grpo-alfworld-"),
        (["seed=3"], "seed is not for a run of a suite to set"),
        (["method=grpo"], "method is not for a run of a suite to set: methods=[grpo,mcgpo] names them"),
        (["tracking.group=x"], "tracking.group is not for a run of a suite to set"),
        (["baseline=grpoo"], "baseline 'grpoo' is no entry of the suite, did you mean 'grpo'?"),
        (["baseline=nope", "methods=[grpo,rloo]"], "baseline 'nope' is no entry of the suite; entries: grpo, rloo"),
        (["baseline="], "baseline= is empty; name an entry, or leave baseline out"),
        (["suite="], "suite= is empty; name a suite"),
        (["run_root="], "run_root= is empty; name a folder"),
        (["records="], "records= is empty; name a folder"),
        (["out= "], "out= is empty; name a folder"),
        (["table="], "table= is empty; name a file"),
        (["run_root=/dev/null", "plan=true"], "run_root=/dev/null: /dev/null is no folder; choose another one"),
        (["run_root=/dev/null/runs"], "run_root=/dev/null/runs: /dev/null is no folder"),
        (["parallel=0"], "parallel=0: write a whole number from 1 to 1000"),
        (["parallel=1001"], "parallel=1001: write a whole number from 1 to 1000"),
        (["last=10001"], "last=10001: write a whole number from 1 to 10000"),
        ([f"last={'9' * 5000}"], "write a whole number from 1 to 10000"),
        (["parallel=two"], "parallel=two: write a whole number"),
        (["plan=yes"], "plan=yes: write true or false"),
        (["launcher=joblip"], "unknown launcher 'joblip', did you mean 'joblib'?"),
        (["hydra.launcher.n_jobs=2"], "hydra.launcher.n_jobs=2 is for a launcher of Hydra"),
        (["seeds=0", "seeds=1"], "seeds is given twice"),
        (["--plan"], "cannot read '--plan': write key=value"),
        (["rollout.grup_size=4"], "unknown key 'rollout.grup_size', did you mean 'rollout.group_size'?"),
        (["table=results.csv", "seeds=[0]"], "seeds has no effect beside table="),
        (["table=results.csv", "env=webshop"], "env has no effect beside table="),
        (["table=nowhere.csv"], "nowhere.csv"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_one_line_before_anything_is_run(
    words: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(*_: object) -> None:
        pytest.fail(f"{words} were run")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(LocalRunner, "run", run)
    assert compare.main(words) == 2
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("entries: [grpo]\nseed: [0]\n", "unknown key 'seed', did you mean 'seeds'?"),
        ("entries: [grpo]\nentries: [mcgpo]\n", "is no valid YAML"),
        ("entries: [", "is no valid YAML"),
        ("- grpo\n", "holds no keys"),
        ("entries: [{methods: grpo}]", "unknown key 'an entry.methods', did you mean 'an entry.method'?"),
        ("entries: [grpo]\nsettings: [{overrides: []}, {name: b}]", "needs a name for each of them"),
        ("entries: [grpo]\nsettings: [{name: a, entries: [mcgpo]}]", "setting a: 'mcgpo' is no entry of the suite"),
        ("entries: [grpo]\nsettings: [{name: a}, {name: a}]", "the setting 'a' appears twice"),
        ("entries: [grpo]\nsettings: [{name: a, seeds: [-1]}]", "settings[0].seeds"),
        ("entries: [grpo]\nname: a/b\n", "name"),
        ("entries: []\n", "at least one method"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_named_with_what_is_wrong_in_it(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read_request([write(tmp_path, text)])
    assert message in str(error.value)
    assert "mine.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("overrides: [hydra.launcher.n_jobs=2]", "suite mine: hydra.launcher.n_jobs is no setting of a run; options of a"),
        ("settings: [{name: a, overrides: [hydra.job.name=x]}]", "setting a: hydra.job.name is no setting of a run"),
        ("settings: [{name: a, overrides: ['training.updates=2,4']}]", "one of the settings in a suite's file"),
    ],
)
def test_overrides_in_a_file_are_checked_like_those_on_the_command_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        planned(write(tmp_path, f"entries: [grpo]\nseeds: [0]\n{text}\n"))
    assert message in str(error.value)


def test_two_settings_that_come_to_the_same_runs_are_refused(tmp_path: Path) -> None:
    text = "entries: [grpo]\nseeds: [0]\nsettings: [{name: a}, {name: b, overrides: [env=alfworld]}]\n"
    with pytest.raises(ConfigError, match="a · grpo · seed 0 and b · grpo · seed 0 are the same run"):
        planned(write(tmp_path, text))


def test_a_launcher_that_is_not_installed_comes_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hydra_runner, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"launcher=ray needs a package .* -m pip install hydra-ray-launcher==1\.2\.2"):
        read_request(["launcher=ray"])


def test_the_name_of_an_entry_is_its_text_unless_it_has_another() -> None:
    suite = read_suite(find_suite("results"))
    assert suite.entries[0] == Entry("grpo", "grpo")
    assert suite.entries[-1] == Entry("mcgpo same-fold uniform", "mcgpo", ("fold=same", "weighting=uniform"))


def test_planning_loads_no_torch() -> None:
    code = "import creditlab.compare, sys; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_damage_in_one_run_is_told_of_and_the_rest_is_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Folders of finished runs stand ready; of one of them the manifest is cut, of another the metrics."""
    words = [
        "methods=[grpo,rloo]",
        "seeds=[0,1,2]",
        "experiment=quick",
        "training.updates=2",
        f"run_root={tmp_path}",
        "last=1",
    ]
    runs = planned(*words)
    for run in runs:
        write_run(run, whole(run), configuration_hash=run.hash)
    (runs[1].folder / "manifest.json").write_text("{")
    (runs[2].folder / "metrics.jsonl").write_text("{}\n{}\n")
    assert compare.main(words) == 1
    shown = capsys.readouterr()
    assert "2 of 6 runs failed; the same command tries them again" in shown.err
    assert f"failed: {runs[1].label}: {runs[1].folder / 'manifest.json'} is damaged" in shown.out
    assert f"failed: {runs[2].label}: " in shown.out
    assert "metrics.jsonl, line 1" in shown.out
    found = json.loads((tmp_path / "comparisons" / "default" / "comparison.json").read_text())
    assert [pairing["seeds"] for pairing in found["pairing"]] == [[2]]
    monkeypatch.setattr(LocalRunner, "run", lambda *_: pytest.fail("a run was started"))
    (tmp_path / "file").write_text("")
    assert compare.main([*words, f"out={tmp_path / 'file' / 'out'}"]) == 2
    assert "cannot write there" in capsys.readouterr().err
