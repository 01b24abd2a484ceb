"""All pages of the portal in one table."""

from __future__ import annotations

from paictl.server.federation import Federation
from paictl.server.portal import account, admin, cluster, home, hours, jobs, session, submit, why
from paictl.server.portal.usage import UsageHistory
from paictl.server.routing import Route
from paictl.server.signing import SignIns
from paictl.server.tasks.access import TaskSite, open_route


def routes(
    sign_ins: SignIns, history: UsageHistory, federation: Federation, tasks: TaskSite | None = None
) -> tuple[Route, ...]:
    """The pages.

    `sign_ins` counts the passwords that are tried at them, `history` is what has been used, `federation` is the OpenID
    provider, `tasks` is where what tasks serve is shown.
    """
    return (
        *session.sign_in_routes(sign_ins, federation),
        *session.federated_routes(federation),
        account.password_with(sign_ins),
        *session.ROUTES,
        *home.routes(history),
        *jobs.ROUTES,
        *jobs.routes(tasks),
        *([open_route(tasks)] if tasks is not None else []),
        *why.ROUTES,
        *submit.ROUTES,
        *cluster.ROUTES,
        *hours.ROUTES,
        *account.ROUTES,
        *admin.ROUTES,
    )
