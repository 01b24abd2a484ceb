"""README and docs show what really happens: commands are run, output compared, Python executed, links followed."""

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

README = ROOT / "README.md"
RUN_HERE = tuple(
    ROOT / "docs" / f"{name}.md" for name in ("validate", "local-cluster", "labs", "scheduler-core", "simulator")
)
"""Pages whose commands need no cluster."""
PAGES = (README, ROOT / "labs" / "README.md", *sorted((ROOT / "docs").rglob("*.md")))


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


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


CONSOLES = [block for page in (README, *RUN_HERE) for block in blocks(page, "console") if block.startswith("$ paictl")]


@pytest.mark.parametrize("block", CONSOLES, ids=lambda block: block.splitlines()[0][2:40])
def test_commands_print_what_the_page_shows(block: str, tmp_path: Path) -> None:
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


def test_the_python_example_prints_what_the_page_shows() -> None:
    page = ROOT / "docs" / "scheduler-core.md"
    (example,) = blocks(page, "python")
    (expected,) = blocks(page, "text")
    done = subprocess.run(
        [sys.executable, "-W", "ignore::ResourceWarning", "-c", example],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.stdout == expected, done.stderr
    assert len(example.splitlines()) <= 30


def test_every_command_named_in_readme_and_its_first_pages_exists() -> None:
    named = {
        command
        for page in (README, *RUN_HERE)
        for command in re.findall(r"`(paictl(?: [a-z-]+){1,2})", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 20
    for command in sorted(named):
        words = command.split()[1:]
        code, error = attempt([*words, "--help"])
        assert code == 0, f"{command}: {error}"


def test_every_relative_link_leads_to_a_file() -> None:
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in PAGES
        for target in re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    pages = {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert not {page for page in pages if f"]({page})" not in index}


def test_readme_fits_on_a_few_screens() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 120
