"""Signatures of JSON Web Tokens (RFC 7518): RSASSA-PKCS1-v1_5 and ECDSA on P-256, checked with public keys.

Checking needs no secret, so plain arithmetic leaks nothing; it takes below a millisecond for RSA, some ten for ECDSA,
and a token is checked once. There is no way to sign.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Any, Final

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
        found = pow(int.from_bytes(signature, "big"), exponent, modulus).to_bytes(size, "big")
        info = _PREFIXES[name] + hashlib.new(name, data).digest()
        # compared as a whole: to look for the hash in it would let forged paddings pass
        return hmac.compare_digest(found, b"\x00\x01" + b"\xff" * (size - len(info) - 3) + b"\x00" + info)

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


def _sum_of_products(a: int, one: Point, b: int, other: Point) -> Point:
    """a·one + b·other, both bit by bit at once."""
    both = _sum(one, other)
    found: Point = None
    for bit in range(max(a.bit_length(), b.bit_length()) - 1, -1, -1):
        found = _sum(found, found)
        match a >> bit & 1, b >> bit & 1:
            case 1, 1:
                found = _sum(found, both)
            case 1, 0:
                found = _sum(found, one)
            case 0, 1:
                found = _sum(found, other)
    return found


def _sum(one: Point, other: Point) -> Point:
    if one is None or other is None:
        return other if one is None else one
    if one[0] == other[0]:
        if (one[1] + other[1]) % P == 0:
            return None
        slope = (3 * one[0] * one[0] - 3) * pow(2 * one[1], -1, P) % P
    else:
        slope = (other[1] - one[1]) * pow(other[0] - one[0], -1, P) % P
    x = (slope * slope - one[0] - other[0]) % P
    return x, (slope * (one[0] - x) - one[1]) % P


ALGORITHMS: Final[Mapping[str, Callable[[Jwk, bytes, bytes], bool]]] = {
    "RS256": _rsa("sha256"), "RS384": _rsa("sha384"), "RS512": _rsa("sha512"), "ES256": _es256,
}  # fmt: skip
"""What is checked, by its name in the header of a token; ``none`` and keys that both sides share never are."""
