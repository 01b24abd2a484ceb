"""Passwords as slow hashes that say how they were made, so that the cost can grow without anybody noticing."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
from typing import Final

from paictl.config.secrets.sealing import is_seal, is_seal_of
from paictl.errors import PaictlError
from paictl.i18n import text

COST: tuple[int, int, int] = (14, 8, 5)
"""scrypt's (log2 n, r, p): 16 MiB and a fifth of a second, as OWASP recommends."""

_MOST: Final = (20, 16, 16)
"""Most that a stored hash may cost: it comes from a store that an attacker may have changed."""
SHORTEST: Final = 6
"""Characters of a password at least, as in OpenPAI."""
LONGEST: Final = 256

_HASH = re.compile(r"scrypt:(\d{1,2}):(\d{1,2}):(\d{1,2}):([\w-]{22}):([\w-]{43})")


def check(password: str) -> None:
    """Raise `PaictlError` for a password that is too short, too long, or has control characters."""
    if not SHORTEST <= len(password) <= LONGEST:
        raise PaictlError(
            text("a password must have {least} to {most} characters", least=SHORTEST, most=LONGEST),
            hint="choose another",
        )
    if any(character < " " or character == "\x7f" for character in password):
        raise PaictlError("a password cannot contain control characters", hint="choose another")


def generated() -> str:
    """A password that cannot be guessed: 96 random bits in 16 characters that every shell and form takes."""
    return secrets.token_urlsafe(12)


def hashed(password: str) -> str:
    """A new hash of a password, with its parameters and a salt of its own."""
    salt = secrets.token_bytes(16)
    return ":".join(("scrypt", *map(str, COST), _encoded(salt), _encoded(_scrypt(password, salt, COST))))


def is_right(password: str, stored: str) -> bool:
    """Whether a hash is that of a password, or a seal of the configuration is; False for what is neither.

    It takes about the same time for every kind of no, so that nobody learns which accounts there are.
    """
    if len(password) > LONGEST:
        return False
    if is_seal(stored):
        return is_seal_of(stored, password)
    match = _HASH.fullmatch(stored)
    cost = (int(match[1]), int(match[2]), int(match[3])) if match else COST
    if match is None or not all(1 <= factor <= most for factor, most in zip(cost, _MOST, strict=True)):
        _scrypt(password, b"nobody", COST)
        return False
    salt = base64.urlsafe_b64decode(match[4] + "==")
    return hmac.compare_digest(_encoded(_scrypt(password, salt, cost)), match[5])


def is_stale(stored: str) -> bool:
    """Whether a hash was made otherwise than new ones are."""
    return not stored.startswith(":".join(("scrypt", *map(str, COST), "")))


def _scrypt(password: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    log_n, r, p = cost
    data = password.encode("utf-8", errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=2**log_n, r=r, p=p, dklen=32, maxmem=(256 << log_n) * r)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
