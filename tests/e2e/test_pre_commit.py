"""The hook as pre-commit installs it: an environment of its own, made from the files of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

FOREIGN = {
    "charts/x/templates/service.yaml": "{{- if .Values.on }}\napiVersion: v1\nkind: Service\n{{- end }}\n",
    "charts/x/values.yaml": "grafana: {}\nprometheus: {}\n",
    "charts/x/Chart.yaml": "apiVersion: v2\nname: x\n",
    "compose.yaml": "services:\n  db: {image: x}\n",
    ".github/workflows/ci.yml": "on: [push]\njobs: {}\n",
    "k8s/all.yaml": "apiVersion: v1\nkind: Service\n---\napiVersion: v1\nkind: Pod\n",
    "app/config.yaml": "user: me\npassword: x\nhost: db\n",
    "data/rows.csv": "a,b\n1,2\n",
}
HOOK = "repos:\n- repo: {hooks}\n  rev: {revision}\n  hooks:\n  - id: paictl-config-validate\n"

Run = subprocess.CompletedProcess[str]


def git(folder: Path, *words: str) -> str:
    name = ("-c", "user.name=ann", "-c", "user.email=ann@example.org", "-c", "init.defaultBranch=main")
    done = subprocess.run(["git", *name, *words], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture(scope="module")
def pre_commit(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, installed from the package registry; the test is skipped where none answers."""
    folder = tmp_path_factory.mktemp("pre-commit")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "-q", "--retries", "1", "pre-commit>=4"]
    done = subprocess.run(pip, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        pytest.skip("pre-commit cannot be installed from the package registry")
    return folder / "venv" / "bin" / "pre-commit"


@pytest.fixture(scope="module")
def hooks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository that holds this one's files as they are now."""
    folder = tmp_path_factory.mktemp("hooks")
    listed = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in git(ROOT, *listed).split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def repository(tmp_path: Path, hooks: Path) -> Path:
    """Charts, compose files, workflows and the folder of one cluster, with the hook."""
    shutil.copytree(ROOT / "examples" / "cluster", tmp_path / "cluster")
    revision = git(hooks, "rev-parse", "HEAD")
    files = {**FOREIGN, ".pre-commit-config.yaml": HOOK.format(hooks=hooks, revision=revision)}
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-A")
    return tmp_path


def run(program: Path, repository: Path) -> Run:
    home = program.parent.parent.parent / "home"
    environment = {**os.environ, "PRE_COMMIT_HOME": str(home)}
    words = [str(program), "run", "--all-files", "--verbose", "--color=never"]
    return subprocess.run(words, cwd=repository, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_the_hook_judges_the_folder_of_the_cluster_only(pre_commit: Path, repository: Path) -> None:
    clean = run(pre_commit, repository)
    assert clean.returncode == 0, clean.stdout + clean.stderr
    assert "6 files checked, all clean" in clean.stdout
    assert f"{len(FOREIGN) + 1} files are not OpenPAI or HiveD configuration" in clean.stdout
    layout = repository / "cluster" / "layout.yaml"
    layout.write_text(layout.read_text(encoding="utf-8").replace("machine-list:", "machine-list"), encoding="utf-8")
    git(repository, "add", "-A")
    broken = run(pre_commit, repository)
    assert broken.returncode == 1
    assert "cluster/layout.yaml" in broken.stdout
    assert not any(name in broken.stdout for name in FOREIGN)
