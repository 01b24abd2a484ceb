"""Doing a step: the student's files are copied and edited as a manifest says, then its commands are carried out.

Commands go through the real command line, which `paictl.cli.lab` provides as a `Runner`: there is no second one.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

from paictl.lab.commandlog import TypedCommand
from paictl.lab.manifest import Act, Lab
from paictl.lab.messages import LabError
from paictl.lab.site import renamed

Runner = Callable[[str], TypedCommand]
"""Carries out a command line in a lab and tells how it ended."""


def prepare(lab: Lab, act: Act, folder: Path) -> list[str]:
    """Copy and edit the student's files as an act says; the differences, as lines of a unified diff.

    What is copied names machines as they are called where the lab runs. Raises `LabError` where an edit finds no place.
    """
    before: dict[str, str] = {}
    for name, source in act.copies.items():
        path = folder / name
        before.setdefault(name, _text(path))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(renamed((lab.folder / source).read_text(encoding="utf-8"), lab.words), encoding="utf-8")
    for edit in act.edits:
        path = folder / edit.file
        text = _text(path)
        before.setdefault(edit.file, text)
        if text.count(edit.find) != 1:
            raise LabError("no-place", where=str(path), text=edit.find, times=text.count(edit.find))
        path.write_text(text.replace(edit.find, edit.write), encoding="utf-8")
    return [line for name, old in before.items() for line in _difference(name, old, _text(folder / name))]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _difference(name: str, old: str, new: str) -> list[str]:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), name, name, n=1, lineterm="")
    return list(lines)
