"""Job files → what is submitted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from paictl.cluster.interface import FOREVER as ENDLESS
from paictl.cluster.interface import JobRequest
from paictl.config.linting.validate import Choice, validate
from paictl.config.reading.document import Bundle, Document
from paictl.config.reading.kinds import FileKind
from paictl.config.reading.load import Loaded, is_folder, load, load_memory
from paictl.config.reading.nodes import nearest_node
from paictl.config.reading.problem import Problem, Severity
from paictl.config.reading.source import place_of, read_bytes
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.operate import RefusedFilesError
from paictl.units import FOREVER, Millis, parse_duration
from paictl.workload.fields import JobError, steps_of
from paictl.workload.job import PRIORITIES
from paictl.workload.tags import FIELD, tags_of, with_changes


@frozen
class SubmitOptions:
    """What the command line says instead of the files; `repeat` submits each file so often, as NAME-1, NAME-2, …"""

    vc: str | None = None
    priority: str | None = None
    duration: str | None = None
    name: str | None = None
    repeat: int = 1
    tags: tuple[str, ...] = ()
    """Beside those of the files."""


TYPED: Final = "job.yaml"
"""What a job is called that is in no file."""
MOST_JOBS: Final = 20_000
"""Most jobs of one submission."""

Warn = Callable[[Problem], object]
"""Told what is most likely a mistake, though the job can be submitted; once a file, however often it is submitted."""


def requests_in(
    paths: Iterable[str],
    user: str,
    options: SubmitOptions,
    warn: Warn = lambda _: None,
    read: Mapping[str, Mapping[str, object]] | None = None,
) -> Iterator[JobRequest]:
    """What to submit, in the order of the files; a folder stands for the jobs in it and below.

    `read` are jobs that have been read already, by what stands for their file.

    Raises `RefusedFilesError` for a file with errors, `PaictlError` for an unreadable file and for an invalid option.
    """
    if options.priority is not None and options.priority not in PRIORITIES:
        raise PaictlError(
            text("no priority class {priority!r}", priority=options.priority),
            hint=text("one of: {value}", value=", ".join(PRIORITIES)),
        )
    seconds = None if options.duration is None else parse_duration(options.duration)
    span = None if seconds is None else ENDLESS if seconds == FOREVER else Millis(round(seconds * 1000))
    if options.repeat > MOST_JOBS:
        raise PaictlError(
            text("--repeat {repeat} is too large", repeat=options.repeat),
            hint=text("the limit is {most_jobs} jobs at a time", most_jobs=MOST_JOBS),
        )
    jobs_by_path = {path: [job] for path, job in (read or {}).items()}
    remaining, named = MOST_JOBS, dict[str, str]()
    for path in paths:
        if path not in jobs_by_path:
            jobs_by_path[path] = jobs_in(path, warn)
        if options.name is not None and len(jobs_by_path[path]) > 1:
            raise PaictlError(
                text(
                    "contains {number} jobs, which cannot all be named {name!r}",
                    number=len(jobs_by_path[path]),
                    name=options.name,
                ),
                where=path,
            )
        for job in jobs_by_path[path]:
            data = _tagged(job if options.name is None else {**job, "name": options.name}, options.tags)
            remaining -= options.repeat
            if remaining < 0:
                raise PaictlError(
                    text("these are more than {most_jobs} jobs", most_jobs=MOST_JOBS), hint="submit fewer at a time"
                )
            for number in range(1, options.repeat + 1):
                numbered = data if options.repeat == 1 else {**data, "name": f"{data['name']}-{number}"}
                _check_name(named, str(numbered["name"]), path)
                yield JobRequest(user, numbered, options.vc, options.priority, span)


def _check_name(named: dict[str, str], name: str, path: str) -> None:
    """Raise `PaictlError` for a name that another job of the same submission has (`named`: name → file)."""
    if name in named:
        raise PaictlError(
            text(
                "job {name!r} is submitted twice by this command; it also comes from {other}",
                name=name,
                other=named[name],
            ),
            where=path,
            hint=text("leave one out or rename it; for copies: --repeat N"),
        )
    named[name] = path


def _tagged(job: Mapping[str, object], tags: Sequence[str]) -> Mapping[str, object]:
    """A job with further tags; raises `TagError`."""
    if not tags:
        return job
    present = job.get("extras")
    extras: Mapping[str, object] = present if isinstance(present, Mapping) else {}
    return {**job, "extras": {**extras, FIELD: list(with_changes(tags_of(extras), tags))}}


def jobs_in(path: str, warn: Warn) -> list[Mapping[str, object]]:
    """The data of a job file, or of all job files in a folder; raises `RefusedFilesError` if one has errors."""
    loaded = load([path], None if is_folder(path) else FileKind.JOB)
    for failure in loaded.failures:
        if not (is_folder(path) and failure.where == path):  # the folder itself, of which is said below what it lacks
            raise failure
    jobs = [document for document in loaded.documents if document.kind is FileKind.JOB]
    if not jobs:
        raise PaictlError("this folder contains no job file", where=path, hint="jobs have protocolVersion: 2")
    return _sound(jobs, path, warn)


def place_of_field(paths: Sequence[str], repeat: int, error: JobError) -> str | None:
    """``file:line:column: field`` of what a cluster has refused in one of several jobs; None where it is unknown.

    `paths` and `repeat` are those of the submission; files are read again, which only a refusal costs.
    """
    position = error.request
    if position is None or "-" in paths:
        return None
    for path in paths:
        loaded = load([path], None if is_folder(path) else FileKind.JOB)
        documents = [
            document
            for document in loaded.documents
            if document.kind is FileKind.JOB and isinstance(document.data, dict)
        ]
        if position < len(documents) * repeat:
            top = documents[position // repeat].top
            place = place_of(nearest_node(top, steps_of(error.path)))
            return f"{place.path}:{place.line}:{place.column}: {error.path}"
        position -= len(documents) * repeat
    return None


def job_in_text(data: bytes, warn: Warn, where: str = TYPED) -> Mapping[str, object]:
    """A job that was typed or sent, not read from a file; raises as `jobs_in` does."""
    return _sound(list(load_memory({where: data}, FileKind.JOB).documents), where, warn)[0]


def findings_in(where: str, data: bytes) -> tuple[tuple[Problem, ...], Mapping[str, object]]:
    """What the validator says of such a job, and its data; a text that cannot be read as one is empty."""
    loaded = load_memory({where: data}, FileKind.JOB)
    first = next(iter(loaded.documents), None)
    content = first.data if first is not None else None
    problems = validate(loaded, Choice(severity=Severity.INFO)).problems
    return problems, content if isinstance(content, dict) else {}


def findings(data: bytes) -> tuple[Problem, ...]:
    """What the validator says of such a job; raises `PaictlError` for one that holds too much."""
    return validate(load_memory({TYPED: data}, FileKind.JOB), Choice(severity=Severity.INFO)).problems


def _sound(jobs: Sequence[Document], where: str, warn: Warn) -> list[Mapping[str, object]]:
    """The data of jobs without errors."""
    report = validate(Loaded((Bundle(where, tuple(jobs)),)), Choice(severity=Severity.WARNING))
    if report.count(Severity.ERROR):
        raise RefusedFilesError("cannot be submitted", report, where=where, hint="correct the errors above")
    for problem in report.problems:
        warn(problem)
    sound: list[Mapping[str, object]] = [document.data for document in jobs if isinstance(document.data, dict)]
    if not sound:
        raise PaictlError("is empty: no job is defined", where=where, hint="jobs have protocolVersion: 2")
    return sound


def files_listed(path: Path) -> list[str]:
    """The files that a list names, one a line, relative to the list."""
    lines = read_bytes(str(path)).decode("utf-8", errors="replace").splitlines()
    names = (line.strip() for line in lines)
    return [str(path.parent / name) for name in names if name and not name.startswith("#")]
