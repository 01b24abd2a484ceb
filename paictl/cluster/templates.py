"""Libraries of job templates: job files that an administrator has given to virtual clusters.

A cluster holds the texts themselves, never where to fetch them: no server of ours reads a repository
(`docs/templates.md`). What a library may hold is bounded here, so that it fits into one object of Kubernetes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, field
from typing import Any, Final

from paictl.cluster.values import ClusterError, ConflictError
from paictl.frozen import frozen
from paictl.i18n import did_you_mean, text

EVERY_VC: Final = "*"
"""Among the virtual clusters of a library: all of them."""
MOST_LIBRARIES: Final = 20
MOST_TEMPLATES: Final = 200
"""Of a library."""
MOST_BYTES: Final = 900_000
"""Of a library as JSON: a ConfigMap holds no more than 1 MiB."""
_NAME: Final = r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?"
_PATH: Final = r"[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+){0,9}"
LONGEST_PATH: Final = 200


@frozen
class JobTemplate:
    """A job file: its `path` in the library, and what the validator said when it was read."""

    path: str
    text: str = field(repr=False)
    name: str = ""
    """The name of its job."""
    description: str = ""
    errors: int = 0
    warnings: int = 0


@frozen
class TemplateLibrary:
    """Job files under one name. `revision` is the commit of the checkout that they were read from, if it was one."""

    name: str
    vcs: tuple[str, ...]
    templates: tuple[JobTemplate, ...] = ()
    revision: str = ""

    def is_for(self, vcs: Iterable[str]) -> bool:
        """Whether somebody with jobs in one of these virtual clusters may use it."""
        return EVERY_VC in self.vcs or not set(self.vcs).isdisjoint(vcs)


def is_path(word: str) -> bool:
    """Whether a file can be a template by its path: letters, digits and ``_ . + -`` between slashes, no dots alone."""
    parts = word.split("/")
    return len(word) <= LONGEST_PATH and re.fullmatch(_PATH, word) is not None and not {".", ".."} & {*parts}


def check(library: TemplateLibrary) -> TemplateLibrary:
    """The library; raises `ClusterError` for one that no cluster keeps."""
    if not re.fullmatch(_NAME, library.name):
        raise ClusterError(
            text("{name!r} cannot be the name of a template library", name=library.name[:80]),
            hint=text("use up to 40 lower case letters, digits and -"),
        )
    if len(library.templates) > MOST_TEMPLATES:
        raise ClusterError(
            text(
                "{count} templates are too many; a library can have {most}",
                count=len(library.templates),
                most=MOST_TEMPLATES,
            ),
            hint=text("give a folder with fewer job files"),
        )
    size = len(library_text(library).encode())
    if size > MOST_BYTES:
        raise ClusterError(
            text("the templates have {size:,} bytes; a library can have {most:,}", size=size, most=MOST_BYTES),
            hint=text("give a folder with fewer job files"),
        )
    return library


def library_named(libraries: Sequence[TemplateLibrary], name: str) -> TemplateLibrary:
    """A library by its name; raises `ClusterError` with the nearest name if there is none."""
    for library in libraries:
        if library.name == name:
            return library
    names = [library.name for library in libraries]
    hint = did_you_mean(name, names) or text("list them with: paictl template list")
    raise ClusterError(text("no template library {name!r}", name=name[:80]), hint=hint)


def template_named(libraries: Sequence[TemplateLibrary], word: str) -> tuple[TemplateLibrary, JobTemplate]:
    """The template that ``LIBRARY/PATH`` names; the ending ``.yaml`` may be left out. Raises `ClusterError`."""
    name, _, path = word.partition("/")
    library = library_named(libraries, name)
    for template in library.templates:
        if template.path in (path, f"{path}.yaml", f"{path}.yml"):
            return library, template
    hint = did_you_mean(path, [template.path for template in library.templates]) or text(
        "list them with: paictl template show {name}", name=name
    )
    raise ClusterError(text("no template {path!r} in {name}", path=path[:80], name=name), hint=hint)


def with_library(
    libraries: Sequence[TemplateLibrary], library: TemplateLibrary, *, new: bool
) -> tuple[TemplateLibrary, ...]:
    """All libraries with one added (`new`), or put in the place of the one of its name. Raises `ClusterError`."""
    others = tuple(known for known in libraries if known.name != library.name)
    if new and len(others) < len(libraries):
        raise already_there(library.name)
    if not new:
        library_named(libraries, library.name)
    if len(others) >= MOST_LIBRARIES:
        raise ClusterError(text("a cluster can have {most} template libraries", most=MOST_LIBRARIES))
    return tuple(sorted((*others, check(library)), key=lambda library: library.name))


def already_there(name: str) -> ConflictError:
    """The refusal of a name that is taken."""
    return ConflictError(
        text("template library {name!r} already exists", name=name),
        hint=text("to read its files again: paictl template sync {name} FOLDER", name=name),
    )


def library_text(library: TemplateLibrary) -> str:
    """A library as JSON."""
    return json.dumps(asdict(library), ensure_ascii=False)


def library_from(written: str) -> TemplateLibrary:
    """The inverse of `library_text`; raises `ClusterError` for a text that is none."""
    try:
        return _library(json.loads(written))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ClusterError(
            text("the template library is damaged"), hint=text("remove it, and add it again: paictl template add")
        ) from None


def _library(row: dict[str, Any]) -> TemplateLibrary:
    templates = tuple(JobTemplate(**template) for template in row["templates"])
    return TemplateLibrary(str(row["name"]), tuple(map(str, row["vcs"])), templates, str(row["revision"]))
