"""The file of a lab's manifest, read and checked. Most commands remember what it says and never load this module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import load
from paictl.config.reading.problem import Severity
from paictl.errors import PaictlError
from paictl.i18n import text


def read(path: Path) -> Any:
    """What a manifest says, its shape not checked."""
    return next(load([str(path)], FileKind.LAB).documents).data


def read_checked(path: Path) -> dict[str, Any]:
    """What a manifest says; raises `PaictlError` with its first mistake."""
    loaded = load([str(path)], FileKind.LAB)
    for failure in loaded.failures:
        raise failure
    report = validate(loaded, Choice(severity=Severity.ERROR))
    for problem in report.problems:
        raise PaictlError(
            problem.message,
            where=f"{path}:{problem.place.line}:{problem.place.column}",
            hint=text("all of them: paictl config validate {path}", path=path),
        )
    data = next(loaded.documents).data
    return data if isinstance(data, dict) else {}
