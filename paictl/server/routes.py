"""All routes of the server in one table."""

from __future__ import annotations

from paictl.server.api import info, tokens
from paictl.server.portal import jobs as jobs_page
from paictl.server.portal import session
from paictl.server.routing import Route
from paictl.server.signing import SignIns


def routes() -> tuple[Route, ...]:
    """API and portal; the first that fits a path answers."""
    sign_ins = SignIns()
    return (
        *info.ROUTES,
        *tokens.routes(sign_ins),
        session.sign_in_with(sign_ins),
        *session.ROUTES,
        *jobs_page.ROUTES,
    )
