"""The page of jobs."""

from __future__ import annotations

from typing import Final

from paictl.server.calls import Answer, Call
from paictl.server.portal.rendering import page
from paictl.server.routing import Route, Told, Who


def jobs(call: Call) -> Answer:
    """The list."""
    return page(call, "jobs.html", {"title": "Jobs", "here": "/jobs"})


ROUTES: Final = (Route("GET", "/jobs", Who.USER, jobs, Told("The list of jobs")),)
