"""Pages for everybody: sign in, sign out, language and colours, static files.

Signing in by an OpenID provider is authorization code with PKCE (RFC 7636).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from paictl.errors import PaictlError
from paictl.i18n import LANGUAGES, text
from paictl.operate.users.tokens import SPANS, TokenKind, issue, leave_tasks
from paictl.server.calls import Answer, ApiError, Call, answer_to, bad, redirect
from paictl.server.credentials import (
    LANGUAGE_COOKIE,
    THEME_COOKIE,
    begun_cookie,
    begun_cookie_name,
    choice_cookie,
    session_cookie,
)
from paictl.server.federation import BEGUN, LINE, Federation, packed, too_late, unpacked
from paictl.server.portal.rendering import folder, local_address, page
from paictl.server.routing import Access, Operation, Route
from paictl.server.signing import SignIns

_MEDIA: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_THEMES: Final = ("light", "dark", "system")


def sign_in_routes(sign_ins: SignIns, federation: Federation) -> tuple[Route, ...]:
    """The form, which counts failures together with the API, and leads to the OpenID provider if there is one."""

    def sign_in_page(call: Call) -> Answer:
        """The sign-in form; a signed-in user is redirected."""
        wanted = local_address(call.query.get("next", "/"))
        if call.caller is not None:
            return redirect(wanted)
        values = {"next": wanted, "user": "", "error": "", "title": "Sign in"}
        return page(call, "sign-in.html", {**values, "provider": federation.settings(call.cluster)})

    def sign_in(call: Call) -> Answer:
        fields = call.fields()
        user, wanted = str(fields.get("user", "")), local_address(str(fields.get("next", "/jobs")))
        try:
            account = sign_ins.account(call, user, str(fields.get("password", "")))
        except ApiError as error:
            values = {
                "next": wanted,
                "user": user[:64],
                "error": error.message,
                "title": "Sign in",
                "provider": federation.settings(call.cluster),
            }
            answer = page(call, "sign-in.html", values, status=error.status)
            return Answer(answer.body, answer.status, answer.media, error.headers)
        token = issue(call.cluster.users, account, TokenKind.SESSION)
        span = SPANS[TokenKind.SESSION]
        seconds = int(span.total_seconds()) if span else 0
        return redirect(wanted, session_cookie(token, secure=call.secure, seconds=seconds))

    return (
        Route("GET", "/sign-in", Access.ANYBODY, sign_in_page, Operation("Sign in")),
        Route("POST", "/sign-in", Access.ANYBODY, sign_in, Operation("Sign in", answers=(303, 400, 429)), slow=True),
    )


def sign_out(call: Call) -> Answer:
    """End this session, for the server too."""
    call.cluster.users.remove_tokens([call.me.token.digest])
    leave_tasks(call.cluster.users, call.me.name)
    return redirect("/sign-in", session_cookie("", secure=call.secure, seconds=0))


def choose(call: Call) -> Answer:
    """Another language, or other colours."""
    fields = call.fields()
    back, cookies = local_address(str(fields.get("back", "/jobs"))), []
    language, theme = fields.get("language"), fields.get("theme")
    if language in LANGUAGES:
        cookies.append(choice_cookie(LANGUAGE_COOKIE, language, secure=call.secure))
    if theme in _THEMES:
        cookies.append(choice_cookie(THEME_COOKIE, theme, secure=call.secure))
    if not cookies:
        raise bad(text("unknown language or color scheme"))
    return redirect(back, *cookies)


def static(call: Call) -> Answer:
    """A file of ``templates/portal/static``; its name has no slash, as the table of routes sees to."""
    path = folder() / "static" / call.path["file"]
    media = _MEDIA.get(path.suffix)
    if media is None or not path.is_file():
        raise ApiError(404, "NoApiError", text("no page at this address"))
    fresh = "public, max-age=31536000, immutable" if "v" in call.query else "no-cache"
    return Answer(path.read_bytes(), 200, media, {"Cache-Control": fresh})


ROUTES: Final = (
    Route("POST", "/sign-out", Access.USER, sign_out, Operation("Sign out", answers=(303,)), jobs=True),
    Route("POST", "/preferences", Access.ANYBODY, choose, Operation("Language and colours", answers=(303, 400))),
    Route("GET", "/static/{file}", Access.ANYBODY, static, Operation("Style and scripts")),
)


START: Final = "/sign-in/oidc"
CALLBACK: Final = "/sign-in/oidc/callback"


def federated_routes(federation: Federation) -> tuple[Route, ...]:
    """There and back."""

    def begin(call: Call) -> Answer:
        """Send the browser to the provider; what it has to bring back is in a cookie."""
        settings, provider = federation.provider(call.cluster)
        verifier, state, nonce = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
        address = provider.authorization(
            redirect=_callback(call), state=state, nonce=nonce, challenge=challenge, scopes=" ".join(settings.scopes)
        )
        after = local_address(call.query.get("next", "/"))
        begun = {"state": state, "nonce": nonce, "verifier": verifier, "next": after}
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
        "next": "/",
        "user": "",
        "error": error.message,
        "title": "Sign in",
        "provider": federation.settings(call.cluster),
    }
    answer = page(call, "sign-in.html", values, status=error.status)
    cookie = begun_cookie("", secure=call.secure, seconds=0)
    return Answer(answer.body, answer.status, answer.media, error.headers, (cookie,))


def _callback(call: Call) -> str:
    return f"{'https' if call.secure else 'http'}://{call.host}{CALLBACK}"
