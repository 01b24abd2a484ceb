"""An OpenID provider of the tests: it answers over HTTP, signs with real keys, and gives whatever it is told to."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

Json = dict[str, Any]


def encoded(data: bytes | object) -> str:
    raw = data if isinstance(data, bytes) else json.dumps(data).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def number(value: int, size: int = 0) -> str:
    return encoded(value.to_bytes(size or (value.bit_length() + 7) // 8, "big"))


class RsaKey:
    """A key that signs RS256."""

    algorithm = "RS256"

    def __init__(self, name: str, bits: int = 2048) -> None:
        self.name = name
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=bits)

    @property
    def public(self) -> Json:
        numbers = self._key.public_key().public_numbers()
        return {"kty": "RSA", "kid": self.name, "use": "sig", "n": number(numbers.n), "e": number(numbers.e)}

    def sign(self, data: bytes, hash_: hashes.HashAlgorithm | None = None) -> bytes:
        return self._key.sign(data, padding.PKCS1v15(), hash_ or hashes.SHA256())


class EcKey:
    """A key that signs ES256."""

    algorithm = "ES256"

    def __init__(self, name: str) -> None:
        self.name = name
        self._key = ec.generate_private_key(ec.SECP256R1())

    @property
    def public(self) -> Json:
        numbers = self._key.public_key().public_numbers()
        point = {"x": number(numbers.x, 32), "y": number(numbers.y, 32)}
        return {"kty": "EC", "kid": self.name, "crv": "P-256", **point}

    def sign(self, data: bytes) -> bytes:
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def token(key: RsaKey | EcKey, claims: Mapping[str, Any], **header: Any) -> str:
    """A signed token."""
    head = {"alg": key.algorithm, "kid": key.name, "typ": "JWT", **header}
    signed = f"{encoded(head)}.{encoded(dict(claims))}"
    return f"{signed}.{encoded(key.sign(signed.encode()))}"


@dataclass
class FakeProvider:
    """What it is told, and what it was asked."""

    port: int = 0
    key: RsaKey | EcKey = field(default_factory=lambda: EcKey("one"))
    more: list[Json] = field(default_factory=list)
    """Keys that it publishes beside its own."""
    codes: dict[str, Json] = field(default_factory=dict)
    """Code → what its ID token says."""
    asked: list[tuple[str, Json]] = field(default_factory=list)
    user: Json = field(default_factory=dict)
    pending: int = 0
    down: bool = False

    @property
    def issuer(self) -> str:
        return f"http://localhost:{self.port}"

    def claims(self, name: str = "eve", **other: Any) -> Json:
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": "paictl",
            "sub": f"id-{name}",
            "preferred_username": name,
            "groups": [],
            "iat": now,
            "exp": now + 600,
            **other,
        }

    def token(self, name: str = "eve", **other: Any) -> str:
        return token(self.key, self.claims(name, **other))

    def answer(self, path: str, fields: Json) -> tuple[int, Json]:
        self.asked.append((path, fields))
        if self.down:
            return 503, {"error": "temporarily_unavailable"}
        match path:
            case "/.well-known/openid-configuration":
                names = ("authorization", "token", "userinfo", "device_authorization")
                ends = {f"{name}_endpoint": f"{self.issuer}/{name}" for name in names}
                return 200, {"issuer": self.issuer, "jwks_uri": f"{self.issuer}/keys", **ends}
            case "/keys":
                return 200, {"keys": [self.key.public, *self.more]}
            case "/userinfo":
                return 200, self.user
            case "/device_authorization":
                return 200, {
                    "device_code": "secret",
                    "user_code": "AB-CD",
                    "verification_uri": f"{self.issuer}/device",
                    "expires_in": 60,
                    "interval": 0.01,
                }
            case "/token" if fields.get("grant_type", "").endswith("device_code"):
                self.pending -= 1
                if self.pending >= 0:
                    return 400, {"error": "authorization_pending"}
                return 200, {"id_token": self.token(groups=["vision"])}
            case "/token" if fields.get("code") in self.codes:
                return 200, {"id_token": token(self.key, self.codes.pop(fields["code"])), "access_token": "access"}
        return 400, {"error": "invalid_grant", "error_description": "no such code"}


@contextlib.contextmanager
def providing() -> Iterator[FakeProvider]:
    """A provider on a port of its own."""
    found = FakeProvider()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer({})

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
            self._answer({**dict(parse_qsl(body)), "authorization": self.headers.get("Authorization", "")})

        def _answer(self, fields: Json) -> None:
            status, said = found.answer(self.path.partition("?")[0], fields)
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("localhost", 0), Handler)
    found.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
