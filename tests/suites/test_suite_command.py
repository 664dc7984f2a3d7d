"""A suite of real runs from one command: killed in the middle, called again, paired, recorded and tracked."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wandb_records import files, records_of

from creditlab.rollouts import RolloutBatch
from creditlab.rollouts.store import RolloutStore, load
from creditlab.training.seeds import task_order

TINY = (
    "model.hidden_size=16", "model.layers=1", "model.heads=2", "model.ffn_size=16", "warm_start.steps=5",
    "warm_start.games=5", "warm_start.demonstrations=1", "evaluation.episodes=4", "evaluation.every=1", "checkpoint.every=1",
    "checkpoint.rollouts_every=1", "rollout.groups=2", "rollout.group_size=4", "env.horizon=4", "tracking.wandb=offline",
    "training.updates=2", "warm_start.cache=cache",
)  # fmt: skip
ENTRIES = ("methods=[grpo,'mcgpo match=state_only']", "seeds=[0,1,2]", "last=2")


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "creditlab.compare", *ENTRIES, *TINY, *words]


def call(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*words), cwd=root, capture_output=True, text=True, timeout=580, check=False)


def run_folders(root: Path) -> dict[str, Path]:
    """The run folders by method and seed, such as grpo-s0."""
    found = {}
    for path in (root / "runs").glob("*-s?"):
        method, *_, seed = path.name.split("-")
        found[f"{method}-{seed}"] = path
    return found


def over(path: Path) -> bool:
    return (path / "figures" / "learning_curve.png").exists()


def at_work(root: Path) -> bool:
    """Whether a run is in the middle: evaluated before its first update, and not over."""
    return any((path / "metrics.jsonl").exists() and not over(path) for path in run_folders(root).values())


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("suite")


@pytest.fixture(scope="module")
def killed(root: Path) -> dict[str, int]:
    """The runs that were over when the first call and the run at work were killed, and when their metrics were written."""
    process = subprocess.Popen(command(), cwd=root, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 500
        while not any(over(path) for path in run_folders(root).values()) or not at_work(root):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=False)
        runs = found.stdout.split()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for number in runs:  # each leads a group of its own
            os.killpg(int(number), signal.SIGKILL)
    assert len(runs) == 1
    return {name: (path / "metrics.jsonl").stat().st_mtime_ns for name, path in run_folders(root).items() if over(path)}


@pytest.fixture(scope="module")
def second(root: Path, killed: dict[str, int]) -> subprocess.CompletedProcess[str]:
    """The second call, which finishes the suite."""
    return call(root)


@pytest.mark.slow
def test_the_second_call_finishes_a_killed_suite_and_repeats_no_finished_run(
    root: Path, killed: dict[str, int], second: subprocess.CompletedProcess[str]
) -> None:
    assert second.returncode == 0, second.stderr[-2000:]
    assert len(killed) == 1
    folders = run_folders(root)
    assert sorted(folders) == ["grpo-s0", "grpo-s1", "grpo-s2", "mcgpo-s0", "mcgpo-s1", "mcgpo-s2"]
    for name, written in killed.items():
        assert (folders[name] / "metrics.jsonl").stat().st_mtime_ns == written
        log = root / "runs" / "comparisons" / "default" / "logs" / f"{folders[name].name}.log"
        assert log.read_text().count("$ ") == 1
    for path in folders.values():
        steps = [json.loads(text)["step"] for text in (path / "metrics.jsonl").read_text().splitlines()]
        assert steps == [0, 1, 2]
    counted = re.search(r"suite default: 6 runs, (\d) finished", second.stdout)
    assert counted, second.stdout
    assert int(counted[1]) in (1, 2), "the run at work may have made its last evaluation before it was killed"


def first_batch(path: Path) -> RolloutBatch:
    return load(RolloutStore(path / "rollouts").path(1))


def decisions(batch: RolloutBatch) -> list[tuple[object, ...]]:
    """Everything that was played: task, slot, tokens and log-probabilities of every decision."""
    return [
        (
            group.task_id,
            trajectory.slot,
            step.turn,
            *(a.tolist() for a in (step.prompt_ids, step.response_ids, step.logprobs)),
        )
        for group in batch.groups
        for trajectory in group.trajectories
        for step in trajectory.steps
    ]


@pytest.mark.slow
@pytest.mark.parametrize("seed", ["s0", "s1"])
def test_two_methods_at_one_seed_share_everything_up_to_their_first_step(
    root: Path, second: subprocess.CompletedProcess[str], seed: str
) -> None:
    one, other = (run_folders(root)[f"{method}-{seed}"] for method in ("grpo", "mcgpo"))
    facts = [json.loads((path / "manifest.json").read_text()) for path in (one, other)]
    for key in ("weights", "hash"):
        assert facts[0]["warm_start"][key] == facts[1]["warm_start"][key]
    assert facts[0]["panel"] == facts[1]["panel"]
    batches = [first_batch(path) for path in (one, other)]
    tasks = [[group.task_id for group in batch.groups] for batch in batches]
    assert tasks[0] == tasks[1]
    assert decisions(batches[0]) == decisions(batches[1])
    assert len(decisions(batches[0])) >= 8
    second_tasks = [[g.task_id for g in load(RolloutStore(path / "rollouts").path(2)).groups] for path in (one, other)]
    assert second_tasks[0] == second_tasks[1] != tasks[0]
    starts = [json.loads((path / "metrics.jsonl").read_text().splitlines()[0]) for path in (one, other)]
    assert starts[0]["val/success_rate"] == starts[1]["val/success_rate"]
    # then their credit, and with it their first step, differs
    weights = [path / "checkpoints" / "update-000002" / "model" / "model.safetensors" for path in (one, other)]
    assert weights[0].read_bytes() != weights[1].read_bytes()


@pytest.mark.slow
def test_another_seed_has_other_tasks_and_rollouts_but_the_same_start(
    root: Path, second: subprocess.CompletedProcess[str]
) -> None:
    one, other = (run_folders(root)[f"grpo-{seed}"] for seed in ("s0", "s1"))
    facts = [json.loads((path / "manifest.json").read_text()) for path in (one, other)]
    assert facts[0]["warm_start"]["weights"] == facts[1]["warm_start"]["weights"]
    games = facts[0]["environment"]["train_games"]
    assert task_order(0, 1, 2, games) != task_order(1, 1, 2, games)
    assert [g.task_id for g in first_batch(one).groups] != [g.task_id for g in first_batch(other).groups]
    assert decisions(first_batch(one)) != decisions(first_batch(other))


@pytest.mark.slow
def test_the_comparison_is_paired_and_names_what_made_it(root: Path, second: subprocess.CompletedProcess[str]) -> None:
    out = root / "runs" / "comparisons" / "default"
    found = json.loads((out / "comparison.json").read_text())
    assert (found["suite"], found["baseline"], found["entries"]) == ("default", "grpo", ["grpo", "mcgpo match=state_only"])
    [pairing] = found["pairing"]
    assert (pairing["seeds"], pairing["missing"], pairing["broken"]) == ([0, 1, 2], {}, {})
    assert not pairing["unknown"]
    assert {run["configuration_hash"] for run in found["runs"]} == {p.name.split("-")[2] for p in run_folders(root).values()}
    made = [json.loads((path / "manifest.json").read_text()) for path in run_folders(root).values()]
    hashes = {hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest() for facts in made}
    assert {run["manifest_hash"] for run in found["runs"]} == hashes
    differs = found["configuration_differences"]["alfworld"]
    assert differs["method.name"] == {"grpo": "grpo", "mcgpo match=state_only": "mcgpo"}
    assert not {"seed", "run_root", "tracking.tags"} & set(differs)
    assert "mcgpo match=state" in (out / "comparison.md").read_text()
    assert r"\begin{table}" in (out / "comparison.tex").read_text()
    assert "Paired differences to grpo" in second.stdout


@pytest.mark.slow
def test_the_suite_ends_in_a_report_which_is_in_w_and_b_too(root: Path, second: subprocess.CompletedProcess[str]) -> None:
    out = root / "runs" / "comparisons" / "default"
    page = (out / "report.html").read_text()
    for run in json.loads((out / "comparison.json").read_text())["runs"]:
        assert run["manifest_hash"][:12] in page
        assert run["panel"]["hash"] in page
    assert f"report   {Path('runs/comparisons/default/report.html')}" in second.stdout
    [record] = [record.run for record in records_of(files(out)[0]) if record.HasField("run")]
    assert (record.run_group, record.job_type) == ("default", "comparison")
    assert {"setting=alfworld", "match=state_only"} <= set(record.tags)


@pytest.mark.slow
def test_records_stand_for_runs_whose_folders_are_elsewhere(
    root: Path, second: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    records = root / "runs" / "comparisons" / "default" / "records"
    again = call(root, f"records={records}", f"run_root={tmp_path / 'empty'}", f"out={tmp_path / 'out'}")
    assert again.returncode == 0, again.stderr
    assert "6 finished" in again.stdout
    assert not list(tmp_path.glob("empty/*-s?"))
    first, now = (
        json.loads((out / "comparison.json").read_text())
        for out in (root / "runs" / "comparisons" / "default", tmp_path / "out")
    )
    assert first == now
    assert max(path.stat().st_size for path in records.iterdir()) < 40_000


@pytest.mark.slow
def test_runs_are_grouped_by_suite_and_typed_by_method_in_w_and_b(
    root: Path, second: subprocess.CompletedProcess[str]
) -> None:
    folders = run_folders(root)
    for name, method, tags in (
        ("grpo-s0", "grpo", {"setting=alfworld"}),
        ("mcgpo-s1", "mcgpo", {"setting=alfworld", "match=state_only"}),
    ):
        [run] = [record.run for record in records_of(files(folders[name])[0]) if record.HasField("run")]
        assert (run.run_group, run.job_type) == ("default", method)
        assert tags <= set(run.tags)


@pytest.mark.slow
def test_a_table_of_results_gives_the_same_statistics(
    root: Path, second: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    found = json.loads((root / "runs" / "comparisons" / "default" / "comparison.json").read_text())
    lines = ["method,setting,seed,update,value"]
    for path in (root / "runs" / "comparisons" / "default" / "records").iterdir():
        record = json.loads(path.read_text())
        name = "grpo" if path.name.startswith("grpo") else "mcgpo match=state_only"
        lines += [
            f"{name},alfworld,{record['seed']},{point['step']},{100 * point['metrics']['val/success_rate']}"
            for point in record["evaluations"]
        ]
    (tmp_path / "results.csv").write_text("\n".join(lines) + "\n")
    words = ["table=results.csv", "baseline=grpo", "out=out", "last=2"]
    done = subprocess.run(
        [sys.executable, "-m", "creditlab.compare", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
        check=True,
    )
    assert "Paired differences to grpo" in done.stdout
    from_table = json.loads((tmp_path / "out" / "comparison.json").read_text())

    def numbers(comparison: dict[str, list[dict[str, object]]]) -> dict[tuple[object, ...], object]:
        return {
            (row["entry"], row["measure"]): {k: v for k, v in row.items() if isinstance(v, float | int)}
            for row in comparison["results"]
            if not row["family"]
        }

    assert numbers(from_table) == numbers(found)
