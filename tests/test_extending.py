"""docs/extending.md: each recipe is carried out, as it stands there, in a copy of the sources."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs/extending.md").read_text(encoding="utf-8")
RECIPES = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", PAGE, re.M | re.S))
_BLOCK = re.compile(r'^```(\w+)(?: title="(.*?)")?\n(.*?)^```$', re.M | re.S)


def blocks(recipe: str) -> Iterator[tuple[str, str, str]]:
    """Kind, file and text of each block."""
    yield from _BLOCK.findall(recipe)


def write(path: Path, kind: str, text: str) -> None:
    """Do what a block says to a file."""
    if kind != "diff":
        before = path.read_text(encoding="utf-8") if path.exists() else ""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(before + ("\n\n" if kind == "python" else "") + text, encoding="utf-8")
        return
    lines = text.splitlines()
    old = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    new = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    source = path.read_text(encoding="utf-8")
    assert source.count(old) == 1, f"{path}: these lines are not there, or not only once:\n{old}"
    path.write_text(source.replace(old, new), encoding="utf-8")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The sources, with what the package finds beside it."""
    target = tmp_path / "paictl"
    ignored = shutil.ignore_patterns("__pycache__")
    for name in ("paictl", "schemas", "templates", "labs", "locale", "playbooks", "docs", "examples", "tests"):
        shutil.copytree(ROOT / name, target / name, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    return target


@pytest.mark.parametrize("title", RECIPES)
def test_a_recipe_works_to_the_letter(title: str, copy: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "PYTHONPATH": str(copy),
        "PAICTL_STATE": str(tmp_path / "state"),
        "NO_COLOR": "1",
        "XDG_STATE_HOME": str(tmp_path / "xdg"),
        "XDG_CONFIG_HOME": str(tmp_path / "xdg"),
        "COLUMNS": "200",
        "PYTEST_ADDOPTS": "-p no:cacheprovider",
    }
    commands = 0
    for kind, name, text in blocks(RECIPES[title]):
        if kind != "console":
            write(copy / name, kind, text)
            continue
        for command, wanted in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", text, re.M):
            commands += 1
            words = shlex.split(command)
            while re.fullmatch(r"[A-Z_]+=\S*", words[0]):
                key, _, value = words.pop(0).partition("=")
                environment[key] = value
            assert words[0] == "python"
            done = subprocess.run(
                [sys.executable, *words[1:]], cwd=copy, env=environment, capture_output=True, text=True, check=False
            )
            assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
            for line in wanted.splitlines():
                assert line in done.stdout + done.stderr, f"{command}: {done.stdout}{done.stderr}"
    assert commands
