"""An OpenID provider over HTTP: its description, its keys, codes exchanged for tokens, codes for devices."""

from __future__ import annotations

import json
import math
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.oidc.tokens import Claims, Expected, Jwk, TokenError, read, verified

_SECONDS: Final = 10
"""That an answer may take."""
_MOST: Final = 1 << 20
"""Bytes of an answer."""
_FRESH: Final = 600.0
"""Seconds for which description and keys are kept."""
_AGAIN: Final = 30.0
"""Seconds after which keys are asked for again because a token names one that is not known."""
_REST: Final = 15.0
"""Seconds after a failure in which description and keys are not asked for: anybody can make a server ask, and each
thread that waits for a provider that is down is one less for those who do not need it."""
_WAIT: Final = 1.0
"""Seconds for which a thread waits while another one asks for them."""
_LOCAL: Final = ("localhost", "127.0.0.1", "::1")
_PENDING: Final = ("authorization_pending", "slow_down")


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A secret must not follow an answer to another address, nor keys come from one."""

    def redirect_request(self, *_: Any) -> None:
        """Never."""


_OPENER: Final = urllib.request.build_opener(_NoRedirects)


class ProviderError(PaictlError):
    """The provider cannot be asked, or refuses."""


@frozen
class ProviderTokens:
    """What a provider gives for a code."""

    id_token: str = field(repr=False)
    access_token: str = field(default="", repr=False)


@frozen
class DeviceCode:
    """What a user types on another device: the address, the code, and how long (seconds) it may take."""

    address: str
    code: str
    secret: str = field(repr=False)
    interval: float
    seconds: float
    whole_address: str = ""


@dataclass
class Provider:
    """A provider by its issuer; `secret` is empty for a public client, which has PKCE alone. Threads may share it."""

    issuer: str
    client: str
    secret: str = field(default="", repr=False)
    clock: Callable[[], float] = time.time
    """Seconds since 1970, by which tokens expire."""
    ticks: Callable[[], float] = time.monotonic
    """Seconds since any instant, by which all waiting goes: nobody sets this clock back."""
    _described: tuple[float, Mapping[str, Any]] | None = None
    _keys: tuple[float, Sequence[Jwk]] | None = None
    _failed: tuple[float, ProviderError] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def authorization(self, *, redirect: str, state: str, nonce: str, challenge: str, scopes: str) -> str:
        """The address that a browser is sent to; raises `ProviderError`."""
        query = {
            "response_type": "code",
            "client_id": self.client,
            "redirect_uri": redirect,
            "scope": scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        address = self._endpoint("authorization_endpoint")
        return f"{address}{'&' if '?' in address else '?'}{urlencode(query)}"

    def exchange(self, code: str, *, redirect: str, verifier: str) -> ProviderTokens:
        """The tokens for a code that came back with a browser; raises `ProviderError`."""
        given = self._post(
            self._endpoint("token_endpoint"),
            {
                "grant_type": "authorization_code",
                "code": code,
                "redirect_uri": redirect,
                "code_verifier": verifier,
            },
        )
        return _tokens(given)

    def device_code(self, scopes: str) -> DeviceCode:
        """A code for a user to type; raises `ProviderError`, also if the provider has no device codes."""
        if not self._description().get("device_authorization_endpoint"):
            raise ProviderError("this provider does not support device codes", where=self.issuer)
        given = self._post(self._endpoint("device_authorization_endpoint"), {"scope": scopes})
        try:
            return DeviceCode(
                str(given["verification_uri"]),
                str(given["user_code"]),
                str(given["device_code"]),
                float(given.get("interval") or 5),
                float(given["expires_in"]),
                str(given.get("verification_uri_complete") or ""),
            )
        except (KeyError, TypeError, ValueError):
            raise ProviderError("the provider answers with no code", where=self.issuer) from None

    def await_device(
        self, code: DeviceCode, sleep: Callable[[float], None] = time.sleep, patience: float = math.inf
    ) -> ProviderTokens:
        """The tokens once a user has typed the code; raises `ProviderError` if it is refused or takes too long.

        That is as long as the code is valid, or `patience` seconds.
        """
        interval, start = code.interval, self.ticks()
        end = start + min(code.seconds, patience)
        while (left := end - self.ticks()) > 0:
            sleep(min(interval, left))
            if left < interval:
                break  # a provider refuses who asks more often than it allows
            fields = {"grant_type": "urn:ietf:params:oauth:grant-type:device_code", "device_code": code.secret}
            given = self._post(self._endpoint("token_endpoint"), fields, accepted=_PENDING)
            if given.get("error") not in _PENDING:
                return _tokens(given)
            interval += 5 if given["error"] == "slow_down" else 0
        if patience < code.seconds:
            raise ProviderError(
                text("the code was not entered within {seconds:g} s", seconds=patience), where=self.issuer
            )
        raise ProviderError("the code has expired: it was not entered in time", where=self.issuer)

    def claims(self, token: str, audiences: Sequence[str] = (), nonce: str = "") -> Claims:
        """The claims of a token, once verified; raises `TokenError`, `ProviderError`."""
        parsed = read(token)
        expected = Expected(self.issuer, {self.client, *audiences}, nonce)
        keys = self._known_keys()
        if parsed.key_id and parsed.key_id not in {key.get("kid") for key in keys}:
            keys = self._known_keys(older_than=_AGAIN)  # they may have been changed
        return verified(parsed, keys, expected, self.clock())

    def user_info(self, access_token: str) -> Claims:
        """What the provider says about the owner of an access token; empty without a userinfo endpoint."""
        address = self._description().get("userinfo_endpoint")
        if not address or not access_token:
            return {}
        return self._ask(urllib.request.Request(str(address), headers={"Authorization": f"Bearer {access_token}"}))  # noqa: S310 - checked by _ask

    # --- asking

    def _endpoint(self, name: str) -> str:
        endpoint = self._description().get(name)
        if not isinstance(endpoint, str):
            raise ProviderError(text("the provider names no {name}", name=name), where=self.issuer)
        return endpoint

    def _description(self) -> Mapping[str, Any]:
        if (known := self._described) is not None and self.ticks() - known[0] <= _FRESH:
            return known[1]
        with self._asking():
            if self._described is None or self.ticks() - self._described[0] > _FRESH:
                address = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
                description = self._ask(urllib.request.Request(address))  # noqa: S310 - checked by _ask
                if description.get("issuer") != self.issuer:
                    raise ProviderError(
                        text("calls itself {name}", name=description.get("issuer")),
                        where=self.issuer,
                        hint="write that into authentication.oidc.issuer",
                    )
                self._described = self.ticks(), description
            return self._described[1]

    def _known_keys(self, older_than: float = _FRESH) -> Sequence[Jwk]:
        if (known := self._keys) is not None and self.ticks() - known[0] <= older_than:
            return known[1]
        address = self._endpoint("jwks_uri")
        with self._asking():
            if self._keys is None or self.ticks() - self._keys[0] > older_than:
                keys = self._ask(urllib.request.Request(address)).get("keys")  # noqa: S310 - checked by _ask
                fitting = [key for key in keys or () if isinstance(key, dict) and key.get("use") != "enc"]
                self._keys = self.ticks(), fitting
            return self._keys[1]

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """One thread asks at a time, and none soon after a failure: then that failure is raised again."""
        if not self._lock.acquire(timeout=_WAIT):
            raise ProviderError(
                text("the OpenID provider does not answer: {reason}", reason=text("another request waits for it")),
                where=self.issuer,
                hint="try again; passwords of own users still work",
            )
        try:
            if self._failed is not None:
                since, failure = self._failed
                if self.ticks() - since <= _REST:
                    raise ProviderError(failure.message, where=failure.where, hint=failure.hint)
                self._failed = None
            try:
                yield
            except ProviderError as error:
                self._failed = self.ticks(), error
                raise
        finally:
            self._lock.release()

    def _post(self, address: str, fields: Mapping[str, str], accepted: Sequence[str] = ()) -> Mapping[str, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self.secret:
            pair = f"{quote(self.client, safe='')}:{quote(self.secret, safe='')}"
            headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
        body = urlencode({**fields, "client_id": self.client}).encode()
        return self._ask(urllib.request.Request(address, body, headers), accepted)  # noqa: S310 - checked by _ask

    def _ask(self, request: urllib.request.Request, accepted: Sequence[str] = ()) -> Mapping[str, Any]:
        """The JSON object of an answer; a protocol error in `accepted` counts as an answer."""
        address = urlsplit(request.full_url)
        if address.scheme != "https" and not (address.scheme == "http" and address.hostname in _LOCAL):
            raise ProviderError("a provider has to have https://", where=request.full_url)
        where = f"{address.scheme}://{address.netloc}{address.path}"
        try:
            with _OPENER.open(request, timeout=_SECONDS) as answer:
                body = json.loads(answer.read(_MOST))
        except urllib.error.HTTPError as error:
            body = _error_of(error)
            if body.get("error") not in accepted:
                detail = body.get("error_description") or body.get("error") or error.reason
                raise ProviderError(text("the provider refused: {said}", said=str(detail)[:300]), where=where) from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise ProviderError(
                text("the OpenID provider does not answer: {reason}", reason=reason),
                where=where,
                hint="try again; passwords of own users still work",
            ) from None
        if not isinstance(body, dict):
            raise ProviderError("the provider does not answer with a JSON object", where=where)
        return body


def _error_of(error: urllib.error.HTTPError) -> Mapping[str, Any]:
    try:
        body = json.loads(error.read(_MOST))
    except (OSError, ValueError):
        return {}
    finally:
        error.close()
    return body if isinstance(body, dict) else {}


def _tokens(given: Mapping[str, Any]) -> ProviderTokens:
    token = given.get("id_token")
    if not isinstance(token, str):
        raise TokenError("the provider has given no ID token", hint="the scope openid is needed")
    return ProviderTokens(token, str(given.get("access_token") or ""))
