"""What a request shows of its sender: token, cookie, address; and what proves that a page of ours has sent it."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import field
from http.cookies import CookieError, SimpleCookie
from typing import Final
from urllib.parse import urlsplit

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.server.calls import ApiError
from paictl.serving.connections import address_of

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

CSRF_FIELD: Final = "csrf"
CSRF_HEADER: Final = "x-csrf-token"
LANGUAGE_COOKIE: Final = "paictl_language"
THEME_COOKIE: Final = "paictl_theme"


@frozen
class Sender:
    """Where a request comes from, and whether it came encrypted: here, or as far as a trusted proxy."""

    address: str
    secure: bool
    host: str


def sender_of(scope_client: str, scheme: str, headers: Mapping[str, str], trusted: Iterable[Network]) -> Sender:
    """The sender; what proxies say (X-Forwarded-…) counts only if the one that talks to us is in `trusted`.

    Of X-Forwarded-For the last address that is not a trusted proxy's: the ones before it anybody can make up.
    """
    networks = tuple(trusted)
    host = headers.get("host", "")
    if not _within(scope_client, networks):
        return Sender(scope_client, scheme == "https", host)
    forwarded = [word.strip() for word in headers.get("x-forwarded-for", "").split(",") if word.strip()]
    address = next((word for word in reversed(forwarded) if not _within(word, networks)), scope_client)
    proto = headers.get("x-forwarded-proto", scheme).split(",")[-1].strip()
    return Sender(_plain(address), proto == "https", headers.get("x-forwarded-host", host).split(",")[-1].strip())


def _within(address: str, networks: Iterable[Network]) -> bool:
    try:
        spellings = {address_of(address), ipaddress.ip_address(address)}  # networks may be named in either form
    except ValueError:
        return False
    return any(ip.version == network.version and ip in network for network in networks for ip in spellings)


def _plain(address: str) -> str:
    """An address in its one form, so that no spelling of it escapes a limit."""
    try:
        return str(address_of(address))
    except ValueError:
        return "unknown"


@frozen
class Credential:
    """The token that a request shows; `session` says that a cookie held it, as a browser sends by itself."""

    token: str = field(default="", repr=False)
    session: bool = False


def cookie_name(*, secure: bool) -> str:
    """The session's cookie; over HTTPS one that no other host or page without encryption can set."""
    return "__Host-paictl" if secure else "paictl_session"


def cookies_of(header: str) -> dict[str, str]:
    """The cookies of a header; empty if it is malformed."""
    try:
        return {name: morsel.value for name, morsel in SimpleCookie(header).items()}
    except CookieError:
        return {}


def shown_by(authorization: list[str], cookies: Mapping[str, str], *, secure: bool) -> Credential:
    """The token of the header, else that of the cookie. Raises `ApiError` for more than one header."""
    if len(authorization) > 1:
        raise ApiError(400, "InvalidParametersError", text("more than one Authorization header"))
    if authorization:
        scheme, _, token = authorization[0].partition(" ")
        return Credential(token.strip() if scheme.lower() == "bearer" else "?")
    token = cookies.get(cookie_name(secure=secure), "")
    return Credential(token, session=bool(token))


def session_cookie(token: str, *, secure: bool, seconds: int) -> str:
    """The ``Set-Cookie`` of a session; with 0 seconds it goes."""
    rest = "; Secure" if secure else ""
    return f"{cookie_name(secure=secure)}={token}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{rest}"


def begun_cookie_name(*, secure: bool) -> str:
    """The cookie of a sign-in that has begun at a provider."""
    return "__Host-paictl-begun" if secure else "paictl_begun"


def begun_cookie(value: str, *, secure: bool, seconds: int) -> str:
    """The ``Set-Cookie`` of a sign-in that has begun at a provider; with 0 seconds it goes.

    Lax, because the browser comes back from another site.
    """
    rest = "; Secure" if secure else ""
    return f"{begun_cookie_name(secure=secure)}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{rest}"


def choice_cookie(name: str, value: str, *, secure: bool) -> str:
    """The ``Set-Cookie`` for a user's display preferences."""
    rest = "; Secure" if secure else ""
    return f"{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age=31536000{rest}"


def csrf_of(session: str) -> str:
    """The value that our pages send beside the cookie; only a reader of the cookie can compute it."""
    return hmac.new(session.encode(), b"csrf", hashlib.sha256).hexdigest() if session else ""


def check_origin(headers: Mapping[str, str], sender: Sender) -> None:
    """Raise `ApiError` for a request that a page of another site makes a browser send."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        if site not in ("same-origin", "none"):
            raise forged()
        return
    origin = headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != sender.host:
        raise forged()


def check_csrf(session: str, given: str) -> None:
    """Raise `ApiError` unless the sender can read our pages."""
    if not hmac.compare_digest(csrf_of(session).encode(), given.encode("utf-8", errors="replace")):
        raise forged()


def forged() -> ApiError:
    """The error for a request that does not come from one of our pages."""
    message = text("this request does not come from a page of this server: reload the page")
    return ApiError(403, "ForbiddenUserError", message)
