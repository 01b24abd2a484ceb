"""Key pairs of SSH, made by openssl: controllers run in an image that has it, and none of OpenSSH's programs."""

from __future__ import annotations

import base64
import subprocess
from typing import Final

from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text

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
    private = _openssl(["genrsa", "-traditional", str(BITS)], "")
    modulus = _openssl(["rsa", "-noout", "-modulus"], private)
    number = int(modulus.strip().removeprefix("Modulus="), 16)
    blob = b"".join(map(_field, (b"ssh-rsa", _number(_EXPONENT), _number(number))))
    return KeyPair(private, f"ssh-rsa {base64.b64encode(blob).decode()}")


def _number(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "big")  # a leading zero where it would read as negative


def _field(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _openssl(words: list[str], stdin: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - words of this module alone
            ["openssl", *words], input=stdin, capture_output=True, text=True, check=False, timeout=_SECONDS  # noqa: S607
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PaictlError(text("openssl cannot make a key: {error}", error=str(error))) from None
    if done.returncode:
        raise PaictlError(text("openssl cannot make a key: {error}", error=(done.stderr.splitlines() or [""])[-1]))
    return done.stdout
