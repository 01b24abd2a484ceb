"""All routes of the server in one table."""

from __future__ import annotations

from paictl.server import openapi
from paictl.server.api import defrag, info, jobs, maintenance, oidc, tokens, usage, users, vcs
from paictl.server.federation import Federation
from paictl.server.portal import pages
from paictl.server.portal.usage import UsageHistory
from paictl.server.routing import Route
from paictl.server.signing import SignIns


def routes(history: UsageHistory | None = None, federation: Federation | None = None) -> tuple[Route, ...]:
    """API and portal; a path without variables goes before one with them.

    `history` is what the home page remembers, `federation` the OpenID provider.
    """
    sign_ins, federation = SignIns(), federation or Federation()
    api = (
        *info.ROUTES,
        *tokens.routes(sign_ins),
        *oidc.routes(federation),
        *users.routes(sign_ins),
        *vcs.ROUTES,
        *usage.ROUTES,
        *maintenance.ROUTES,
        *defrag.ROUTES,
        *jobs.ROUTES,
    )
    return (*api, openapi.route_of(api), *pages.routes(sign_ins, history or UsageHistory(), federation))
