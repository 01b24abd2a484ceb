"""Secrets of configuration files: never stored in clear by the embedded cluster, and never shown.

`seal` replaces each secret by a salted slow hash of it (scrypt), so that a later push can tell "unchanged" from
"changed" while nobody can read the secret back. A sealed text keeps its lines, its comments and everything else; it can
be pulled, edited and pushed again: a seal that comes back means that the secret stays as it is.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache

from paictl import i18n
from paictl.config.reading.nodes import dotted
from paictl.config.secrets.redaction import sounds_secret
from paictl.config.secrets.walk import MARK, SEAL_PREFIX, SHOWN, Path, Secret, SecretError, Walk, walk

COST = (14, 8, 5)
"""scrypt's (log2 n, r, p): 16 MiB and a fifth of a second per secret, as OWASP recommends."""

QUICK = (4, 8, 1)
"""The same for what is no secret."""

MAX_COST = (17, 16, 16)
"""Most that a seal of another version of paictl may cost; it is read from a file that somebody may have made up."""

MAX_SECRETS = 256
"""Most secrets that a file may have; hashing more would take minutes."""

REMOVED = "<removed>"
"""What stands for a secret in a comment."""

_TAGS = ("str", "int")
"""What YAML makes of a password: of one with digits only a number."""

_SEAL = re.compile(r"sealed:scrypt:(\d{1,2}):(\d{1,2}):(\d{1,2}):([\w-]{22}):([\w-]{43})")
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)
_SETTING = re.compile(r"""([\w-]+)(["']?\s*[:=]\s*)("[^"]*"|'[^']*'|\S+)(?=\s*(?:#.*)?$)""")
_BLOCK_COMMENT = re.compile(r"[|>][-+1-9]*([ \t]+#[^\r\n]*)")


def is_seal(value: object) -> bool:
    """Whether a value is what `seal` puts in the place of a secret."""
    return isinstance(value, str) and _SEAL.fullmatch(value) is not None


def is_seal_of(value: str, secret: str) -> bool:
    """Whether a seal is that of a secret, however YAML has read it; nothing of it is remembered.

    So a password that only the configuration says can be checked without anybody having it.
    """
    return any(_matches(value, f"{tag}:{secret}", _slow_hash) for tag in _TAGS)


def seal(document: Walk, *known: Walk) -> Walk:
    """The text with every secret sealed; `known` are sealed texts of the same file, e.g. what the cluster has.

    A secret that is the same as in one of them keeps its seal, so that equal sealed texts mean equal secrets. Raises
    `SecretError` if the text holds a seal that none of them has: such a seal stands for a secret that nobody here
    ever saw.
    """
    seals: dict[Path, list[str]] = {}
    for secret in (secret for other in known for secret in _seals(other)):
        seals.setdefault(secret.path, []).append(secret.value)
    everywhere = {value for values in seals.values() for value in values}

    def sealed(secret: Secret) -> str:
        where = dotted(secret.path)
        if secret.value == SHOWN:
            raise SecretError(
                i18n.text("{where} is {shown}, as paictl shows it", where=where, shown=SHOWN),
                hint="write the secret, or pull the file again",
            )
        if secret.value.startswith(SEAL_PREFIX):
            if secret.value not in everywhere:
                raise SecretError(
                    i18n.text("{where} has a seal that the cluster does not have", where=where),
                    hint="write the secret itself",
                )
            return secret.value
        clear = f"{secret.tag}:{secret.value}"
        for value in seals.get(secret.path, ()):
            if _matches(value, clear):
                return value
        return _seal_of(clear, COST)

    return replace_secrets(document, sealed)


def mask(document: Walk) -> Walk:
    """The text as it may be shown: `SHOWN` for every secret, sealed or not; the same errors as `seal`."""
    return replace_secrets(document, lambda _: SHOWN)


def seals_in(document: Walk) -> set[str]:
    """The seals that a text holds."""
    return {secret.value for secret in _seals(document)}


def values_behind(clear: Walk, sealed: Walk) -> dict[str, str]:
    """What seals stand for: seal → ``TAG:VALUE`` (the tag is YAML's: ``str``, ``int``), for a store of secrets.

    `clear` has the secrets in clear and `sealed` was made of it; a seal that `clear` had already is not in the
    outcome, because nobody here knows its value.
    """
    values: dict[Path, list[str]] = {}
    for secret in clear.secrets:
        if not is_seal(secret.value):
            values.setdefault(secret.path, []).append(f"{secret.tag}:{secret.value}")
    pairs = ((secret.value, value) for secret in _seals(sealed) for value in values.get(secret.path, ()))
    return {seal: value for seal, value in pairs if _matches(seal, value)}


def replace_secrets(document: Walk, replacement: Callable[[Secret], str]) -> Walk:
    """The text with another value for each secret; lines, comments and all other bytes stay where they are.

    A comment that repeats a secret, or holds a setting that sounds like one, loses that word: it would be the secret,
    or the one of yesterday. Raises `SecretError` if the result could not be read as it should.
    """
    body = document.text.removeprefix(MARK)
    if len(document.secrets) > MAX_SECRETS:
        raise SecretError(
            i18n.text("has {count} secrets, the limit is {most}", count=len(document.secrets), most=MAX_SECRETS),
            hint="split the file",
        )
    pieces = [(secret.start, secret.end, _in_place(body, secret, replacement(secret))) for secret in document.secrets]
    pieces += _comments(body, document)
    result = body
    for start, end, piece in sorted(pieces, reverse=True):
        result = result[:start] + piece + result[end:]
    if result == body:
        return document
    made = walk(document.text[: len(document.text) - len(body)] + result, document.kind)
    if made.shape != document.shape:
        raise SecretError(
            "has a layout in which secrets cannot be replaced", hint="write secrets in quotes, one per line"
        )
    return made


def _in_place(text: str, secret: Secret, value: str) -> str:
    """A value in quotes with as many line ends behind it as the secret had, so that what follows keeps its line."""
    written = text[secret.start : secret.end]
    comment = _BLOCK_COMMENT.match(written)
    return f'"{value}"{comment.group(1) if comment else ""}' + "".join(re.findall(r"\r?\n|\r", written))


def _comments(text: str, document: Walk) -> Iterator[tuple[int, int, str]]:
    """(start, end, text) of the comments that say too much."""
    values = {line.strip() for secret in document.secrets if not is_seal(secret.value) for line in _lines(secret)}
    at = 0
    for start, end in [*document.scalars, (len(text), len(text))]:
        yield from _clean(text, at, start, values)
        block = _BLOCK_COMMENT.match(text, start, end)
        if block and not any(secret.start == start for secret in document.secrets):
            yield from _clean(text, block.start(1), block.end(1), values)
        at = end


def _lines(secret: Secret) -> list[str]:
    return [secret.value, *secret.value.splitlines()]


def _clean(text: str, start: int, end: int, values: Iterable[str]) -> Iterator[tuple[int, int, str]]:
    for match in _COMMENT.finditer(text, start, end):
        comment = match.group()
        cleaned = _SETTING.sub(_cleaned_setting, comment)
        for value in sorted(filter(None, values), key=len, reverse=True):
            # A short secret inside another word is a coincidence; replacing it would spell it out.
            edge = r"" if len(value) >= 4 else r"\b"
            cleaned = re.sub(edge + re.escape(value) + edge, REMOVED, cleaned)
        if cleaned != comment:
            yield match.start(), match.end(), cleaned


def _cleaned_setting(match: re.Match[str]) -> str:
    name, colon, value = match.groups()
    shown = value in (SHOWN, REMOVED) or not sounds_secret(name)
    return match.group() if shown else f"{name}{colon}{REMOVED}"


def _seals(document: Walk) -> Iterator[Secret]:
    """The secrets of a text that are sealed."""
    return (secret for secret in document.secrets if is_seal(secret.value))


def quick_seal(value: str) -> str:
    """A seal of a text that everybody may read, such as what a lab comes with: made and tried in no time."""
    return _seal_of(f"str:{value}", QUICK)


def _seal_of(clear: str, cost: tuple[int, int, int]) -> str:
    salt = os.urandom(16)
    log_n, r, p = cost
    return f"{SEAL_PREFIX}{log_n}:{r}:{p}:{_encoded(salt)}:{_encoded(_hash(clear, salt, cost))}"


def _matches(
    seal_text: str, clear: str, hashed: Callable[[str, bytes, tuple[int, int, int]], bytes] | None = None
) -> bool:
    """Whether a seal is that of a secret; one that would cost more than `MAX_COST` is not even tried."""
    match = _SEAL.fullmatch(seal_text)
    if match is None:
        return False
    cost = (int(match[1]), int(match[2]), int(match[3]))
    if not all(1 <= factor <= most for factor, most in zip(cost, MAX_COST, strict=True)):
        return False
    salt = base64.urlsafe_b64decode(match[4] + "==")
    return hmac.compare_digest(_encoded((hashed or _hash)(clear, salt, cost)), match[5])


@lru_cache(maxsize=256)
def _hash(clear: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    """Slow on purpose, so never done twice in a process: labs and tests push the same files again and again."""
    return _slow_hash(clear, salt, cost)


def _slow_hash(clear: str, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    log_n, r, p = cost
    data = clear.encode("utf-8", errors="surrogatepass")
    return hashlib.scrypt(data, salt=salt, n=2**log_n, r=r, p=p, dklen=32, maxmem=(256 << log_n) * r)


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")
