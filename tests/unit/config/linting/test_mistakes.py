"""Mistakes as administrators make them: one edit of examples/cluster each, and everything that is said about it.

The cases stand in tests/cases/mistakes: `says` is complete and in order: place, rule, message, hint. `mends` says that
`--fix` gives back the files as they were. A case is good if a stranger would find the mistake at once: the first line
names it, at its place, and no other line is only its consequence. `python -m tests.unit.config.linting.test_mistakes`
writes down what is said now, to be read before it is committed.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from paictl.config.linting.fix import fix
from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.load import load_memory
from tests.conftest import ROOT

FOLDER = ROOT / "tests" / "cases" / "mistakes"
CLUSTER = ROOT / "examples" / "cluster"
Mistake = dict[str, Any]


@cache
def cluster() -> dict[str, bytes]:
    """The files of the example by their names below its folder."""
    files = (path for path in sorted(CLUSTER.rglob("*")) if path.suffix in (".yaml", ".csv"))
    return {str(path.relative_to(CLUSTER)): path.read_bytes() for path in files}


def mistakes(path: Path) -> list[Mistake]:
    """The cases of a file."""
    cases: list[Mistake] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return cases


def made(mistake: Mistake) -> dict[str, bytes]:
    """The files of the example with the mistake made once."""
    name, old, new = mistake["file"], mistake["old"].encode(), mistake["new"].encode()
    files = dict(cluster())
    assert old in files[name], mistake["what"]
    return {**files, name: files[name].replace(old, new, 1)}


def said(files: dict[str, bytes]) -> list[str]:
    """What the rules say of the files."""
    problems = validate(load_memory(files)).problems
    return [f"{one.place} {one.rule} {one.message} => {one.hint}" for one in problems]


def mended(files: dict[str, bytes]) -> bool:
    """Whether all repairs together lead back to the example."""
    return {file.path: file.after for file in fix(load_memory(files), Choice()).files} == cluster()


CASES = [
    pytest.param(one, id=f"{path.stem}: {one['what']}") for path in FOLDER.glob("*.yaml") for one in mistakes(path)
]


@pytest.mark.parametrize("mistake", CASES)
def test_a_mistake_is_named_where_it_was_made(mistake: Mistake) -> None:
    files = made(mistake)
    assert said(files) == mistake["says"]
    assert mended(files) == mistake.get("mends", False)


def test_the_example_itself_is_clean() -> None:
    assert said(cluster()) == []


def main() -> None:
    """Write down what is said now."""
    for path in FOLDER.glob("*.yaml"):
        head = path.read_text(encoding="utf-8").partition("\n")[0]
        lines = [head]
        for case in mistakes(path):
            lines.append(f"- what: {case['what']}")
            lines += [f"  {key}: {json.dumps(case[key])}" for key in ("file", "old", "new")]
            lines += ["  says:", *(f"  - {json.dumps(one)}" for one in said(made(case)))]
            lines += ["  mends: true"] if mended(made(case)) else []
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
