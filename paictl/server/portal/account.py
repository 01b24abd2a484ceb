"""One's own account: granted virtual clusters, password, tokens."""

from __future__ import annotations

from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.users.accounts import set_password
from paictl.operate.users.tokens import SPANS, TokenKind, id_of, issue, revoke
from paictl.server.calls import Answer, ApiError, Call, redirect
from paictl.server.credentials import session_cookie
from paictl.server.portal.rendering import page
from paictl.server.routing import Access, Operation, Route
from paictl.server.signing import SignIns


def account(call: Call) -> Answer:
    """The page."""
    return _page(call)


def _page(call: Call, *, error: str = "", fresh: str = "", status: int = 200) -> Answer:
    """`fresh` is a token that was just made: this page is the only one that ever shows it."""
    tokens = [
        {"id": id_of(token), "token": token, "current": token.digest == call.me.token.digest}
        for token in call.cluster.users.tokens(call.me.name)
    ]
    values = {"title": "Account", "here": "/account", "tokens": tokens, "error": error, "fresh": fresh}
    return page(call, "account.html", values, status=status)


def password_with(sign_ins: SignIns) -> Route:
    """The route that changes a password; a wrong old one counts as a failed sign-in."""

    def password(call: Call) -> Answer:
        given = call.fields()
        try:
            proven = sign_ins.account(call, call.me.name, str(given.get("old", "")))
            changed = set_password(call.cluster.users, call.me.name, str(given.get("new", "")), proven)
        except ApiError as error:
            return _page(call, error=error.message, status=error.status)
        except PaictlError as error:
            return _page(call, error=error.message, status=400)
        span = SPANS[TokenKind.SESSION]
        token = issue(call.cluster.users, changed, TokenKind.SESSION)
        seconds = int(span.total_seconds()) if span else 0
        return redirect("/account", session_cookie(token, secure=call.secure, seconds=seconds))

    return Route(
        "POST",
        "/account/password",
        Access.USER,
        password,
        Operation("Another password", answers=(303, 400, 429)),
        slow=True,
    )


def make_token(call: Call) -> Answer:
    """A token for a program that submits jobs."""
    try:
        fresh = issue(call.cluster.users, call.me.account, TokenKind.APPLICATION)
    except PaictlError as error:
        return _page(call, error=f"{error.message}: {text('revoke one below')}", status=400)
    return _page(call, fresh=fresh)


def revoke_token(call: Call) -> Answer:
    """A token is worth nothing from now on."""
    revoke(call.cluster.users, call.me.name, str(call.fields().get("token", "")))
    return redirect("/account")


ROUTES: Final = (
    Route("GET", "/account", Access.USER, account, Operation("Your account")),
    Route("POST", "/account/tokens", Access.USER, make_token, Operation("A token for jobs only")),
    Route("POST", "/account/tokens/revoke", Access.USER, revoke_token, Operation("Revoke a token", answers=(303,))),
)
