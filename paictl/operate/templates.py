"""Job templates: read from a folder of the administrator's, given to virtual clusters, and made jobs of.

Only the command line reads a folder, as the user who runs it. Links are not followed, what is not a job file is left
out, nothing in the folder is run, and all of it is bounded, because others write to the repository.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from paictl.cluster.interface import Scheduling, Templated
from paictl.cluster.templates import (
    EVERY_VC,
    MOST_TEMPLATES,
    JobTemplate,
    TemplateLibrary,
    check,
    is_path,
    library_named,
    template_named,
)
from paictl.config.reading.problem import Problem, Severity
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text
from paictl.operate.jobfiles import Warn, findings_in, job_in_text
from paictl.operate.users.accounts import check_vcs

MOST_FILE: Final = 128 * 1024
"""Bytes of a template."""
MOST_ENTRIES: Final = 20_000
"""Files and folders that are looked at."""
_DESCRIBED: Final = 200
"""Characters of a description that are kept."""
_LONGEST_VALUE: Final = 4096
_JOB: Final = re.compile(r"""^["']?protocolVersion["']?[ \t]*:""", re.MULTILINE)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


class TemplatePorts(Scheduling, Templated, Protocol):
    """What template libraries need of a cluster."""


@frozen
class FolderRead:
    """The templates in a folder, their findings by path, and what was left out and why."""

    templates: tuple[JobTemplate, ...]
    problems: Mapping[str, tuple[Problem, ...]]
    skipped: tuple[tuple[str, str], ...]
    revision: str


def read_folder(folder: Path) -> FolderRead:
    """All job files below a folder; raises `PaictlError` if it cannot be read, or has none."""
    if not folder.is_dir():
        raise PaictlError(text("not a folder"), where=str(folder), hint=text("give a folder with job files"))
    templates: list[JobTemplate] = []
    problems: dict[str, tuple[Problem, ...]] = {}
    skipped: list[tuple[str, str]] = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        data = _content(path)
        if isinstance(data, str):
            skipped.append((name, data))
            continue
        if not _JOB.search(data.decode("utf-8", errors="replace")):
            continue
        if not is_path(name):
            skipped.append((name, text("its path has other characters than letters, digits and _ . + -")))
            continue
        if len(templates) == MOST_TEMPLATES:
            raise PaictlError(
                text("there are more than {most} job files", most=MOST_TEMPLATES),
                where=str(folder),
                hint=text("give a folder with fewer job files"),
            )
        template, problems[name] = _judged(name, data)
        templates.append(template)
    if not templates:
        raise PaictlError(text("no job file found"), where=str(folder), hint=text("job files have protocolVersion: 2"))
    templates.sort(key=lambda template: template.path)
    return FolderRead(tuple(templates), problems, tuple(skipped), _revision(folder))


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder that may be job files, by name; links and hidden folders are not entered."""
    remaining = MOST_ENTRIES
    for directory, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        remaining -= len(folders) + len(files)
        if remaining < 0:
            raise PaictlError(
                text("the folder has more than {most:,} files", most=MOST_ENTRIES),
                where=str(folder),
                hint=text("give a folder with fewer files"),
            )
        yield from (Path(directory, name) for name in sorted(files) if name.endswith((".yaml", ".yml")))


def _content(path: Path) -> bytes | str:
    """The bytes of a file, or why it is left out."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        return text("it is a link") if path.is_symlink() else str(error.strerror)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return text("it is not a regular file")
        data = file.read(MOST_FILE + 1)
    if len(data) > MOST_FILE:
        return text("it has more than {most:,} bytes", most=MOST_FILE)
    return data


def _judged(path: str, data: bytes) -> tuple[JobTemplate, tuple[Problem, ...]]:
    """A template with the number of its findings, and these."""
    problems, job = findings_in(path, data)
    errors, warnings = (sum(problem.severity is s for problem in problems) for s in (Severity.ERROR, Severity.WARNING))
    name, described = (" ".join(str(job.get(key) or "").split())[:_DESCRIBED] for key in ("name", "description"))
    shown = tuple(problem for problem in problems if problem.severity in (Severity.ERROR, Severity.WARNING))
    content = data.decode("utf-8", errors="replace")
    return JobTemplate(path, content, name, described, errors, warnings), shown


def _revision(folder: Path) -> str:
    """The commit of a checkout, read from its files: no program is run in a folder to which others write."""
    git = folder / ".git"
    head = _line(git / "HEAD")
    if not head.startswith("ref: refs/"):
        return head if _COMMIT.fullmatch(head) else ""
    name = head.removeprefix("ref: ")
    if ".." in name:
        return ""
    commit = _line(git / name)
    if not commit:
        packed = _content(git / "packed-refs")
        lines = packed.decode("utf-8", errors="replace").splitlines() if isinstance(packed, bytes) else ()
        commit = next((line.partition(" ")[0] for line in lines if line.endswith(f" {name}")), "")
    return commit if _COMMIT.fullmatch(commit) else ""


def _line(path: Path) -> str:
    data = _content(path) if path.is_file() else b""
    return data.decode("utf-8", errors="replace").strip() if isinstance(data, bytes) else ""


def add(cluster: TemplatePorts, name: str, folder: FolderRead, vcs: Sequence[str]) -> TemplateLibrary:
    """Add a library. Raises `ClusterError` for a virtual cluster that is not there and a name that is taken."""
    check_vcs(cluster, (vc for vc in vcs if vc != EVERY_VC))
    library = check(TemplateLibrary(name, tuple(dict.fromkeys(vcs)), folder.templates, folder.revision))
    cluster.put_template_library(library, new=True)
    return library


def sync(cluster: TemplatePorts, name: str, folder: FolderRead, vcs: Sequence[str] = ()) -> TemplateLibrary:
    """Replace the files of a library, and the virtual clusters that may use it where some are given."""
    template_library = library_named(cluster.template_libraries(), name)
    check_vcs(cluster, (vc for vc in vcs if vc != EVERY_VC))
    chosen = tuple(dict.fromkeys(vcs)) or template_library.vcs
    library = check(TemplateLibrary(name, chosen, folder.templates, folder.revision))
    cluster.put_template_library(library, new=False)
    return library


def job_from(
    cluster: Templated, word: str, settings: Mapping[str, str], warn: Warn
) -> tuple[str, Mapping[str, object]]:
    """Where a template stands, as ``LIBRARY/PATH``, and its job with some parameters set.

    A job that names no virtual cluster is for that of its library, if there is only one. Raises `RefusedFilesError` for
    a template with errors, `PaictlError` for a parameter that it does not have.
    """
    library, template = template_named(cluster.template_libraries(), word)
    where = f"{library.name}/{template.path}"
    job = dict(with_parameters(job_in_text(template.text.encode(), warn, where), settings))
    defaults = job.get("defaults")
    defaults = dict(defaults) if isinstance(defaults, Mapping) else {}
    if "virtualCluster" not in defaults and len(library.vcs) == 1 and EVERY_VC not in library.vcs:
        job["defaults"] = {**defaults, "virtualCluster": library.vcs[0]}
    return where, job


def with_parameters(job: Mapping[str, object], settings: Mapping[str, str]) -> Mapping[str, object]:
    """A job with other values for some of its parameters; a number stays a number. Raises `PaictlError`."""
    declared = job.get("parameters")
    parameters: dict[str, object] = dict(declared) if isinstance(declared, Mapping) else {}
    for name, value in settings.items():
        if name not in parameters:
            names = list(map(str, parameters))
            hint = text("its parameters: {names}", names=", ".join(names)) if names else text("it has no parameters")
            raise PaictlError(text("no parameter {name!r}", name=name), hint=did_you_mean(name, names) or hint)
        if len(value) > _LONGEST_VALUE:
            raise PaictlError(
                text("the value of {name} has more than {most:,} characters", name=name, most=_LONGEST_VALUE)
            )
        parameters[name] = _as(name, parameters[name], value)
    return {**job, "parameters": parameters} if settings else job


def _as(name: str, old: object, value: str) -> object:
    """A value of the kind that the template has."""
    if isinstance(old, bool):
        if value not in ("true", "false"):
            raise PaictlError(text("{name} must be true or false, not {value!r}", name=name, value=value))
        return value == "true"
    if isinstance(old, int | float):
        for kind in (int, float):
            try:
                return kind(value)
            except ValueError:
                continue
        raise PaictlError(text("{name} must be a number, not {value!r}", name=name, value=value))
    return value
