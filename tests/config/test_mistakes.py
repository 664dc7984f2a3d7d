"""Every mistake on the command line or in a configuration file is one clear line and exit code 2."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from commandline import jobs_of, mistake, write_conf

from creditlab import cli
from creditlab.cli import compose_job, run_hydra
from creditlab.registry import ConfigError

MATCHES = (
    "coarse_state, exact_state, graph_state, hidden_state, history, observation, rubric_only, shuffled_rubric, "
    "similar_state, state_only, state_rubric, task, turn"
)
METHODS = "bipace, ccpo, covgpo, g2po, gigpo, graphgpo, grpo, hgpo, mcgpo, progpo, rloo"
PAPER = ", ".join(
    f"paper/{env}_{model}"
    for env in ("alfworld", "webshop")
    for model in ("qwen2.5_1.5b", "qwen2.5_7b", "qwen3_4b", "qwen3_8b")
)
TUNED = (
    "ccpo_webshop, g2po_webshop, gigpo_webshop, graphgpo_alfworld, graphgpo_webshop, hgpo_webshop, mcgpo_alfworld, "
    "mcgpo_webshop"
)

UNKNOWN_COMPONENTS = {
    "method=grpoo": f"unknown method 'grpoo', did you mean 'grpo'?; available: {METHODS}",
    "method=": f"unknown method ''; available: {METHODS}",
    "method=grpo.yaml": f"unknown method 'grpo.yaml', did you mean 'grpo'?; available: {METHODS}",
    "env=webshp": "unknown env 'webshp', did you mean 'webshop'?; available: alfworld, webshop",
    "match=state_onli": f"unknown match 'state_onli', did you mean 'state_only'?; available: {MATCHES}",
    "method=grpo aux=[pear]": "unknown aux 'pear', did you mean 'pair'?; available: pair",
    "method=grpo aux=[pair] match@aux.pair.match=nope": f"unknown match 'nope'; available: {MATCHES}",
    "experiment=nope": f"unknown experiment 'nope'; available: quick, {PAPER}",
    "preset=nope": "unknown preset 'nope'; available: hf_alfworld, hf_webshop, tiny_alfworld, tiny_webshop",
    "tuning@method=nope": f"unknown tuning 'nope'; available: {TUNED}",
}
UNKNOWN_KEYS = {
    "methd=grpo": "unknown key 'methd', did you mean 'method'?; valid keys: aux, ",
    "rollout.grup_size=4": "unknown key 'rollout.grup_size', did you mean 'rollout.group_size'?; valid keys of rollout: ",
    "rolout.groups=4": "unknown key 'rolout.groups', did you mean 'rollout.groups'?",
    "method.task.omeg=0.2": "unknown key 'method.task.omeg', did you mean 'method.task.omega'?",
    "method.omega=0.2": "unknown key 'method.omega', did you mean 'method.task.omega'?",
    "method.pair.weight=2": "unknown key 'method.pair.weight', did you mean 'method.pair_weight'?",
    "+method.pair.weight=2": "unknown key 'method.pair.weight'; the weight is method.pair_weight",
    "method=grpo method.omega=0.2": "unknown key 'method.omega'; valid keys of method: coefficient, convention, moments, ",
    "method=grpo aux=[pair] aux.pair.epsilo=0.2": "unknown key 'aux.pair.epsilo', did you mean 'aux.pair.epsilon'?",
    "rollout.group_size.slots=4": "unknown key 'rollout.group_size.slots': rollout.group_size is a value (8), not a section",
    "+rollout.gruop=1": "unknown key 'rollout.gruop', did you mean 'rollout.groups'?",
    "~rollout.gruop": "unknown key 'rollout.gruop', did you mean 'rollout.groups'?",
    "'rollout={grop_size: 4}'": "unknown key 'rollout.grop_size', did you mean 'rollout.group_size'?",
    "match@method.tsk.match=observation": "unknown key 'match@method.tsk.match', did you mean 'match@method.task.match'?",
    "method=grpo base.gamma=0.9": (
        "unknown key 'base.gamma': beside a wrapper method@base=<name> chooses the wrapped method, its keys are base.<key>"
    ),
    "method=covgpo method.base=gigpo": (
        "unknown key 'method.base': beside a wrapper method@base=<name> chooses the wrapped method, its keys are base.<key>"
    ),
    "method=covgpo base=gigpo": "base is the wrapped method with its keys, got 'gigpo'; choose it with method@base=<name>",
    "method=covgpo method@base=gigpo base.gama=1": "unknown key 'base.gama', did you mean 'base.gamma'?",
    "method=covgpo method@base=gigpo base.gamma=7": "base.gamma: must be less than or equal to 1, got 7",
    "method=bipace match.layer=99": (
        "match=hidden_state wants the hidden state after layer 99; model=tiny has 2 layers: give -3 … 2"
    ),
    "env=3": "unknown env '3'; available: alfworld, webshop",
    "method=grpo match@aux.pair.match=state_only": (
        "unknown key 'match@aux.pair.match'; valid keys: method@base; aux=[pair] adds it"
    ),
}
WRONG_VALUES = {
    "rollout.group_size=two": "rollout.group_size: must be a valid integer, got 'two'",
    "rollout.group_size=2.5": "rollout.group_size: must be a valid integer, got 2.5",
    "rollout.group_size=null": "rollout.group_size: must be a valid integer, got null",
    "rollout.group_size=true": "rollout.group_size: must be a valid integer, got true",
    "rollout.group_size=0": "rollout.group_size: must be greater than or equal to 1, got 0",
    "rollout.temperature=inf": "rollout.temperature: must be a finite number, got inf",
    "training.timeout=1e300": "training.timeout: must be less than or equal to 10000000, got 1e+300",
    "rollout=null": "rollout is a section of keys, got null; set one of its keys: rollout.<key>=<value>",
    "method.pair_weight=-1": "method.pair_weight: must be greater than or equal to 0, got -1",
    "method.task.omega=2": "method.task.omega: must be less than or equal to 1, got 2",
    "method.task.exponent=cod": "method.task.exponent: must be 'code', 'paper' or 'delta', got 'cod'",
    "method.task=null": "method.task must be a component's name or its keys, got null",
    "method=grpo aux=[pair] aux.pair.epsilon=2": "aux.pair.epsilon: must be less than or equal to 1, got 2",
    "convention=papr": "convention: must be 'default', 'paper' or 'reference', got 'papr'",
    "resume=maybe": "resume: must be 'auto' or a valid boolean, got 'maybe'",
    "tracking.tags=one": "tracking.tags: must be a list, such as [a, b], got 'one'",
    "seed=4294967296": "seed: must be less than or equal to 4294967295, got 4294967296",
    "name=..": "name=.. holds only dots; write letters or digits, as in name=first-try",
    "name=.": "name=. holds only dots; write letters or digits, as in name=first-try",
    "experiment=quick model=hf model.path=/nowhere": "unknown key 'model.hidden_size'; valid keys of model: attention, "
    "dtype, gradient_checkpointing, path, revision; it comes from experiment=quick: leave that out, or add ~model.ffn_size "
    "~model.hidden_size ~model.layers",
    "name='\"a/b\"'": "name: string should match pattern '^[A-Za-z0-9._-]+$', got 'a/b'",
    "env.rooms=[kitchn]": "env.rooms: unknown room 'kitchn'; there are kitchen, living_room, bedroom, bathroom",
    "+seed=3": "seed has a value already; write it without the +",
    "~rollout.groups=3": "Could not delete from config. The value of 'rollout.groups' is 8 and not 3.",
    "~method.task.exponent=9": "method.task.exponent is there, with the value null; to remove it write ~method.task.exponent",
    "'seed=${sed}'": "seed: Interpolation key 'sed' not found",
}
AXES_AND_GROUPS = {
    "method=grpo match=observation": "method=grpo does not use match; axes it uses: none",
    "method=graphgpo fold=same": "method=graphgpo does not use fold; axes it uses: match",
    "method@method.task=grpo": "method=grpo does not use match; axes it uses: none; "
    "remove method.task.match with ~match@method.task.match",
    "method=graphgpo match=null": f"match cannot be null; choose one of: {MATCHES}, "
    "or leave it out for the default of the method",
    "~match": f"method=mcgpo needs match; choose one of: {MATCHES}",
    "method=null": f"method cannot be null; choose one of: {METHODS}",
    "shaping=null": "shaping cannot be null; write ~shaping to have none",
    "aux=null": "aux cannot be null; write aux=[] for no auxiliary loss",
    "aux=[pair]": "method=mcgpo already contains aux=pair; configure it under method.pair",
    "rollout.group_size=1": "method=mcgpo compares siblings and needs rollout.group_size >= 2, got 1: "
    "every group would be a singleton without any signal",
    "method=grpo rollout.group_size=1": "method=grpo compares siblings and needs rollout.group_size >= 2, got 1: "
    "every group would be a singleton without any signal",
    "rollout.group_size=7": "rollout.group_size=7: fold=opposite halves the group by slot and needs an even group size",
    "method=grpo aux=[pair] fold@aux.pair.fold=same rollout.group_size=5": "rollout.group_size=5: fold=same halves the group "
    "by slot and needs an even group size",
    "match.name=state_only": "match.name=state_only has no effect on its own; write match=state_only",
    "method.task.name=grpo": "method.task.name=grpo has no effect on its own; write method@method.task=grpo",
}
QUOTE = ": write key=value, and quote a value that holds spaces, commas or brackets, such as 'name=\"a b\"'"
MALFORMED = {
    "a b": "cannot read 'a'" + QUOTE,
    "'a b'": "cannot read 'a b'" + QUOTE,
    "method": "cannot read 'method'" + QUOTE,
    "=grpo": "cannot read '=grpo'" + QUOTE,
    "method=grpo)": "cannot read 'method=grpo)'" + QUOTE,
    "method=grpo,mcgpo": "'method=grpo,mcgpo' gives several values: add -m to run each of them, or write [a,b] for a list",
    "method=[grpo]": f"method takes one name, got 'method=[grpo]'; available: {METHODS}",
    "match=[observation]": f"match takes one name, got 'match=[observation]'; available: {MATCHES}",
    "~method": f"method takes one name, got '~method'; available: {METHODS}",
    "method=grpo method=graphgpo": "method is given twice: method=grpo method=graphgpo; keep one",
    "method=grpo +method=graphgpo": "method is given twice: method=grpo +method=graphgpo; keep one",
    "method=grpo aux=[pair,pair]": "aux is given twice: aux=[pair,pair]; keep one",
    "+method=grpo": "method has a value already; write method=grpo, without the +",
}
TABLES = (UNKNOWN_COMPONENTS, UNKNOWN_KEYS, WRONG_VALUES, AXES_AND_GROUPS, MALFORMED)
CASES = {line: message for table in TABLES for line, message in table.items()}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hydra notes a sweep in its folder; not in the repository."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("line", CASES)
def test_the_message_names_the_mistake(line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose_job(shlex.split(line))
    assert_message(line, str(caught.value))


@pytest.mark.parametrize("line", [line for table in TABLES for line in list(table)[:3]])
def test_the_command_line_shows_that_message_alone(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert_message(line, mistake(line, capsys))


def assert_message(line: str, message: str) -> None:
    assert "\n" not in message
    assert message.startswith(CASES[line]) if line in UNKNOWN_KEYS else message == CASES[line]


FILES = {
    "rollout: {grup_size: 4}": "unknown key 'rollout.grup_size', did you mean 'rollout.group_size'?; valid keys of rollout: ",
    "method: {pear_weight: 2}": "unknown key 'method.pear_weight', did you mean 'method.pair_weight'?; valid keys of ",
    "method: {task: {omeg: 0.2}}": "unknown key 'method.task.omeg', did you mean 'method.task.omega'?; valid keys of method",
    "method: {pair: {weight: 2}}": "unknown key 'method.pair.weight'; the weight is method.pair_weight",
    "fold: {incomplet: skip}": "unknown key 'fold.incomplet', did you mean 'fold.incomplete'?; valid keys of fold: ",
    "traning: {updates: 3}": "unknown key 'traning', did you mean 'training'?; valid keys: ",
    "method: grpo": "method is a component with keys of its own, got 'grpo'; choose it with method=<name>, in a file under ",
    "aux: [pair]": "aux holds auxiliary losses by name, got [pair]; add one with aux=[<name>]",
    "training: {updates: few}": "training.updates: must be a valid integer, got 'few'",
    "defaults: [override /method: grpoo]": f"unknown method 'grpoo', did you mean 'grpo'?; available: {METHODS}",
    "defaults: [override /methd: grpo]": "unknown key 'methd', did you mean 'method'?; valid keys: ",
    "defaults: [override /method: grpo, override /match: observation]": "method=grpo does not use match; axes it uses: none",
}


@pytest.mark.parametrize("text", FILES)
def test_mistakes_in_an_experiment_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_conf(monkeypatch, tmp_path, experiment__mine=f"# @package _global_\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        compose_job(["experiment=mine"])
    assert str(caught.value).startswith(FILES[text])


@pytest.mark.parametrize("text", ["seed: {", "seed: 'a", "seed: 3\n - x: [", "\tseed: 3"])
def test_a_file_that_is_no_yaml_is_named_with_its_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_conf(monkeypatch, tmp_path, experiment__mine=text)
    message = mistake("experiment=mine", capsys)
    assert message.startswith(f"{tmp_path}/experiment/mine.yaml, line ")
    assert " is no valid YAML: " in message


@pytest.mark.parametrize(
    "line", ["name=" + "x" * 5000, "'name=\"" + "a b" * 2000 + "\"'", "x=" + "[" * 3000, "seed=" + "{a:" * 900]
)
def test_a_message_is_of_a_length_to_read(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert len(mistake(line, capsys)) < 2000


def test_a_section_that_is_taken_away_has_its_defaults() -> None:
    job = compose_job(["~training"])
    assert job.settings.training.updates == compose_job([]).settings.training.updates
    assert len(job.hash) == 10


def test_a_list_of_files_and_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_conf(monkeypatch, tmp_path, experiment__mine="seed: 3", experiment__yours="seed: 4")
    assert mistake("experiment=min", capsys) == f"unknown experiment 'min'; available: mine, quick, yours, {PAPER}"


def test_a_string_adds_one_auxiliary_loss() -> None:
    assert compose_job(["method=grpo", "aux=pair"]).aux == compose_job(["method=grpo", "aux=[pair]"]).aux
    assert [loss.name for loss in compose_job(["method=grpo", "aux=pair"]).aux] == ["pair"]


def test_a_sweep_names_the_job_and_runs_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    code, jobs = jobs_of("-m method=graphgpo,grpo match=observation")
    assert code == 2
    assert [job.choices["method"] for job in jobs] == ["graphgpo"]
    assert capsys.readouterr().err == (
        "creditlab: [method=grpo match=observation] method=grpo does not use match; axes it uses: none\n"
    )


def test_an_unknown_component_stops_a_sweep_before_its_first_job(capsys: pytest.CaptureFixture[str]) -> None:
    assert mistake("-m method=grpo,grpoo", capsys) == CASES["method=grpoo"]


def test_exit_codes_of_the_task(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_hydra(lambda job: 3, ["method=grpo"]) == 3
    assert run_hydra(lambda job: 130, ["-m", "method=grpo,graphgpo"]) == 130
    assert capsys.readouterr().err == "creditlab: interrupted\n", "an interrupted sweep starts no further job"


def test_a_value_error_of_the_task_is_one_line_with_a_way_to_see_more(capsys: pytest.CaptureFixture[str]) -> None:
    def task(job: object) -> int:
        raise ValueError("no games in\n  /nowhere")

    assert run_hydra(task, []) == 2
    assert capsys.readouterr().err == "creditlab: no games in /nowhere (CREDITLAB_TRACEBACK=1 shows where)\n"


def test_traceback_on_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(cli.TRACEBACK, "1")
    with pytest.raises(ConfigError, match="group_size"):
        run_hydra(lambda job: 0, ["rollout.group_size=1"])
