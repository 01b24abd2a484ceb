"""The wheel works alone: built by hatchling, installed into an empty environment, away from the sources.

The environment has what `dependencies` in pyproject.toml names and what these need, and nothing else: no extras, no
tools of developers, no sources that could be taken instead.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.conftest import ROOT

FOLDERS = ("schemas", "labs", "traces", "templates", "playbooks", "locale")


def needed(names: list[str]) -> Iterator[importlib.metadata.Distribution]:
    """The distributions that some need, without their extras."""
    done: set[str] = set()
    while names:
        requirement = Requirement(names.pop())
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name in done or (requirement.marker is not None and not requirement.marker.evaluate({"extra": ""})):
            continue
        done.add(name)
        found = importlib.metadata.distribution(requirement.name)
        yield found
        names += found.requires or []


@pytest.fixture(scope="module")
def paictl(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command in an environment of its own."""
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, with_pip=False, symlinks=True)
    subprocess.run(
        [sys.executable, "-m", "pip", f"--python={folder / 'bin' / 'python'}", "install", "-q", "--no-deps", wheel],
        check=True,
        timeout=300,
    )
    (site,) = folder.glob("lib/python3*/site-packages")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    for one in needed(list(project["dependencies"])):
        for top in {path.parts[0] for path in one.files or () if ".." not in path.parts}:
            if not (site / top).exists():
                (site / top).symlink_to(Path(str(one.locate_file(top))))
    return folder / "bin" / "paictl"


def run(paictl: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "COLUMNS": "200",
        **{f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "CACHE", "DATA")},
    }
    return subprocess.run(
        [paictl, *words], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=120
    )


def test_the_wheel_has_the_folders_of_the_project(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    for folder in FOLDERS:
        there = {path.relative_to(ROOT).as_posix() for path in (ROOT / folder).rglob("*") if path.is_file()}
        ours = {one for one in there if "__pycache__" not in one and not one.endswith(".pyc")}
        assert {f"paictl/data/{one}" for one in ours} <= set(names), folder
    assert not [one for one in names if one.startswith(("tests/", "tools/")) or "__pycache__" in one]


def test_it_validates_configuration(paictl: Path, tmp_path: Path) -> None:
    (tmp_path / "layout.yaml").write_text("machine-sku: {}\nmachine-list: [{hostname: a}]\n")
    done = run(paictl, tmp_path, "config", "validate", "layout.yaml")
    assert done.returncode == 1, done.stderr
    assert "layout.yaml:2:" in done.stdout + done.stderr
    assert run(paictl, tmp_path, "config", "explain", "HVD540").returncode == 0
    assert run(paictl, tmp_path, "config", "schema", "export", "schemas").returncode == 0
    assert (tmp_path / "schemas").is_dir()


def test_it_runs_a_lab(paictl: Path, tmp_path: Path) -> None:
    assert "01" in run(paictl, tmp_path, "lab", "list").stdout
    done = run(paictl, tmp_path, "lab", "selftest", "01")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_runs_a_job_on_a_cluster_of_its_own(paictl: Path, tmp_path: Path) -> None:
    assert run(paictl, tmp_path, "cluster", "up", "--preset", "three-tenants", "--speed", "0").returncode == 0
    (tmp_path / "train.yaml").write_text((ROOT / "examples" / "jobs" / "train.yaml").read_text(encoding="utf-8"))
    done = run(paictl, tmp_path, "job", "submit", "train.yaml", "--user", "ann", "--name", "first")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ann~first" in run(paictl, tmp_path, "job", "list").stdout
    assert run(paictl, tmp_path, "job", "explain", "ann~first").returncode == 0


@pytest.mark.parametrize(
    "words", [("serve",), ("deploy", "apply", "-m", "m.csv", "-w", "w.csv", "-c", "c.yaml"), ("placer", "config")]
)
def test_what_needs_an_extra_names_it(words: tuple[str, ...], paictl: Path, tmp_path: Path) -> None:
    done = run(paictl, tmp_path, *words)
    assert done.returncode != 0
    assert "Traceback" not in done.stderr, done.stderr
    if words[0] != "deploy":
        assert re.search(r"pip install .paictl\[\w+\]", done.stderr), done.stderr
