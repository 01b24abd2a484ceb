"""Who may ask for what: every route of the table, walked with everybody."""

from __future__ import annotations

import re

import pytest

from paictl.server.routing import Access, Route, Router
from paictl.server.serving import routes
from tests.unit.server.conftest import Server

ROUTES = routes()


def address(route: Route, user: str) -> str:
    values = {"user": user, "file": "portal.css"}
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "nothing"), route.path)


def ask(server: Server, route: Route, user: str, path: str, token: str = "") -> int:
    reply = server.ask(
        route.method,
        path,
        token=token or server.token(user),
        body=b"{}" if route.reads_body else b"",
        media="application/json",
        headers={"accept": "application/json"},
    )
    return reply.status


@pytest.fixture(scope="module")
def application(shared: Server) -> str:
    """A token for jobs, of an administrator."""
    return str(shared.send("POST", "/api/v2/tokens/application", {}, "root").data["token"])


@pytest.mark.parametrize(
    "route", [one for one in ROUTES if one.who is not Access.ANYBODY], ids=lambda one: f"{one.method} {one.path}"
)
def test_nobody_gets_through_who_may_not(shared: Server, application: str, route: Route) -> None:
    """Strangers get 401 (a page sends them to sign in), the wrong user 403, whatever else is wrong with the request."""
    path = address(route, "bob")
    assert ask(shared, route, "", path) == 401
    assert ask(shared, route, "", path, token="pai-" + "A" * 43) == 401
    if route.who is not Access.USER:
        assert ask(shared, route, "ann", path) == 403
    if not route.jobs:
        assert ask(shared, route, "", path, token=application) == 403


def test_the_owner_and_administrators_get_through(server: Server) -> None:
    for route in ROUTES:
        if route.who in (Access.OWNER, Access.ADMIN):
            path = address(route, "ann" if route.who is Access.OWNER else "bob")
            for user in ("root", "ann") if route.who is Access.OWNER else ("root",):
                assert ask(server, route, user, path) not in (401, 403), (route.path, user)


def test_what_anybody_may_ask_is_known_and_short() -> None:
    public = {f"{route.method} {route.path}" for route in ROUTES if route.who is Access.ANYBODY}
    assert public <= {
        "GET /api/v2/info",
        "GET /health",
        "GET /openapi.json",
        "POST /api/v2/authn/basic/login",
        "POST /api/v2/token",
        "GET /sign-in",
        "POST /sign-in",
        "POST /preferences",
        "GET /static/{file}",
        "GET /sign-in/oidc",
        "GET /sign-in/oidc/callback",
        "GET /api/v2/authn/oidc",
        "POST /api/v2/authn/oidc/login",
    }


def test_a_route_with_a_user_in_its_path_says_whose_it_is() -> None:
    """A new route cannot forget to ask: what names a user is the owner's or an administrator's."""
    for route in ROUTES:
        if "{user}" in route.path:
            assert route.who in (Access.OWNER, Access.ADMIN), route.path
    assert len(Router(ROUTES).routes) == len(ROUTES)
