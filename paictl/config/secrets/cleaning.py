"""Secrets taken out of texts that programs wrote: logs, messages, events.

`redaction` reads files of a known form. A log has none: a password may be in a header, an address, a pair, a key in
PEM, or bare. So the caller names the secrets that it knows, and all else goes by what it looks like. A word that is
taken out in vain costs a reader little; one that stays may cost the owner a secret.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from paictl.config.secrets.redaction import sounds_secret

MASK: Final = "***"
LEAST: Final = 6
"""Characters of a known secret that is looked for: a shorter one would be found in half of all words."""

_BEGIN = r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----"
_END = r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----"
_PEM: Final = re.compile(rf"{_BEGIN}[\s\S]{{0,20000}}?{_END}")
_BEGUN_PEM: Final = re.compile(rf"{_BEGIN}(?:(?:\\n|\s)*[A-Za-z0-9+/=]{{16,}})*")
"""A key whose end is not in the text."""
_KEY_PIECE: Final = re.compile(r"[A-Za-z0-9+/=]+")
_BETWEEN: Final = re.compile(r"(\\n|\s+)")
_BASE64_LINE: Final = re.compile(r"^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$", re.MULTILINE)
"""The middle of a key, or of anything else that nobody reads."""

_HEADER: Final = re.compile(
    r"(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,60}(?:token|key|auth|secret)[\w-]{0,60})"
    r"(\\*[\"']?\s*[:=]\s*[\[({\s\\\"']*)([^\r\n\"'\])}\\]+)"
)
_ADDRESS: Final = re.compile(r"(://[^/\s:@\"']{0,200}:)([^\s/\"']{1,1000})(?=@)")
_TOKEN_ADDRESS: Final = re.compile(r"(://)([^/\s:@\"']{20,1000})(?=@)")
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)(?=[\w.~+/=-]*[\d._])([\w.~+/=-]{8,})")
_FLAG: Final = re.compile(r"(?<![\w-])(--?)([A-Za-z][\w-]{0,100})(\s+)(?!-)(\"[^\"\r\n]*\"?|'[^'\r\n]*'?|[^\s\"']+)")
_LOOKS: Final = re.compile(
    r"\beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"  # a JSON Web Token
    r"|\bgh[opsur]_\w{20,}|\bglpat-[\w-]{16,}|\bnvapi-[\w-]{20,}|\bhvs\.[\w-]{20,}|\bxox[abp]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\b[a-z0-9]{6}\.[a-z0-9]{16}\b"  # the last is how kubeadm's tokens look
)
_SEALED: Final = re.compile(r"sealed:[\w:+/=-]+")

_KEY: Final = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]{0,100})(\\*[\"']?\s*([:=])[ \t]*)")
_QUOTED: Final = re.compile(
    r"(\\+[\"'])([^\r\n]*?)(?=\\+[\"']|$)|(\")((?:[^\"\\\r\n]|\\.)*)|(')([^'\r\n]*)", re.MULTILINE
)
_SEVERAL: Final = re.compile(r"([\[{])([^\]}\r\n]*)")
_PLAIN: Final = {":": re.compile(r"[^\r\n,;\"'}\])]+"), "=": re.compile(r"[^\s,;&\"'}\])]+")}
_REFERENCE: Final = re.compile(
    r"[a-z0-9][a-z0-9.~-]{0,252}(?:/[a-z0-9][a-z0-9.~-]{0,252}|~[a-z0-9][a-z0-9.-]{0,252})\Z"
)
"""NAMESPACE/NAME, USER~JOB: what controllers call the key of their queue, or the Secret that they looked for."""
_REFERRING: Final = ("key", "secret")


class Cleaner:
    """Takes known secrets out of texts, and what looks like one."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {word for one in known for word in (one, one.strip()) if len(word.strip()) >= LEAST}
        coded = {base64.b64encode(one.encode()).decode() for one in values}
        self._known = sorted(values | coded, key=len, reverse=True)  # a longer one may hold a shorter one

    def text(self, text: str) -> str:
        """A text of any number of lines, with `MASK` in the place of secrets."""
        if "PRIVATE KEY-----" in text:
            text = _without_end(_BEGUN_PEM.sub(MASK, _PEM.sub(MASK, text)))
        text = _BASE64_LINE.sub(MASK, text)
        for value in self._known:
            if value in text:
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", MASK, text)
        text = _SEALED.sub("sealed", text)
        text = _HEADER.sub(rf"\1\2{MASK}", text)
        text = _TOKEN_ADDRESS.sub(rf"\1{MASK}", _ADDRESS.sub(rf"\1{MASK}", text))
        text = _LOOKS.sub(MASK, _BEARER.sub(rf"\1{MASK}", text))
        return "".join(_without_pairs(_FLAG.sub(_flag, text)))

    def data(self, found: Any) -> Any:
        """A value of JSON, with every text in it cleaned, and whole ones at keys that sound like secrets."""
        if isinstance(found, dict):
            return {
                key: MASK if isinstance(value, str) and value and sounds_secret(str(key)) else self.data(value)
                for key, value in found.items()
            }
        if isinstance(found, list):
            return [self.data(one) for one in found]
        return self.text(found) if isinstance(found, str) else found

    def file(self, text: str) -> str:
        """The text of a file; what is JSON, as a whole or line by line, stays JSON."""
        whole = _parsed(text)
        if whole is not None:
            return json.dumps(self.data(whole), indent=2, ensure_ascii=False) + "\n"
        lines = [_parsed(line) for line in text.splitlines()]
        if not lines or None in lines:
            return self.text(text)
        return "".join(json.dumps(self.data(line), ensure_ascii=False) + "\n" for line in lines)


def _parsed(text: str) -> Any:
    """What a text is in JSON, None if it is no object or list."""
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except ValueError:
        return None


def _without_end(text: str) -> str:
    """A text without the ends of keys whose beginning is not in it."""
    *pieces, rest = re.split(_END, text)
    kept: list[str] = []
    for piece in pieces:
        words = _BETWEEN.split(piece)
        while words and (_KEY_PIECE.fullmatch(words[-1]) or _BETWEEN.fullmatch(words[-1]) or not words[-1]):
            words.pop()
        kept += ["".join(words), MASK]
    return "".join([*kept, rest])


def secret_values(text: str) -> Iterator[str]:
    """The values in a text whose keys sound like secrets, as in a configuration file or credentials of a registry."""
    for start, end in _pairs(text):
        yield text[start:end]


def _without_pairs(text: str) -> Iterator[str]:
    done = 0
    for start, end in _pairs(text):
        yield text[done:start]
        yield MASK
        done = end
    yield text[done:]


def _pairs(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of values whose keys sound like secrets, quotes left out."""
    done = 0
    for key in _KEY.finditer(text):
        if key.start() < done or not sounds_secret(key[1]):
            continue
        start, end = _value_at(text, key.end(), key[3])
        if start == end or text[start:end] == MASK:
            continue
        if text[key.start() - 1 : key.start()] == "/" and key[2] == ": ":
            continue  # the end of a path, and what is said about it
        if key[1].lower() in _REFERRING and _REFERENCE.match(text[start:end]):
            continue
        done = end
        yield start, end


def _value_at(text: str, at: int, sign: str) -> tuple[int, int]:
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        group = next(number for number in (2, 4, 6) if quoted[number] is not None)
        return quoted.span(group)
    several = _SEVERAL.match(text, at)
    if several is not None:
        return several.span(2)
    plain = _PLAIN[sign].match(text, at)
    return (at, at) if plain is None else (at, at + len(plain[0].rstrip()))


def _flag(match: re.Match[str]) -> str:
    dashes, name, space, _ = match.groups()
    return f"{dashes}{name}{space}{MASK}" if sounds_secret(name) else match[0]
