"""What openssl makes for us: key pairs of SSH, and keys and certificate requests of people who use an API server.

Controllers run in an image that has openssl, and none of OpenSSH's programs. A key of a person is written only to a
folder of mode 0700 that is deleted at once, and is never an argument.
"""

from __future__ import annotations

import base64
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

BITS: Final = 3072
_EXPONENT: Final = 65537
_SECONDS: Final = 60.0


@frozen
class KeyPair:
    """A private key as PEM, and the public one as it stands in `authorized_keys`, without a title."""

    private: str
    public: str

    def __repr__(self) -> str:
        """The public half alone."""
        return f"KeyPair({self.public})"


def key_pair() -> KeyPair:
    """A new pair of RSA; the private key goes through pipes only. Raises `PaictlError` without openssl."""
    private = _filtered(["genrsa", "-traditional", str(BITS)], "")
    modulus = _filtered(["rsa", "-noout", "-modulus"], private)
    number = int(modulus.strip().removeprefix("Modulus="), 16)
    blob = b"".join(map(_field, (b"ssh-rsa", _number(_EXPONENT), _number(number))))
    return KeyPair(private, f"ssh-rsa {base64.b64encode(blob).decode()}")


def _number(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")  # a leading zero where it would read as negative


def _field(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _filtered(words: list[str], stdin: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - words of this module alone
            ["openssl", *words],  # noqa: S607 - found on PATH
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PaictlError(text("openssl cannot make a key: {error}", error=str(error))) from None
    if done.returncode:
        raise PaictlError(text("openssl cannot make a key: {error}", error=(done.stderr.splitlines() or [""])[-1]))
    return done.stdout


# --- certificates of people


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
            ["openssl", *words],  # noqa: S607 - found on PATH
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_SECONDS,
        )
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
