"""The page of job templates, each of which fills the page on which a job is written."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from paictl.cluster.templates import EVERY_VC, JobTemplate, TemplateLibrary
from paictl.server.api.templates import visible
from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import page
from paictl.server.routing import Access, Operation, Route


def templates(call: Call) -> Answer:
    """The templates that the caller may use."""
    libraries = visible(call)
    values = {"title": "Templates", "here": "/templates", "libraries": libraries, "start": _start,
              "every": EVERY_VC}  # fmt: skip
    return page(call, "templates.html", values)


def _start(library: TemplateLibrary, template: JobTemplate) -> str:
    """The page that a template fills."""
    return f"/submit?{urlencode({'template': library.name, 'file': template.path})}"


ROUTES: Final = (Route("GET", "/templates", Access.USER, templates, Operation("Job templates")),)
