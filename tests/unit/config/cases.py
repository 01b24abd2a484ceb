"""Case files: input files and the problems expected of them, in one readable text.

    a line or more that says what the case is about
    ### hivedscheduler.yaml
    physicalCluster: ...
    ### layout.yaml (escaped)
    Python escapes stand for bytes that text cannot hold: \\xff
    ### expect
    hivedscheduler.yaml:12:5 HVD501
    layout.yaml:1:1 LAY401 info

The expected list is complete: every problem of every severity, in order. Without it none is expected. The severity is
that of the rule unless another one stands behind it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from paictl.config.linting.rules import find_rule
from paictl.config.linting.validate import validate
from paictl.config.reading.load import load_memory
from paictl.config.reading.problem import Problem
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "cases" / "config"
_HEAD = re.compile(r"^### (\S+)( \(escaped\))?\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    path: Path
    files: dict[str, bytes]
    expected: list[str]

    @property
    def name(self) -> str:
        return str(self.path.relative_to(FOLDER))

    @property
    def rule(self) -> str:
        return self.path.parent.name


def read_case(path: Path) -> Case:
    parts = _HEAD.split(path.read_text(encoding="utf-8"))
    files: dict[str, bytes] = {}
    expected: list[str] = []
    for name, escaped, body in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        if name == "expect":
            expected = [line.strip() for line in body.splitlines() if line.strip()]
        elif escaped:
            files[name] = body.encode().decode("unicode_escape").encode("latin-1")
        else:
            files[name] = body.encode()
    return Case(path, files, expected)


def all_cases() -> list[Case]:
    return [read_case(path) for path in sorted(FOLDER.glob("*/*.case"))]


def problems_of(files: dict[str, bytes]) -> list[Problem]:
    return list(validate(load_memory(files)).problems)


def lines_of(problems: list[Problem]) -> list[str]:
    """Problems as case files list them: `file:line:column ID`, with the severity where it is not that of the rule."""
    return [f"{problem.place} {problem.rule}{_other_severity(problem)}" for problem in problems]


def _other_severity(problem: Problem) -> str:
    return "" if problem.severity is find_rule(problem.rule).severity else f" {problem.severity.value}"
