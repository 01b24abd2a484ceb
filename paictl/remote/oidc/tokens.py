"""A token of an OpenID provider: read, and judged by issuer, audience, time and signature."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.oidc.signatures import ALGORITHMS, Jwk, decoded, is_signed_by
from paictl.units import rfc3339

LEEWAY: Final = 30
"""Seconds by which clocks may differ."""
_LONGEST: Final = 32 * 1024

Claims = Mapping[str, Any]
"""What a token says."""


class TokenError(PaictlError):
    """A token that is not accepted, with the reason."""


@frozen
class Expected:
    """What a token has to say: who made it, for whom it may be, and (at a sign-in in a browser) the nonce."""

    issuer: str
    audiences: Collection[str]
    nonce: str = ""


@frozen
class ReadToken:
    """A token as it is written; nothing of it is checked."""

    header: Mapping[str, Any]
    claims: Claims
    signed: bytes
    signature: bytes

    @property
    def key_id(self) -> str:
        """The name of the key that signed it; empty where it names none."""
        return str(self.header.get("kid") or "")


def looks_like_token(word: str) -> bool:
    """Whether a word could be a JSON Web Token: three parts, the first of which begins as JSON does."""
    return word.count(".") == 2 and word.startswith("eyJ")


def read(token: str) -> ReadToken:
    """The parts of a token; raises `TokenError` for what is none."""
    head, _, rest = token.partition(".")
    body, _, signature = rest.partition(".")
    try:
        if len(token) > _LONGEST:
            raise ValueError
        header, claims = json.loads(decoded(head)), json.loads(decoded(body))
        if not isinstance(header, dict) or not isinstance(claims, dict):
            raise ValueError
        return ReadToken(header, claims, f"{head}.{body}".encode("ascii"), decoded(signature))
    except (ValueError, RecursionError):
        raise TokenError("this is not an OpenID provider's token") from None


def verified(token: ReadToken, keys: Sequence[Jwk], expected: Expected, now: float) -> Claims:
    """The claims of a token that may be believed; `now` is in seconds since 1970.

    Raises `TokenError` that says which of signature, issuer, audience, time and nonce is wrong.
    """
    algorithm = str(token.header.get("alg"))
    if algorithm not in ALGORITHMS:
        known = ", ".join(ALGORITHMS)
        raise TokenError(text("this token is signed by {name!r}; accepted are {known}", name=algorithm, known=known))
    if token.header.get("crit"):
        raise TokenError("this token has extensions that have to be understood, and are not")
    fitting = [key for key in keys if not token.key_id or key.get("kid") == token.key_id]
    if not any(is_signed_by(key, algorithm, token.signed, token.signature) for key in fitting):
        raise TokenError("the signature of this token is not its provider's")
    claims = token.claims
    if claims.get("iss") != expected.issuer:
        raise TokenError(
            text("this token was issued by {issuer}, not by {wanted}", issuer=claims.get("iss"), wanted=expected.issuer)
        )
    audience = claims.get("aud")
    named = {one for one in (audience if isinstance(audience, list) else [audience]) if isinstance(one, str)}
    if named.isdisjoint(expected.audiences):
        raise TokenError(
            text(
                "this token is for another audience ({audience}), not for {wanted}",
                audience=", ".join(sorted(named)) or "-", wanted=" or ".join(sorted(expected.audiences)),
            ),
            hint="ask the provider for a token for this server, or add the audience to authentication.oidc.audiences",
        )  # fmt: skip
    _check_time(claims, now)
    if expected.nonce and claims.get("nonce") != expected.nonce:
        raise TokenError("this token belongs to another sign-in")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise TokenError("this token does not say whose it is")
    return claims


def _check_time(claims: Claims, now: float) -> None:
    end, start = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(end, int | float) or not isinstance(start, int | float):
        raise TokenError("this token does not say until when it is valid")
    if now > end + LEEWAY:
        raise TokenError(text("this token expired at {at}: sign in again", at=_instant(end)))
    if now < start - LEEWAY:
        raise TokenError(text("this token is not valid before {at}: compare the clocks", at=_instant(start)))


def _instant(seconds: float) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return str(seconds)
