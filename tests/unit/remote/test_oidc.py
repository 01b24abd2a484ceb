"""Tokens of an OpenID provider: those that may be believed, and every other."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from hypothesis import given, settings
from hypothesis import strategies as st

from paictl.remote.oidc.tokens import B, Expected, G, N, P, TokenError, is_signed_by, looks_like_token, read, verified
from tests.unit.server.provider import EcKey, RsaKey, encoded, token

NOW = 1_700_000_000.0
CLAIMS = {"iss": "https://id", "aud": ["paictl", "x"], "sub": "1", "exp": NOW + 60, "nonce": "n"}
EXPECTED = Expected("https://id", {"paictl"}, "n")


@functools.cache
def rsa_key(name: str = "r", bits: int = 2048) -> RsaKey:
    return RsaKey(name, bits)


@functools.cache
def ec_key(name: str = "e") -> EcKey:
    return EcKey(name)


def judged(word: str, *keys: RsaKey | EcKey, expected: Expected = EXPECTED, now: float = NOW) -> Any:
    return verified(read(word), [key.public for key in keys or (rsa_key(), ec_key())], expected, now)


@pytest.mark.parametrize("key", [rsa_key(), ec_key()], ids=["RS256", "ES256"])
def test_a_token_of_the_provider_is_believed(key: RsaKey | EcKey) -> None:
    assert judged(token(key, CLAIMS)) == CLAIMS
    assert looks_like_token(token(key, CLAIMS))
    assert judged(token(key, CLAIMS), now=NOW + 89) == CLAIMS, "clocks may differ a little"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"aud": "grafana"}, r"for another audience \(grafana\), not for paictl"),
        ({"aud": []}, "another audience"),
        ({"aud": {"paictl": 1}}, "another audience"),
        ({"exp": NOW - 31}, "expired at 2023-11-14T22:12:49Z"),
        ({"exp": None}, "no expiration time"),
        ({"exp": "soon"}, "no expiration time"),
        ({"nbf": NOW + 31}, "not valid before"),
        ({"iss": "https://other"}, "by https://other, not by https://id"),
        ({"nonce": "m"}, "another sign-in"),
        ({"sub": ""}, "does not name its user"),
    ],
)
def test_what_a_token_says_is_checked(change: dict[str, Any], said: str) -> None:
    with pytest.raises(TokenError, match=said):
        judged(token(ec_key(), {**CLAIMS, **change}))


def test_only_keys_of_the_provider_count_and_only_with_their_own_algorithm() -> None:
    good = token(rsa_key(), CLAIMS)
    head, body, signature = good.split(".")
    none = encoded({"alg": "none"})
    shared = encoded({"alg": "HS256", "kid": "r"})
    confused = encoded({"alg": "ES256", "kid": "r"})
    for word in (
        f"{none}.{body}.",
        f"{shared}.{body}.{signature}",
        f"{confused}.{body}.{signature}",
        f"{head}.{encoded({**CLAIMS, 'sub': '2'})}.{signature}",
        f"{head}.{body}.",
        f"{head}.{body}.AAAA",
        token(rsa_key("other"), CLAIMS, kid="r"),
        token(rsa_key("unknown"), CLAIMS),
    ):
        with pytest.raises(TokenError, match=r"signature|signed by"):
            judged(word)
    with pytest.raises(TokenError, match="signature"):
        judged(token(rsa_key("small", 1024), CLAIMS), rsa_key("small", 1024))
    with pytest.raises(TokenError, match="extensions"):
        judged(token(rsa_key(), CLAIMS, crit=["b64"]))


@pytest.mark.parametrize(
    "word", ["", "a.b.c", "eyJ.eyJ.", "e30.e30.!", "e30.W10.AA", "é.e30.", "e30." + "A" * 40_000 + "."]
)
def test_what_is_no_token_is_refused_without_a_traceback(word: str) -> None:
    with pytest.raises(TokenError, match="not an OpenID provider's token"):
        judged(word)


@pytest.mark.parametrize(("name", "hash_"), [("RS384", hashes.SHA384()), ("RS512", hashes.SHA512())])
def test_longer_hashes(name: str, hash_: hashes.HashAlgorithm) -> None:
    signature = rsa_key().sign(b"data", hash_)
    assert is_signed_by(rsa_key().public, name, b"data", signature)
    assert not is_signed_by(rsa_key().public, name, b"date", signature)
    assert not is_signed_by(rsa_key().public, "RS256", b"data", signature)


@settings(max_examples=12)
@given(st.binary(max_size=64), st.integers(0, 511))
def test_one_other_bit_anywhere_spoils_a_signature(data: bytes, bit: int) -> None:
    signature = ec_key().sign(data)
    assert is_signed_by(ec_key().public, "ES256", data, signature)
    other = bytearray(signature)
    other[bit // 8] ^= 1 << bit % 8
    assert not is_signed_by(ec_key().public, "ES256", data, bytes(other))


def test_numbers_outside_of_the_curve_are_no_signature() -> None:
    assert (G[1] * G[1] - (G[0] ** 3 - 3 * G[0] + B)) % P == 0
    for r, s in ((0, 0), (0, 1), (1, 0), (N, 1), (1, N)):
        assert not is_signed_by(ec_key().public, "ES256", b"", r.to_bytes(32, "big") + s.to_bytes(32, "big"))
    off = ec_key().public | {"x": encoded((5).to_bytes(32, "big"))}
    assert not is_signed_by(off, "ES256", b"", ec_key().sign(b""))
    assert not is_signed_by({}, "ES256", b"", b"\1" * 64)
