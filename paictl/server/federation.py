"""Signing in by an OpenID provider: one provider for all threads of a server, and who its tokens are about."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import orjson

from paictl.cluster.accounts import Account, Token
from paictl.cluster.interface import Cluster
from paictl.i18n import text
from paictl.operate.users.federated import OidcSettings, account_for, oidc_settings
from paictl.operate.users.tokens import Caller, TokenKind, digest_of
from paictl.remote.oidc.provider import Provider, ProviderTokens
from paictl.remote.oidc.tokens import Claims, TokenError, decoded
from paictl.server.calls import ApiError

FRESH: Final = 30.0
"""Seconds after which the configuration is looked at again."""
LINE: Final = "OpenID provider"
"""In which sign-ins wait for the provider, which may be down: they take few threads then, and no turns of passwords."""
BEGUN: Final = 600
"""Seconds that a user may take to sign in at the provider."""
_REMEMBERED: Final = 10_000
"""Tokens of programs whose claims are remembered, until they expire and for `_AGAIN` at most."""
_AGAIN: Final = 600.0
"""Seconds after which a token is verified again: its key may have been withdrawn, because somebody else has it."""


@dataclass
class Federation:
    """The provider that the configuration names, if it names one. `clock` gives seconds."""

    secret: str = field(default="", repr=False)
    clock: Callable[[], float] = time.monotonic
    _read: tuple[float, OidcSettings | None] | None = None
    _provider: Provider | None = None
    _claims: dict[str, tuple[float, Claims]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def settings(self, cluster: Cluster) -> OidcSettings | None:
        """The section authentication.oidc, None where there is none."""
        with self._lock:
            now = self.clock()
            if self._read is None or now - self._read[0] > FRESH:
                before = self._read[1] if self._read else None
                self._read = now, oidc_settings(cluster)
                if self._read[1] != before:
                    self._provider = None
                    self._claims.clear()
            return self._read[1]

    def provider(self, cluster: Cluster) -> tuple[OidcSettings, Provider]:
        """The provider; raises `ApiError` where the configuration names none."""
        settings = self.settings(cluster)
        if settings is None:
            raise ApiError(404, "NoApiError", text("this server has no OpenID provider"))
        with self._lock:
            if self._provider is None:
                self._provider = Provider(settings.issuer, settings.client, self.secret)
            return settings, self._provider

    def account(self, cluster: Cluster, tokens: ProviderTokens, nonce: str = "") -> Account:
        """The account that fresh tokens open; raises `TokenError`, `ProviderError`, `StrangerError`."""
        settings, provider = self.provider(cluster)
        claims = dict(provider.claims(tokens.id_token, settings.audiences, nonce))
        if not {settings.username_claim, settings.groups_claim} <= claims.keys() and tokens.access_token:
            more = provider.user_info(tokens.access_token)
            if more and more.get("sub") != claims["sub"]:
                raise TokenError("the provider's user differs from the token's")
            claims = {**more, **claims}
        return account_for(cluster.users, cluster, settings, claims)

    def caller(self, cluster: Cluster, token: str) -> Caller | None:
        """Who shows a token of the provider; None where there is no provider. Raises as `account` does."""
        if self.settings(cluster) is None:
            return None
        settings, provider = self.provider(cluster)
        digest = digest_of(token)
        now = self.clock()
        verified, claims = self._claims.get(digest, (now, None))
        if claims is None or now - verified > _AGAIN or float(claims["exp"]) <= time.time():
            self._claims.pop(digest, None)
            claims = provider.claims(token, settings.audiences)
            if len(self._claims) >= _REMEMBERED:
                self._claims.clear()
            self._claims[digest] = now, claims
        account = account_for(cluster.users, cluster, settings, claims)
        until = datetime.fromtimestamp(float(claims["exp"]), UTC)
        return Caller(account, Token(digest, account.name, account.stamp, TokenKind.LOGIN, datetime.now(UTC), until))


def packed(begun: Mapping[str, str]) -> str:
    """What a sign-in has begun with, for a cookie: only this browser has it, and any replica of the server reads it."""
    return base64.urlsafe_b64encode(orjson.dumps({**begun, "at": str(int(time.time()))})).decode().rstrip("=")


def unpacked(cookie: str) -> Mapping[str, str]:
    """The inverse of `packed`; raises `ApiError` for a malformed or expired cookie."""
    try:
        values: Mapping[str, str] = orjson.loads(decoded(cookie))
        if time.time() - int(values["at"]) <= BEGUN and {"state", "nonce", "verifier", "next"} <= values.keys():
            return values
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise too_late()


def too_late() -> ApiError:
    """The error for a browser that comes back with something that it was not sent away with."""
    return ApiError(
        400, "InvalidParametersError", text("this sign-in was not started here or has expired: start again")
    )
