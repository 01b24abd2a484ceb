"""Signing in by an OpenID provider in a browser: authorization code with PKCE (RFC 7636)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.operate.users.tokens import SPANS, TokenKind, issue
from paictl.server.calls import Answer, ApiError, Call, answer_to, redirect
from paictl.server.credentials import begun_cookie, begun_cookie_name, session_cookie
from paictl.server.federation import BEGUN, LINE, Federation, packed, too_late, unpacked
from paictl.server.portal.rendering import local_address, page
from paictl.server.routing import Access, Operation, Route

START: Final = "/sign-in/oidc"
CALLBACK: Final = "/sign-in/oidc/callback"


def routes(federation: Federation) -> tuple[Route, ...]:
    """There and back."""

    def begin(call: Call) -> Answer:
        """Send the browser to the provider; what it has to bring back is in a cookie."""
        settings, provider = federation.provider(call.cluster)
        verifier, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        address = provider.authorization(
            redirect=_callback(call), state=state, nonce=nonce, challenge=challenge, scopes=" ".join(settings.scopes)
        )  # fmt: skip
        begun = {
            "state": state, "nonce": nonce, "verifier": verifier, "next": local_address(call.query.get("next", "/")),
        }  # fmt: skip
        return redirect(address, begun_cookie(packed(begun), secure=call.secure, seconds=BEGUN))

    def come_back(call: Call) -> Answer:
        """The browser is back: its code for tokens, and these for a session of ours."""
        try:
            begun = unpacked(call.cookies.get(begun_cookie_name(secure=call.secure), ""))
            if not hmac.compare_digest(str(begun["state"]), call.query.get("state", "")):
                raise too_late()
            if "code" not in call.query:
                reason = call.query.get("error_description") or call.query.get("error") or "-"
                raise ApiError(403, "ForbiddenUserError", text("the provider refused: {said}", said=reason[:300]))
            _, provider = federation.provider(call.cluster)
            tokens = provider.exchange(call.query["code"], redirect=_callback(call), verifier=str(begun["verifier"]))
            account = federation.account(call.cluster, tokens, str(begun["nonce"]))
        except ApiError as error:
            return _refused(call, federation, error)
        except PaictlError as error:
            return _refused(call, federation, answer_to(error))
        token = issue(call.cluster.users, account, TokenKind.SESSION)
        span = SPANS[TokenKind.SESSION]
        return redirect(
            local_address(str(begun["next"])),
            session_cookie(token, secure=call.secure, seconds=int(span.total_seconds()) if span else 0),
            begun_cookie("", secure=call.secure, seconds=0),
        )

    return (
        Route("GET", START, Access.ANYBODY, begin, Operation("Sign in by the OpenID provider", answers=(303, 404))),
        Route(
            "GET",
            CALLBACK,
            Access.ANYBODY,
            come_back,
            Operation("Back from it", answers=(303, 400, 403)),
            slow=True,
            line=LINE,
        ),
    )


def _refused(call: Call, federation: Federation, error: ApiError) -> Answer:
    """The form again, with the reason: own users can still sign in."""
    values = {
        "next": "/", "user": "", "error": error.message, "title": "Sign in",
        "provider": federation.settings(call.cluster),
    }  # fmt: skip
    answer = page(call, "sign-in.html", values, status=error.status)
    cookie = begun_cookie("", secure=call.secure, seconds=0)
    return Answer(answer.body, answer.status, answer.media, error.headers, (cookie,))


def _callback(call: Call) -> str:
    return f"{'https' if call.secure else 'http'}://{call.host}{CALLBACK}"
