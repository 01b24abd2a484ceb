"""README shows what really happens: its commands are run, its output is compared, its Python is executed."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from paictl.cli.run import attempt
from tests.conftest import ROOT

TEXT = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)


def steps(block: str) -> Iterator[tuple[str, list[str]]]:
    """(command, expected lines) of a console block."""
    command, expected = "", list[str]()
    for line in block.splitlines():
        if line.startswith("$ "):
            if command:
                yield command, expected
            command, expected = line[2:], []
        else:
            expected.append(line)
    yield command, expected


def matches(expected: list[str], shown: list[str]) -> bool:
    """Whether lines are as expected; a line `...` stands for any lines, a final ` ...` for the rest of its line."""
    if not expected:
        return not shown
    head, rest = expected[0], expected[1:]
    if head == "...":
        return any(matches(rest, shown[skipped:]) for skipped in range(len(shown) + 1))
    if not shown:
        return False
    pattern = re.sub(r"([\[\]?*])", r"[\1]", head)
    pattern = pattern.removesuffix(" ...") + "*" if head.endswith(" ...") else pattern
    return fnmatch.fnmatchcase(shown[0], pattern) and matches(rest, shown[1:])


CONSOLES = [block for block in blocks("console") if block.startswith("$ paictl")]


@pytest.mark.parametrize("block", CONSOLES, ids=lambda block: block.splitlines()[0][2:40])
def test_commands_print_what_readme_shows(block: str, tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PAICTL_STATE": str(tmp_path / "state"), "COLUMNS": "200"}
    for command, expected in steps(block):
        done = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            capture_output=True,
            text=True,
            check=False,
            cwd=ROOT,
            env=environment,
        )
        assert matches(expected, done.stdout.splitlines()), f"{command}\n{done.stdout}{done.stderr}"


def test_the_python_example_prints_what_readme_shows() -> None:
    (example,) = blocks("python")
    (expected,) = blocks("text")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", example],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout == expected, done.stderr
    assert len(example.splitlines()) <= 30


def test_every_command_named_in_readme_exists() -> None:
    named = set(re.findall(r"`(paictl(?: [a-z-]+){1,2})", TEXT))
    assert named
    for command in sorted(named):
        words = command.split()[1:]
        code, error = attempt([*words, "--help"])
        assert code == 0, f"{command}: {error}"
