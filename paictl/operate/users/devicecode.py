"""Signing in from a command line: the server says where its OpenID provider is, and the user types a code there."""

from __future__ import annotations

import json
import math
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.oidc.provider import DeviceCode, Provider

_SECONDS: Final = 30
_MOST: Final = 1 << 20


@frozen
class SignedIn:
    """A token of a server, and whose it is."""

    user: str
    admin: bool
    token: str


def sign_in(
    server: str, show: Callable[[DeviceCode], None], authority: Path | None = None, patience: float = math.inf
) -> SignedIn:
    """Let a user sign in at a server's provider; `show` prints the code. `authority` is a file of PEM.

    `patience` is how many seconds that may take; as long as the code is valid at most.

    Raises `PaictlError` where the server cannot be reached or refuses, `ProviderError` where the provider does.
    """
    context = _trusting(authority)
    about = _asked(server, "/api/v2/authn/oidc", None, context)
    try:
        provider, scopes = Provider(str(about["issuer"]), str(about["clientId"])), " ".join(about["scopes"])
    except (KeyError, TypeError):
        raise PaictlError("is not a REST server of paictl", where=server) from None
    code = provider.device_code(scopes)
    show(code)
    tokens = provider.await_device(code, patience=patience)
    body = {"id_token": tokens.id_token, "access_token": tokens.access_token}
    login = _asked(server, "/api/v2/authn/oidc/login", body, context)
    return SignedIn(str(login["user"]), bool(login["admin"]), str(login["token"]))


def _trusting(authority: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=authority)
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or "no certificates in PEM"
        raise PaictlError(text("cannot be read: {reason}", reason=reason), where=str(authority)) from None


def _asked(server: str, path: str, body: Mapping[str, str] | None, context: ssl.SSLContext) -> Mapping[str, Any]:
    address = urlsplit(server)
    if address.scheme not in ("http", "https") or not address.netloc:
        raise PaictlError(
            text("{word!r} is not the address of a server", word=server), hint="e.g. https://pai.lab.example:30186"
        )
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
        server.rstrip("/") + path, data, {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=_SECONDS, context=context) as answer:  # noqa: S310
            reply = json.loads(answer.read(_MOST))
    except urllib.error.HTTPError as error:
        raise _refusal(error, server) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise PaictlError(
            text("the server does not answer: {reason}", reason=reason),
            where=server,
            hint="a certificate that the server made itself is trusted with --authority FILE",
        ) from None
    if not isinstance(reply, dict):
        raise PaictlError("is not a REST server of paictl", where=server)
    return reply


def _refusal(error: urllib.error.HTTPError, server: str) -> PaictlError:
    try:
        body = json.loads(error.read(_MOST))
        return PaictlError(str(body["message"]), where=server, hint=str(body.get("hint") or ""))
    except (OSError, ValueError, KeyError, TypeError):
        return PaictlError(text("the server refuses: {reason}", reason=error.reason), where=server)
    finally:
        error.close()
