"""All routes of the server in one table."""

from __future__ import annotations

from paictl.server import openapi
from paictl.server.api import info, jobs, maintenance, tokens, usage, users, vcs
from paictl.server.portal import pages
from paictl.server.routing import Route
from paictl.server.signing import SignIns


def routes() -> tuple[Route, ...]:
    """API and portal; a path without variables goes before one with them."""
    sign_ins = SignIns()
    api = (
        *info.ROUTES, *tokens.routes(sign_ins), *users.routes(sign_ins), *vcs.ROUTES, *usage.ROUTES,
        *maintenance.ROUTES, *jobs.ROUTES,
    )  # fmt: skip
    return (*api, openapi.route_of(api), *pages.routes(sign_ins))
