"""What the formats for machines share: paths they can resolve, JSON that any terminal survives, stable fingerprints."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import PurePath

from paictl.config.linting.report.text import Line
from paictl.config.reading.problem import Problem
from paictl.config.secrets.redaction import redacted_line


def json_lines(data: object) -> Iterator[Line]:
    """JSON in ASCII, so that neither a terminal nor a wrong locale can be hurt by what a file holds."""
    for line in json.dumps(data, indent=2).split("\n"):
        yield (("", line),)


def encodable(text: str) -> str:
    """A text that UTF-8 can hold: the bytes of a file name that is no UTF-8 are written as escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def relative(path: str) -> str:
    """A path below the working folder relative to it, others as they are; CI systems show these beside the code."""
    here = os.path.normpath(path)
    if not PurePath(here).is_absolute():
        return here
    below = os.path.relpath(here)
    return here if below.startswith("..") else below


def fingerprints(problems: tuple[Problem, ...]) -> Iterator[str]:
    """A fingerprint for each problem, unique and the same as long as its line does: other lines may come and go.

    It is made of the rule, the file and the text of the line, as reports quote it: from the hash of a line with a
    password, the password could be guessed. Equal ones are counted.
    """
    seen: Counter[str] = Counter()
    for problem in problems:
        line = redacted_line(problem.source, problem.place.line).strip() if problem.source else ""
        parts = "\0".join((problem.rule, relative(problem.place.path), line, str(_column_in_text(problem))))
        digest = hashlib.sha256(parts.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        seen[digest] += 1
        yield f"{digest}:{seen[digest]}"


def _column_in_text(problem: Problem) -> int:
    """The column counted from the first character of the line, so that two places in one line differ."""
    line = problem.source.line(problem.place.line) if problem.source else ""
    return problem.place.column - (len(line) - len(line.lstrip()))
