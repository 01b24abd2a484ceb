"""A token of an OpenID provider: read, and judged by issuer, audience, time and signature.

Checking needs no secret, so plain arithmetic leaks nothing; it takes below a millisecond for RSA, some ten for ECDSA,
and a token is checked once. There is no way to sign.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
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
    """The parts of a token; raises `TokenError` for anything else."""
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
    """The claims of a valid token; `now` is in seconds since 1970.

    Raises `TokenError` that says which of signature, issuer, audience, time and nonce is wrong.
    """
    algorithm = str(token.header.get("alg"))
    if algorithm not in ALGORITHMS:
        accepted = ", ".join(ALGORITHMS)
        raise TokenError(text("this token is signed by {name!r}; accepted are {known}", name=algorithm, known=accepted))
    if token.header.get("crit"):
        raise TokenError("this token has critical extensions that are not supported")
    fitting = [key for key in keys if not token.key_id or key.get("kid") == token.key_id]
    if not any(is_signed_by(key, algorithm, token.signed, token.signature) for key in fitting):
        raise TokenError("the signature of this token is not its provider's")
    claims = token.claims
    if claims.get("iss") != expected.issuer:
        raise TokenError(
            text("this token was issued by {issuer}, not by {wanted}", issuer=claims.get("iss"), wanted=expected.issuer)
        )
    audience = claims.get("aud")
    named = {entry for entry in (audience if isinstance(audience, list) else [audience]) if isinstance(entry, str)}
    if named.isdisjoint(expected.audiences):
        raise TokenError(
            text(
                "this token is for another audience ({audience}), not for {wanted}",
                audience=", ".join(sorted(named)) or "-",
                wanted=" or ".join(sorted(expected.audiences)),
            ),
            hint="ask the provider for a token for this server, or add the audience to authentication.oidc.audiences",
        )
    _check_time(claims, now)
    if expected.nonce and claims.get("nonce") != expected.nonce:
        raise TokenError("this token belongs to another sign-in")
    if not isinstance(claims.get("sub"), str) or not claims["sub"]:
        raise TokenError("this token does not name its user")
    return claims


def _check_time(claims: Claims, now: float) -> None:
    end, start = claims.get("exp"), claims.get("nbf", 0)
    if not isinstance(end, int | float) or not isinstance(start, int | float):
        raise TokenError("this token has no expiration time")
    if now > end + LEEWAY:
        raise TokenError(text("this token expired at {at}: sign in again", at=_instant(end)))
    if now < start - LEEWAY:
        raise TokenError(text("this token is not valid before {at}: compare the clocks", at=_instant(start)))


def _instant(seconds: float) -> str:
    try:
        return rfc3339(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, OSError, ValueError):
        return str(seconds)


Jwk = Mapping[str, Any]
"""A key as providers publish it (RFC 7517)."""

_SMALLEST: Final = 2048
"""Bits of an RSA key at least."""
_LARGEST: Final = 8192
_PREFIXES: Final = {
    "sha256": bytes.fromhex("3031300d060960864801650304020105000420"),
    "sha384": bytes.fromhex("3041300d060960864801650304020205000430"),
    "sha512": bytes.fromhex("3051300d060960864801650304020305000440"),
}
"""DigestInfo before the hash itself (RFC 8017, 9.2)."""

# NIST P-256 (FIPS 186-5): y² = x³ - 3x + b over the field of P, with generator G of order N
P: Final = 0xFFFFFFFF00000001000000000000000000000000FFFFFFFFFFFFFFFFFFFFFFFF
B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B
N: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
G: Final = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

Point = tuple[int, int] | None
"""A point of the curve; None is the one at infinity."""


def decoded(word: str) -> bytes:
    """Base64 as in URLs, without padding; raises `ValueError`."""
    try:
        return base64.b64decode(word.encode("ascii") + b"=" * (-len(word) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError) as error:
        raise ValueError(str(error)) from None


def is_signed_by(key: Jwk, algorithm: str, data: bytes, signature: bytes) -> bool:
    """Whether a signature over data is that of a key; False for keys and algorithms that do not belong together."""
    check = ALGORITHMS.get(algorithm)
    try:
        return check is not None and check(key, data, signature)
    except (KeyError, ValueError, TypeError, AttributeError):
        return False


def _rsa(name: str) -> Callable[[Jwk, bytes, bytes], bool]:
    def check(key: Jwk, data: bytes, signature: bytes) -> bool:
        if key["kty"] != "RSA":
            return False
        modulus, exponent = (int.from_bytes(decoded(key[part]), "big") for part in ("n", "e"))
        size = (modulus.bit_length() + 7) // 8
        if not _SMALLEST <= modulus.bit_length() <= _LARGEST or len(signature) != size or not 3 <= exponent < 1 << 33:
            return False
        block = pow(int.from_bytes(signature, "big"), exponent, modulus).to_bytes(size, "big")
        info = _PREFIXES[name] + hashlib.new(name, data).digest()
        # compare the whole block: searching it for the hash would accept forged padding
        return hmac.compare_digest(block, b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info)

    return check


def _es256(key: Jwk, data: bytes, signature: bytes) -> bool:
    if key["kty"] != "EC" or key["crv"] != "P-256" or len(signature) != 64:
        return False
    x, y = (int.from_bytes(decoded(key[part]), "big") for part in ("x", "y"))
    r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
    on_curve = x < P and y < P and (y * y - (x * x * x - 3 * x + B)) % P == 0
    if not on_curve or not 0 < r < N or not 0 < s < N:
        return False
    digest = int.from_bytes(hashlib.sha256(data).digest(), "big")
    inverse = pow(s, -1, N)
    point = _sum_of_products(digest * inverse % N, G, r * inverse % N, (x, y))
    return point is not None and point[0] % N == r


def _sum_of_products(a: int, point: Point, b: int, other: Point) -> Point:
    """a·point + b·other, both bit by bit at once."""
    both = _sum(point, other)
    total: Point = None
    for bit in range(max(a.bit_length(), b.bit_length()) - 1, -1, -1):
        total = _sum(total, total)
        match a >> bit & 1, b >> bit & 1:
            case 1, 1:
                total = _sum(total, both)
            case 1, 0:
                total = _sum(total, point)
            case 0, 1:
                total = _sum(total, other)
    return total


def _sum(point: Point, other: Point) -> Point:
    if point is None or other is None:
        return other if point is None else point
    if point[0] == other[0]:
        if (point[1] + other[1]) % P == 0:
            return None
        slope = (3 * point[0] * point[0] - 3) * pow(2 * point[1], -1, P) % P
    else:
        slope = (other[1] - point[1]) * pow(other[0] - point[0], -1, P) % P
    x = (slope * slope - point[0] - other[0]) % P
    return x, (slope * (point[0] - x) - point[1]) % P


ALGORITHMS: Final[Mapping[str, Callable[[Jwk, bytes, bytes], bool]]] = {
    "RS256": _rsa("sha256"),
    "RS384": _rsa("sha384"),
    "RS512": _rsa("sha512"),
    "ES256": _es256,
}
"""What is checked, by its name in the header of a token; ``none`` and keys that both sides share never are."""
