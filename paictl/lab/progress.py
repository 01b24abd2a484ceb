"""A student's progress: one versioned JSON file, replaced as a whole, one writer at a time."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from paictl.files import lock
from paictl.frozen import frozen
from paictl.lab.messages import LabError, writing

FILE: Final = "progress.json"
VERSION: Final = 2
READABLE: Final = (1, 2)
"""1 had English findings and no times; it is read as it is and written anew as 2."""


@frozen
class Passed:
    """When a check passed (ISO text of the wall clock, milliseconds of the cluster's), and what was found then.

    `findings` holds the rows of `findings.Finding.row`.
    """

    at: str
    clock: int
    findings: list[list[Any]]


@frozen
class Reset:
    """One time that a lab was begun anew: when (ISO text), and back to which step (empty: all of it)."""

    at: str
    step: str = ""


@dataclass(slots=True)
class LabProgress:
    """What a student did in one lab."""

    started: str = ""
    finished: str = ""
    """When the last check passed or was skipped; ISO text, empty before."""
    shown: str = ""
    """The step that was shown last."""
    since: int = 0
    """How many commands had been typed when it was shown."""
    settled: int = 0
    """How many commands had been typed when a check passed last."""
    passed: dict[str, Passed] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)
    """Steps and checks → reason."""
    solved: list[str] = field(default_factory=list)
    """Steps that paictl did for the student."""
    hints: dict[str, int] = field(default_factory=dict)
    """Step → layers of hints that were shown."""
    answers: dict[str, str] = field(default_factory=dict)
    """Number of the question → answer."""
    predictions: dict[str, str] = field(default_factory=dict)
    """Step → what the student foretold before doing it."""
    resets: list[Reset] = field(default_factory=list)
    language: str = ""
    """What ``lab start --lang`` chose for this lab, empty for the student's own."""
    played: bool = False
    """Whether `lab run` typed the commands."""

    def after_reset(self, reset: Reset) -> LabProgress:
        """What stays when the lab is begun anew: answers, and how much help it took."""
        return LabProgress(answers=self.answers, hints=self.hints, language=self.language, resets=[*self.resets, reset])


@dataclass(slots=True)
class Progress:
    """All labs of a student; `current` is the one started or reset last, `language` what the student chose, if any."""

    current: str = ""
    labs: dict[str, LabProgress] = field(default_factory=dict)
    language: str = ""

    def lab(self, name: str) -> LabProgress:
        """The progress in a lab; empty for one that was never started."""
        return self.labs.setdefault(name, LabProgress())


class ProgressFile:
    """The file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE

    def read(self) -> Progress:
        """What is written; raises `LabError` for a file of a newer version or a damaged one."""
        if not self.path.is_file():
            return Progress()
        try:
            data = json.loads(self.path.read_text(encoding="utf-8"))
            if data["version"] in READABLE:
                return _progress(data)
            key, values = "progress-version", {"version": data["version"]}
        except OSError as error:
            key, values = "progress-unreadable", {"reason": error.strerror}
        except (ValueError, KeyError, TypeError, AttributeError):
            key, values = "progress-damaged", {}
        raise LabError(key, hint_key="progress", where=str(self.path), **values)

    @contextmanager
    def changing(self) -> Iterator[Progress]:
        """Read, let the block change it, write; waits for another command that does the same."""
        with writing(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = self.path.with_suffix(".lock").open("w")
        with handle:
            lock(handle)
            progress = self.read()
            yield progress
            with writing(self.path):
                self._write(progress)

    def _write(self, progress: Progress) -> None:
        draft = self.path.with_suffix(".new")
        with draft.open("w", encoding="utf-8") as file:
            json.dump({"version": VERSION, **asdict(progress)}, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.path)


def _progress(data: Mapping[str, Any]) -> Progress:
    labs = {name: lab_progress(row) for name, row in data["labs"].items()}
    return Progress(data["current"], labs, data.get("language", ""))


def lab_progress(row: Mapping[str, Any]) -> LabProgress:
    """The progress in one lab from plain data."""
    passed = {name: Passed(**entry) for name, entry in row["passed"].items()}
    return LabProgress(**{**row, "passed": passed, "resets": [Reset(**reset) for reset in row.get("resets", ())]})
