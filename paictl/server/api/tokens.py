"""Sign-in of programs, and their tokens: of each only the hash is kept, so that lists have ids.

By an OpenID provider, too: where it is, and a token of ours for one of its tokens.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from paictl.cluster.accounts import Token
from paictl.errors import PaictlError
from paictl.i18n import in_language, text
from paictl.operate.users.tokens import SPANS, TokenKind, id_of, issue, revoke
from paictl.remote.oidc.provider import ProviderTokens
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer, message_answer
from paictl.server.federation import LINE, Federation
from paictl.server.routing import Access, Handler, Operation, Route
from paictl.server.signing import SignIns

_LOGIN: Final = {
    "type": "object",
    "required": ["username", "password"],
    "properties": {
        "username": {"type": "string"},
        "password": {"type": "string", "format": "password"},
        "expiration": {"type": "integer", "minimum": 1, "description": "Seconds, at most 30 days."},
    },
}


def login_with(sign_ins: SignIns) -> Handler:
    """The handler of a sign-in."""

    def login(call: Call) -> Answer:
        fields = call.fields()
        user, password = fields.get("username"), fields.get("password")
        if not isinstance(user, str) or not isinstance(password, str):
            raise bad(text("username and password are missing"))
        span = _span(fields)
        account = sign_ins.account(call, user, password)
        token = issue(call.cluster.users, account, TokenKind.LOGIN, span)
        return json_answer({"token": token, "user": account.name, "admin": account.admin, "hasGrafana": False})

    return login


def _span(fields: Mapping[str, Any]) -> timedelta | None:
    given = fields.get("expiration")
    if given is None:
        return SPANS[TokenKind.LOGIN]
    if not (isinstance(given, int | str) and str(given).isascii() and str(given).isdigit() and len(str(given)) < 10):
        raise bad(text("expiration must be a number of seconds"))
    return timedelta(seconds=int(given))


def logout(call: Call) -> Answer:
    """The token that was shown is worth nothing from now on."""
    call.cluster.users.remove_tokens([call.me.token.digest])
    return message_answer("Logout successfully")


def tokens(call: Call) -> Answer:
    """The caller's tokens by id."""
    issued = call.cluster.users.tokens(call.me.name)
    return json_answer(
        {"tokens": [id_of(token) for token in issued], "details": [_data(call, token) for token in issued]}
    )


def _data(call: Call, token: Token) -> dict[str, Any]:
    return {
        "id": id_of(token),
        "kind": token.kind,
        "created": token.created.isoformat(),
        "expires": token.expires.isoformat() if token.expires else None,
        "current": token.digest == call.me.token.digest,
    }


def application(call: Call) -> Answer:
    """A token for a program that submits jobs."""
    return json_answer(
        {"token": issue(call.cluster.users, call.me.account, TokenKind.APPLICATION), "application": True}
    )


def revoked(call: Call) -> Answer:
    """A token of the caller's is worth nothing from now on; it is named by its id or by itself."""
    if not revoke(call.cluster.users, call.me.name, call.path["token"]):
        raise ApiError(403, "ForbiddenUserError", text("you have no such token"))
    return message_answer("revoke successfully")


def routes(sign_ins: SignIns) -> tuple[Route, ...]:
    """The routes of this module."""

    def form(summary: str) -> Operation:
        return Operation(
            summary,
            "authn",
            takes={
                "application/x-www-form-urlencoded": _LOGIN,
                "application/json": _LOGIN,
            },
            answers=(200, 400, 429),
        )

    return (
        Route("POST", "/api/v2/authn/basic/login", Access.ANYBODY, login_with(sign_ins), form("Sign in"), slow=True),
        Route(
            "DELETE",
            "/api/v2/authn/basic/logout",
            Access.USER,
            logout,
            Operation("Sign out", "authn"),
            jobs=True,
        ),
        Route(
            "POST", "/api/v2/token", Access.ANYBODY, login_with(sign_ins), form("Sign in, by its old name"), slow=True
        ),
        Route("GET", "/api/v2/tokens", Access.USER, tokens, Operation("Your tokens, by id", "token")),
        Route(
            "POST",
            "/api/v2/tokens/application",
            Access.USER,
            application,
            Operation("A token for jobs only", "token"),
        ),
        Route("DELETE", "/api/v2/tokens/{token}", Access.USER, revoked, Operation("Revoke a token", "token")),
    )


# --- by an OpenID provider

_PROVIDER_LOGIN: Final = {
    "type": "object",
    "required": ["id_token"],
    "properties": {"id_token": {"type": "string"}, "access_token": {"type": "string"}},
}


def refused(error: PaictlError, language: str) -> ApiError:
    """The answer to a token that is not accepted."""
    more = {"hint": in_language(error.hint, language)} if error.hint else {}
    return ApiError(401, "UnauthorizedUserError", error.message, **more)


def provider_routes(federation: Federation) -> tuple[Route, ...]:
    """The routes of this module."""

    def described(call: Call) -> Answer:
        """What a program needs to sign a user in."""
        settings, _ = federation.provider(call.cluster)
        return json_answer({"issuer": settings.issuer, "clientId": settings.client, "scopes": list(settings.scopes)})

    def login(call: Call) -> Answer:
        """A token of ours; that of the provider is not kept."""
        fields = call.fields()
        given, access = fields.get("id_token"), fields.get("access_token", "")
        if not isinstance(given, str) or not isinstance(access, str):
            raise bad(text("id_token is missing"))
        federation.provider(call.cluster)
        try:
            account = federation.account(call.cluster, ProviderTokens(given, access))
        except PaictlError as error:
            raise refused(error, call.language) from None
        token = issue(call.cluster.users, account, TokenKind.LOGIN)
        return json_answer({"token": token, "user": account.name, "admin": account.admin})

    takes = {"application/json": _PROVIDER_LOGIN, "application/x-www-form-urlencoded": _PROVIDER_LOGIN}
    return (
        Route(
            "GET",
            "/api/v2/authn/oidc",
            Access.ANYBODY,
            described,
            Operation("The OpenID provider", "authn", answers=(200, 404)),
        ),
        Route(
            "POST",
            "/api/v2/authn/oidc/login",
            Access.ANYBODY,
            login,
            Operation("Sign in with a token of the provider", "authn", takes=takes, answers=(200, 400, 401, 404)),
            slow=True,
            line=LINE,
        ),
    )
