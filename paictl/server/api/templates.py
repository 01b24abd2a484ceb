"""Job templates: what each user may start from, by the virtual clusters that were granted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from paictl.cluster.templates import JobTemplate, TemplateLibrary
from paictl.i18n import text
from paictl.server.calls import Answer, ApiError, Call, json_answer
from paictl.server.routing import Access, Operation, Route


def visible(call: Call) -> Sequence[TemplateLibrary]:
    """The libraries that the caller may use: all of them for an administrator."""
    template_libraries = call.cluster.template_libraries()
    return (
        template_libraries
        if call.me.admin
        else [library for library in template_libraries if library.is_for(call.me.account.vcs)]
    )


def found_template(call: Call, name: str, path: str) -> tuple[TemplateLibrary, JobTemplate]:
    """A template that the caller may use. Raises `ApiError` for one that is not there, or is another tenant's."""
    for library in visible(call):
        for template in library.templates:
            if (library.name, template.path) == (name, path):
                return library, template
    raise ApiError(404, "NoTemplateError", text("no template {path!r} in {name}", path=path[:80], name=name[:80]))


def libraries(call: Call) -> Answer:
    """All libraries, without the texts of their files."""
    return json_answer([_shown(library) for library in visible(call)])


def _shown(library: TemplateLibrary) -> dict[str, object]:
    rows = [
        {
            "path": entry.path,
            "name": entry.name,
            "description": entry.description,
            "errors": entry.errors,
            "warnings": entry.warnings,
        }
        for entry in library.templates
    ]
    return {"name": library.name, "virtualClusters": list(library.vcs), "revision": library.revision, "templates": rows}


def template(call: Call) -> Answer:
    """The job file of a template."""
    entry = found_template(call, call.path["name"], call.query.get("file", ""))[1]
    return Answer(entry.text.encode(), 200, "text/yaml")


ROUTES: Final = (
    Route(
        "GET", "/api/v2/templates", Access.USER, libraries, Operation("Libraries of job templates", "job"), jobs=True
    ),
    Route(
        "GET",
        "/api/v2/templates/{name}",
        Access.USER,
        template,
        Operation("The job file of a template", "job", (200, 404), query={"file": "string"}, gives="text/yaml"),
        jobs=True,
    ),
)
