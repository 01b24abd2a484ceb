"""Keys and certificate requests of people who sign in to an API server, made by openssl.

A key is written only to a folder of mode 0700 that is deleted at once, and is never an argument.
"""

from __future__ import annotations

import ssl
import subprocess
import tempfile
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import from_unix

_SECONDS: Final = 60.0


@frozen
class CertificateRequest:
    """A private key, the request for a certificate (both PEM), and the public key that the certificate must have."""

    key: str
    request: str
    public: str

    def __repr__(self) -> str:
        """Without the private key."""
        return f"CertificateRequest({self.public})"


@frozen
class IssuedCertificate:
    """What a certificate says: its public key, subject (as ``CN=ann,O=team``, the last part first) and end."""

    public: str
    subject: str
    end: datetime


def certificate_request(user: str, groups: Sequence[str]) -> CertificateRequest:
    """A new key (P-256), and a request for a certificate with the user as CN and the groups as O.

    Names must not need quotes (`cluster.access` checks them). Raises `PaictlError` without openssl.
    """
    names = [*(f"{number}.O = {group}" for number, group in enumerate(groups)), f"CN = {user}"]
    settings = "\n".join(["[req]", "prompt = no", "distinguished_name = dn", "[dn]", *names, ""])
    with tempfile.TemporaryDirectory(prefix="paictl-access-") as temporary:
        folder = Path(temporary)
        (folder / "request.cnf").write_text(settings)
        _openssl(folder, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", "key.pem")
        _openssl(folder, "req", "-new", "-sha256", "-config", "request.cnf", "-key", "key.pem", "-out", "request.pem")
        public = _openssl(folder, "pkey", "-in", "key.pem", "-pubout")
        return CertificateRequest((folder / "key.pem").read_text(), (folder / "request.pem").read_text(), public)


def read_certificate(pem: str) -> IssuedCertificate:
    """What a certificate says; the first one if several follow each other. Raises `PaictlError` for no certificate."""
    with tempfile.TemporaryDirectory(prefix="paictl-access-") as temporary:
        folder = Path(temporary)
        (folder / "certificate.pem").write_text(pem)
        words = ("x509", "-in", "certificate.pem", "-noout")
        public = _openssl(folder, *words, "-pubkey")
        output = _openssl(folder, *words, "-enddate", "-subject", "-nameopt", "RFC2253")
    lines = dict(line.split("=", 1) for line in output.splitlines() if "=" in line)
    end = from_unix(ssl.cert_time_to_seconds(lines["notAfter"]))
    return IssuedCertificate(public, lines["subject"].strip(), end)


def _openssl(folder: Path, *words: str) -> str:
    """What openssl writes to standard output."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed program; its arguments name files of this folder
            ["openssl", *words], cwd=folder, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,  # noqa: S607
            timeout=_SECONDS,
        )  # fmt: skip
    except FileNotFoundError:
        raise PaictlError(
            text("openssl is not installed; paictl makes certificates with it"),
            hint=text("install it, for example: apt-get install openssl"),
        ) from None
    except subprocess.TimeoutExpired as error:
        raise PaictlError(text("openssl cannot make a key: {error}", error=str(error))) from None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["-"])[-1]
        raise PaictlError(text("openssl {command} failed: {error}", command=words[0], error=last))
    return done.stdout
