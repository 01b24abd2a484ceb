"""All routes of the server in one table."""

from __future__ import annotations

from paictl.server.api import info, tokens
from paictl.server.portal import pages
from paictl.server.routing import Route
from paictl.server.signing import SignIns


def routes() -> tuple[Route, ...]:
    """API and portal; the first that fits a path answers."""
    sign_ins = SignIns()
    return (
        *info.ROUTES,
        *tokens.routes(sign_ins),
        *pages.routes(sign_ins),
    )
