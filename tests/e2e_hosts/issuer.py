"""An OpenID provider for tests: `python -m tests.e2e_hosts.issuer FOLDER ADDRESS PORT` serves what `provider` made."""

from __future__ import annotations

import base64
import http.server
import ipaddress
import json
import ssl
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def provider(folder: Path, address: str, port: int) -> str:
    """Make its keys and its certificate, which is its own authority; its URL."""
    folder.mkdir(parents=True, exist_ok=True)
    key, signing = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "issuer")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=2))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address(address))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "ca.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "server.key").write_bytes(_pem(key))
    (folder / "signing.key").write_bytes(_pem(signing))
    return f"https://{address}:{port}"


def _signing(folder: Path) -> rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key((folder / "signing.key").read_bytes(), None)
    assert isinstance(key, rsa.RSAPrivateKey)
    return key


def token(folder: Path, issuer: str, audience: str, *, lives: float = 600, **claims: Any) -> str:
    """A token that ends in so many seconds."""
    now = int(time.time())
    body = {"iss": issuer, "aud": audience, "sub": "bo", "iat": now - 3600, "exp": int(now + lives), **claims}
    parts = [_encoded(json.dumps(part).encode()) for part in ({"alg": "RS256", "kid": "one", "typ": "JWT"}, body)]
    signature = _signing(folder).sign(".".join(parts).encode(), padding.PKCS1v15(), hashes.SHA256())
    return ".".join([*parts, _encoded(signature)])


def _documents(folder: Path, issuer: str) -> dict[str, Any]:
    numbers = _signing(folder).public_key().public_numbers()
    key = {
        "kty": "RSA",
        "alg": "RS256",
        "use": "sig",
        "kid": "one",
        "n": _encoded(numbers.n.to_bytes(256, "big")),
        "e": _encoded(numbers.e.to_bytes(3, "big")),
    }
    about = {
        "issuer": issuer,
        "jwks_uri": f"{issuer}/keys",
        "response_types_supported": ["id_token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256"],
    }
    return {"/.well-known/openid-configuration": about, "/keys": {"keys": [key]}}


def serve(folder: Path, address: str, port: int) -> None:
    """Answer until somebody ends it."""
    documents = _documents(folder, f"https://{address}:{port}")

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = documents.get(self.path)
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(found or {}).encode())

    server = http.server.ThreadingHTTPServer((address, port), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "ca.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
