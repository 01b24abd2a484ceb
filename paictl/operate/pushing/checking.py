"""Whether files may be pushed: judged as the cluster would have them, so that a fragment need not be a whole file."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Final

from paictl.config.linting.validate import Choice, Report, validate
from paictl.config.pushing.configfile import ConfigFile, Files, loaded
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.nodes import MappingNode
from paictl.config.reading.problem import Problem, Severity
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate import RefusedFilesError

EMPTY: Final = "TXT013"
"""The rule about files in which nothing is set: to push one can only be a mistake."""
UNSENT: Final = "the files have errors, so nothing was sent"


def check_alone(files: Files, message: str = UNSENT) -> Report:
    """What the rules say about files as they were written.

    Raises `RefusedFilesError` with `message` for a file that is not readable as what it is: nothing merges into it.
    """
    report = _report(files)
    unreadable = [problem for problem in report.problems if problem.rule.startswith("TXT")]
    _refuse(
        [problem for problem in unreadable if problem.severity is Severity.ERROR or problem.rule == EMPTY],
        report,
        message,
    )
    return report


def check_whole(files: Files, message: str) -> None:
    """Raise `RefusedFilesError` for files with errors that have to stand for themselves: nothing is merged."""
    report = check_alone(files, message)
    _refuse([problem for problem in report.problems if problem.severity is Severity.ERROR], report, message)


def check_merged(alone: Report, merged: Files, before: Files, pushed: Collection[str]) -> tuple[Problem, ...]:
    """The warnings to show for files that are pushed.

    `alone` is what was found in them, `merged` what the cluster would have then, `before` what it has; `pushed` are
    the names of all files in the folder. An error counts unless it is gone in `merged`: what a fragment lacks may
    stand in the cluster. Warnings are those of the files, and whatever is wrong between them and the cluster's other
    files. Raises `RefusedFilesError`.
    """
    if not alone.problems and before.keys() <= set(pushed):
        return ()
    whole = _report(merged)
    whole_problems = {(problem.rule, problem.message) for problem in whole.problems}
    remaining = [problem for problem in alone.problems if (problem.rule, problem.message) in whole_problems]
    _refuse([problem for problem in remaining if problem.severity is Severity.ERROR], alone)
    earlier = {(problem.rule, problem.message) for problem in (*alone.problems, *_report(before).problems)}
    new = [
        problem
        for problem in whole.problems
        if (problem.rule, problem.message) not in earlier and problem.severity is Severity.ERROR
    ]
    return (*remaining, *new)


def _report(files: Files) -> Report:
    return validate(loaded(files), Choice(severity=Severity.WARNING))


def _refuse(errors: list[Problem], report: Report, message: str = UNSENT) -> None:
    if errors:
        paths = {problem.place.path for problem in errors}
        raise RefusedFilesError(
            message,
            Report(tuple(errors), report.files, report.skipped, report.failures),
            hint=text("correct them, see: paictl config validate {path}", path=os.path.commonpath(paths) or "."),
        )


def refuse_twice(files: Files, pushed: Iterable[str]) -> tuple[str, ...]:
    """Raise `PaictlError` where two files set the same service and one of them is pushed: who wins would be chance.

    Comes back with a line for each pair that the cluster has already.
    """
    setters: dict[str, str] = {}
    remarks: dict[tuple[str, str], str] = {}
    fresh = set(pushed)
    for name in sorted(files):
        for key in _services_in(files[name]):
            other = setters.setdefault(key, name)
            if other == name:
                continue
            if not fresh.isdisjoint({name, other}):
                extra = other if name in fresh else name
                raise PaictlError(
                    text(
                        "{other} and {name} both set {key}, but only one of them would take effect",
                        other=other,
                        name=name,
                        key=key,
                    ),
                    hint=text("keep the settings of a service in one file; to remove one: --drop {extra}", extra=extra),
                )
            both = text("the cluster has {other} and {name}, which both set {key}", other=other, name=name, key=key)
            remarks.setdefault((other, name), both)
    return tuple(remarks.values())


def _services_in(file: ConfigFile) -> list[str]:
    if file.kind is FileKind.HIVED:
        return ["hivedscheduler"]
    root = file.root if file.kind is FileKind.SERVICES else None
    return list(root.entries) if isinstance(root, MappingNode) else []
