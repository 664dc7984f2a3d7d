"""Odd command lines and configurations: a job that is what was asked for, or one message that names the key."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fuzzing import Rng, check_message, fuzz
from hydra.core.override_parser.overrides_parser import OverridesParser
from mutations import ODD_VALUES, damaged, damaged_json, misspelt, pick
from omegaconf import OmegaConf

from creditlab import evaluate
from creditlab.cli import compose_job
from creditlab.config import Job, compose_config, resolve
from creditlab.options import ConfigError
from creditlab.registry import registry

BASES = (
    ("method=grpo",), ("method=graphgpo",), ("method=mcgpo", "method.pair_weight=0.5"), ("method=grpo", "aux=pair"),
    ("experiment=quick",), ("model=hf", "model.path=somewhere", "prompt.max_prompt_tokens=100"),
)  # fmt: skip
ODD_TEXTS = (
    "", " ", "null", "true", "nan", "inf", "-inf", "1e999", "-1", "0", "1.5", "99999999999999999999", "[]", "[1,a]", "{}",
    "{a:1}", "a,b", "1,2,3", "${seed}", "${nowhere}", "${oc.env:HOME}", "${", "'", '"', "\\", "ä\u202eß", "\u0000", "a b",
    "x" * 3000, "[" * 400, "{a:" * 200, "glob(*)", "range(1,5)", "choice(a,b)", "@", "=", "~", "../../etc", "\n", "0x10",
)  # fmt: skip
GROUPS = (
    "env",
    "model",
    "engine",
    "learner",
    "tracking",
    "method",
    "match",
    "fold",
    "weighting",
    "aux",
    "shaping",
    "experiment",
)


def flat(node: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """The full keys of all values."""
    for key, value in node.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


@pytest.fixture(scope="module")
def composed() -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Configuration and choices of every base."""
    found = []
    for base in BASES:
        cfg, choices = compose_config(base)
        plain = OmegaConf.to_container(cfg)
        assert isinstance(plain, dict)
        found.append((plain, choices))
    return found


def check_job(job: Job) -> None:
    """A job that was accepted has plain, finite values, a name, and a folder below its root."""
    text = json.dumps(job.config, allow_nan=False)
    assert json.loads(text) == job.config
    assert len(job.hash) == 10
    assert job.folder.parent == Path(job.settings.run_root)
    assert "/" not in job.name


@dataclass(frozen=True)
class Change:
    """One thing in a configuration that is not as it was."""

    base: int
    key: str
    how: str
    value: Any


def test_values_of_configurations(composed: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """What any file, plug-in or command line may put in the place of a value, once it is composed."""

    def make(rng: Rng) -> Change:
        base = int(rng.integers(len(BASES)))
        key = pick(rng, sorted(flat(composed[base][0])))
        if rng.random() < 0.2 and "." in key:
            key = key.rpartition(".")[0]
        return Change(base, key, pick(rng, ("value", "value", "value", "gone", "misspelt", "beside")), pick(rng, ODD_VALUES))

    def check(change: Change, rng: Rng) -> str:
        plain, choices = composed[change.base]
        cfg = json.loads(json.dumps(plain))
        *sections, leaf = change.key.split(".")
        node = cfg
        for section in sections:
            node = node[section]
        before, name = node.pop(leaf), leaf
        if change.how != "gone":
            name = misspelt(leaf, rng) if change.how in ("misspelt", "beside") else leaf
            node[name] = change.value if change.how == "value" else before
        if change.how == "beside":
            node[leaf] = before
        try:
            job = resolve(OmegaConf.create(cfg), choices)
        except ConfigError as error:
            check_message(error, [leaf, name, *sections])
            return "refused"
        check_job(job)
        if change.how == "value":
            assert value_at(job.config, change.key) == change.value, "something else was set"
        return "accepted"

    fuzz("values", 300, make, check)


def make_override(rng: Rng, keys: list[str]) -> str:
    """An argument as a tired hand types it."""
    key, text = pick(rng, keys), pick(rng, ODD_TEXTS)
    match int(rng.integers(7)):
        case 0:
            return f"{misspelt(key, rng)}={pick(rng, ('1', 'a', text))}"
        case 1:
            return misspelt(f"{key}={text}", rng)
        case 2:
            group = pick(rng, GROUPS)
            return f"{group}={misspelt(pick(rng, ('grpo', 'mcgpo', 'quick', 'alfworld', 'state_rubric', 'pair')), rng)}"
        case 3:
            return f"{pick(rng, ('+', '++', '~'))}{key}={text}"
        case 4:
            return f"{pick(rng, GROUPS)}{pick(rng, ('', '@x', '@method.task', '.name'))}={text}"
    return f"{key}={text}"


def test_command_lines(composed: list[tuple[dict[str, Any], dict[str, Any]]]) -> None:
    def make(rng: Rng) -> list[str]:
        base = int(rng.integers(5))
        return [*BASES[base], make_override(rng, sorted(flat(composed[base][0])))]

    def check(line: list[str], rng: Rng) -> str:
        try:
            job = compose_job(line)
        except ConfigError as error:
            key, _, value = line[-1].lstrip("+~").partition("=")
            words = [word for word in (*key.split("@")[0].split("."), key, value.strip()) if word.strip()]
            check_message(error, [*words, repr(line[-1])[1:30]])
            return "refused"
        check_job(job)
        check_set(job, line[-1])
        return "accepted"

    fuzz("command lines", 120, make, check)


def value_at(config: Mapping[str, Any], key: str) -> Any:
    """The value of a full key."""
    node: Any = config
    for step in key.split("."):
        node = node[step]
    return node


def check_set(job: Job, override: str) -> None:
    """What was set is there, as Hydra's own grammar reads it."""
    parsed = OverridesParser.create().parse_override(override)
    value = parsed.value()
    if parsed.is_delete() or str(parsed.key_or_group) in (*GROUPS, "preset", "tuning") or "${" in override:
        return
    node = value_at(job.config, str(parsed.key_or_group))
    wanted = value.text if hasattr(value, "text") else value
    assert node == wanted or (isinstance(wanted, float) and math.isclose(node, wanted)), f"{override!r} gave {node!r}"


def test_configuration_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An experiment's file after an accident in an editor."""
    whole = (Path(__file__).parents[2] / "conf" / "experiment" / "quick.yaml").read_text()
    monkeypatch.setattr(registry(), "config_paths", [f"file://{tmp_path}"])  # as a plug-in brings its own
    path = tmp_path / "experiment" / "mine.yaml"
    path.parent.mkdir()
    path.write_text(whole)
    assert compose_job(["experiment=mine"]).settings.rollout.groups == 2

    def make(rng: Rng) -> bytes:
        if rng.random() < 0.4:
            return damaged(whole.encode(), rng)
        words = whole.split(" ")
        place = int(rng.integers(len(words)))
        words[place] = pick(rng, (misspelt(words[place], rng), *map(str, ODD_TEXTS[:24])))
        return " ".join(words).encode()

    def check(content: bytes, rng: Rng) -> str:
        path.write_bytes(content)
        try:
            job = compose_job(["experiment=mine"])
        except ConfigError as error:
            sections = ("model", "warm_start", "rollout", "evaluation", "training", "checkpoint", "mine")
            check_message(error, [*sections, str(path)])
            return "refused"
        check_job(job)
        return "accepted"

    fuzz("configuration files", 40, make, check)


def test_the_configuration_of_a_past_run(tmp_path: Path) -> None:
    """`config.json` in a run's folder, from which an evaluation takes the run's own settings."""
    config = compose_job(["method=grpo", "tracking.wandb=disabled"]).config
    path = tmp_path / "config.json"

    def make(rng: Rng) -> bytes:
        text = json.dumps(config).encode()
        return damaged(text, rng) if rng.random() < 0.2 else damaged_json(config, rng).encode("utf-8", "surrogatepass")

    def check(content: bytes, rng: Rng) -> str:
        path.write_bytes(content)
        try:
            _, overrides = evaluate.read_request([f"run={tmp_path}"])
            job = compose_job(overrides)
        except ConfigError as error:
            check_message(error, [str(path), *evaluate.READ, *evaluate.PARTS, *(key for key in flat(config))])
            return "refused"
        check_job(job)
        return "accepted"

    fuzz("configurations of past runs", 30, make, check)
