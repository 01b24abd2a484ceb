"""Certificates for kube-scheduler and the extender: an authority of their own, made and renewed by openssl.

Nothing else is signed by it, so who shows a client certificate of it is kube-scheduler. Keys go through files in a
folder of mode 0700 that is deleted at once, never through arguments.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import ssl
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Final

from paictl.errors import PaictlError
from paictl.files import replace_file
from paictl.frozen import frozen

AUTHORITY_DAYS: Final = 3650
DAYS: Final = 365
RENEW_BELOW: Final = 1 / 3
"""Share of its life that is left when a certificate is renewed."""
_EC: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_EXTENSIONS: Final = {
    "ca": "basicConstraints=critical,CA:TRUE,pathlen:0\nkeyUsage=critical,keyCertSign,cRLSign\n",
    "server": "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=serverAuth\nsubjectAltName=DNS:{name}\n",
    "client": "basicConstraints=critical,CA:FALSE\nextendedKeyUsage=clientAuth\n",
}


@frozen
class CertificateSet:
    """Certificates and keys, as PEM."""

    ca_crt: str
    ca_key: str
    server_crt: str
    server_key: str
    client_crt: str
    client_key: str

    @property
    def fingerprint(self) -> str:
        """Changes with any of the certificates: a program that read the old ones has to be started again."""
        return hashlib.sha256(f"{self.ca_crt}{self.server_crt}{self.client_crt}".encode()).hexdigest()[:16]


KEPT: Final = "hivedscheduler-ca"
"""Secret that keeps all of them in a cluster; no pod mounts it."""
PLACEHOLDER: Final = CertificateSet(*["not shown"] * 6)
"""Stands for certificates where an object is only looked at."""


def certificate_set(data: Mapping[str, object]) -> CertificateSet | None:
    """The set that was kept as a mapping, None if something is missing in it."""
    values = [data.get(key) for key in CertificateSet.__annotations__]
    if not all(isinstance(value, str) and value for value in values):
        return None
    return CertificateSet(*map(str, values))


def renewed(known: CertificateSet | None, name: str, now: float) -> CertificateSet:
    """The certificates to use for a server of that DNS name: those that are known as long as they are good.

    `now` is in seconds since 1970. The authority is kept while it outlives what it signs, so that new certificates are
    trusted by programs that have read only the old ones. Raises `PaictlError` where openssl is missing or refuses.
    """
    with tempfile.TemporaryDirectory(prefix="paictl-certificates-") as temporary:
        folder = Path(temporary)
        if known is not None and _is_good(folder, known, name, now):
            return known
        if (
            known is not None
            and _left(folder, known.ca_crt, now) > RENEW_BELOW
            and _belong(folder, known.ca_crt, known.ca_key)
        ):
            (folder / "ca.crt").write_text(known.ca_crt)
            (folder / "ca.key").write_text(known.ca_key)
        else:
            (folder / "ca.cnf").write_text(
                f"[req]\ndistinguished_name=dn\nx509_extensions=ext\n[dn]\n[ext]\n{_EXTENSIONS['ca']}"
            )
            _openssl(
                folder,
                "req",
                "-x509",
                *_EC,
                "-days",
                str(AUTHORITY_DAYS),
                "-subj",
                "/CN=paictl hivedscheduler",
                "-config",
                "ca.cnf",
                "-keyout",
                "ca.key",
                "-out",
                "ca.crt",
            )
        for role in ("server", "client"):
            _sign(folder, role, name)
        texts = {key: (folder / key.replace("_", ".")).read_text() for key in CertificateSet.__annotations__}
        return CertificateSet(**texts)


def renewal_is_due(known: CertificateSet, name: str, now: float) -> bool:
    """Whether `renewed` would make new certificates."""
    with tempfile.TemporaryDirectory(prefix="paictl-certificates-") as temporary:
        return not _is_good(Path(temporary), known, name, now)


def kept_in(path: Path, name: str, now: float) -> CertificateSet:
    """The certificates that a file (mode 0600) keeps, made or renewed if need be. Raises `PaictlError`."""
    try:
        known = certificate_set(json.loads(path.read_text(encoding="utf-8")))
    except FileNotFoundError:
        known = None
    except (OSError, ValueError, AttributeError) as error:
        reason = getattr(error, "strerror", None) or "not the JSON that paictl wrote"
        raise PaictlError(
            f"the kept certificates cannot be read: {reason}",
            where=str(path),
            hint="delete the file to have new certificates made",
        ) from None
    fresh = renewed(known, name, now)
    if fresh != known:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.touch(mode=0o600)
        replace_file(path, json.dumps(asdict(fresh), indent=1).encode())
    return fresh


def _is_good(folder: Path, known: CertificateSet, name: str, now: float) -> bool:
    """Whether all last for long enough, belong to one authority, and the server's has this name."""
    shares = [_left(folder, pem, now) for pem in (known.ca_crt, known.server_crt, known.client_crt)]
    if min(shares) <= RENEW_BELOW:
        return False
    (folder / "ca.crt").write_text(known.ca_crt)
    for role, pem in (("server", known.server_crt), ("client", known.client_crt)):
        (folder / f"{role}.crt").write_text(pem)
        words = ("-verify_hostname", name) if role == "server" else ()
        if not _belong(folder, pem, getattr(known, f"{role}_key")):
            return False
        if _run(folder, "verify", "-no_check_time", "-CAfile", "ca.crt", *words, f"{role}.crt").returncode:
            return False
    return True


def _belong(folder: Path, certificate: str, key: str) -> bool:
    """Whether a key is that of a certificate."""
    (folder / "looked.crt").write_text(certificate)
    (folder / "looked.key").write_text(key)
    public = _run(folder, "x509", "-in", "looked.crt", "-noout", "-pubkey").stdout
    return bool(public) and public == _run(folder, "pkey", "-in", "looked.key", "-pubout").stdout


def _left(folder: Path, pem: str, now: float) -> float:
    """The share of a certificate's life that is left; 0 for what cannot be read."""
    (folder / "looked.crt").write_text(pem)
    done = _run(folder, "x509", "-in", "looked.crt", "-noout", "-startdate", "-enddate")
    dates = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.returncode or not {"notBefore", "notAfter"} <= dates.keys():
        return 0.0
    start, end = (ssl.cert_time_to_seconds(dates[key]) for key in ("notBefore", "notAfter"))
    return max(0.0, (end - now) / (end - start))


def _sign(folder: Path, role: str, name: str) -> None:
    subject = f"/CN={name[:64]}" if role == "server" else "/CN=kube-scheduler of paictl"
    (folder / f"{role}.ext").write_text(_EXTENSIONS[role].format(name=name))
    _openssl(folder, "req", "-new", *_EC, "-subj", subject, "-keyout", f"{role}.key", "-out", f"{role}.csr")
    _openssl(
        folder,
        "x509",
        "-req",
        "-in",
        f"{role}.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-days",
        str(DAYS),
        "-set_serial",
        f"0x{secrets.token_hex(16)}",
        "-extfile",
        f"{role}.ext",
        "-out",
        f"{role}.crt",
    )


def _openssl(folder: Path, *words: str) -> None:
    done = _run(folder, *words)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PaictlError(f"cannot make a certificate: openssl {words[0]}: {last}", hint="see: openssl version")


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(  # noqa: S603 - a fixed program; its arguments name files of this folder
            ["openssl", *words],  # noqa: S607 - found on PATH
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError:
        raise PaictlError(
            "openssl is not installed; it makes the certificates of kube-scheduler and the extender",
            hint="install it (apt-get install openssl), or use plain HTTP: extender config --no-tls, "
            "or `tls: false` in the section hivedscheduler",
        ) from None
