"""Signing in by an OpenID provider for programs: where it is, and a token of ours for one of its tokens."""

from __future__ import annotations

from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import in_language, text
from paictl.operate.users.tokens import TokenKind, issue
from paictl.remote.oidc.provider import ProviderTokens
from paictl.server.calls import Answer, ApiError, Call, bad, json_answer
from paictl.server.federation import LINE, Federation
from paictl.server.routing import Access, Operation, Route

_LOGIN: Final = {
    "type": "object", "required": ["id_token"],
    "properties": {"id_token": {"type": "string"}, "access_token": {"type": "string"}},
}  # fmt: skip


def refused(error: PaictlError, language: str) -> ApiError:
    """The answer to a token that is not accepted."""
    more = {"hint": in_language(error.hint, language)} if error.hint else {}
    return ApiError(401, "UnauthorizedUserError", error.message, **more)


def routes(federation: Federation) -> tuple[Route, ...]:
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

    takes = {"application/json": _LOGIN, "application/x-www-form-urlencoded": _LOGIN}
    return (
        Route(
            "GET", "/api/v2/authn/oidc", Access.ANYBODY, described,
            Operation("The OpenID provider", "authn", answers=(200, 404)),
        ),
        Route(
            "POST", "/api/v2/authn/oidc/login", Access.ANYBODY, login,
            Operation("Sign in with a token of the provider", "authn", takes=takes, answers=(200, 400, 401, 404)),
            slow=True,
            line=LINE,
        ),
    )  # fmt: skip
