"""A student's progress: one versioned JSON file, replaced as a whole, one writer at a time."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from paictl.lab.errors import LabError, writing

FILE: Final = "progress.json"
VERSION: Final = 1


@dataclass(slots=True)
class Passed:
    """When a check passed (ISO text of the wall clock, milliseconds of the cluster's), and what was found then.

    `findings` holds (subject, aspect, expected, observed).
    """

    at: str
    clock: int
    findings: list[list[str]]


@dataclass(slots=True)
class LabProgress:
    """What a student did in one lab."""

    started: str = ""
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
    played: bool = False
    """Whether `lab run` typed the commands."""


@dataclass(slots=True)
class Progress:
    """All labs of a student; `current` is the one started or reset last, `language` that of the last start."""

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
            if data["version"] == VERSION:
                return _progress(data)
            version = data["version"]
            said = (
                f"was written by another version of paictl (file version {version})",
                f"由另一版本的 paictl 写入（文件版本 {version}）",
            )
        except OSError as error:
            said = (f"cannot be read: {error.strerror}", f"无法读取：{error.strerror}")
        except (ValueError, KeyError, TypeError, AttributeError):
            said = ("is damaged", "已损坏")
        raise LabError(said, (
            "move it away: the labs' clusters stay, and checks are judged anew",
            "请将它移走：实验集群会保留，检查会重新判定",
        ), where=str(self.path))  # fmt: skip

    @contextmanager
    def changing(self) -> Iterator[Progress]:
        """Read, let the block change it, write; waits for another command that does the same."""
        with writing(self.path):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = self.path.with_suffix(".lock").open("w")
        with lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
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
    return Progress(data["current"], {name: _lab(row) for name, row in data["labs"].items()}, data.get("language", ""))


def _lab(row: Mapping[str, Any]) -> LabProgress:
    return LabProgress(**{**row, "passed": {name: Passed(**passed) for name, passed in row["passed"].items()}})
