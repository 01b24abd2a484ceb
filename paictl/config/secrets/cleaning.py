"""Secrets taken out of texts that programs wrote: logs, messages, events.

`redaction` reads files of a known form. A log has none: a password may be in a header, an address, a pair, a key in
PEM, or bare. So the caller names the secrets that it knows, and all else goes by what it looks like. A word that is
taken out in vain costs a reader little; one that stays may cost the owner a secret.

Programs write what strangers send them, so no pattern may look at the same piece of a line again and again: runs are
bounded wherever a search that fails could begin once more inside of them.
"""

from __future__ import annotations

import base64
import html
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final
from urllib.parse import quote, quote_plus

from paictl.config.secrets.redaction import sounds_secret

MASK: Final = "***"
LEAST: Final = 6
"""Characters of a known secret that is looked for: a shorter one would be found in half of all words."""
_LONG: Final = 10
"""Characters from which on a known secret is no part of a longer word by chance."""

_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_END: Final = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY-----")
_MOST_PEM: Final = 20_000
"""Characters of a private key."""
_BODY: Final = re.compile(r"(?:(?:\\n|\s)*[A-Za-z0-9+/=]{16,})*")
"""What follows the beginning of a key whose end is not in the text."""
_KEY_PIECE: Final = re.compile(r"[A-Za-z0-9+/=]+")
_BETWEEN: Final = re.compile(r"(\\n|\s+)")
_BASE64_LINE: Final = re.compile(r"^[ \t]*[A-Za-z0-9+/]{60,}={0,2}[ \t]*$", re.MULTILINE)
"""The middle of a key, or of anything else that nobody reads."""

_HEADER: Final = re.compile(
    r"(?i)(?<![\w-])((?:proxy-)?authorization|(?:set-)?cookie|x-[\w-]{0,60}(?:token|key|auth|secret)[\w-]{0,60})"
    r"(\\{0,8}[\"']?\s{0,20}[:=]\s{0,20}[\[({\s\\\"']{0,20})([^\r\n\"'\])}\\]+)"
)
_DIGEST: Final = re.compile(
    r"(?i)\b(digest\s{1,20})\w{1,40}=(?:\\?\"[^\"\r\n]*\"?|[^\s,\"]*)"
    r"(?:\s{0,20},\s{0,20}\w{1,40}=(?:\\?\"[^\"\r\n]*\"?|[^\s,\"]*)){0,30}"
)
"""All the pairs of such a header: their quotes would end it."""
_COOKIES: Final = re.compile(
    r"(?i)(?<![\w-])((?:set-)?cookie\s{0,20}[:=]\s{0,20})(?=[^\r\n\"]*=\")"
    r"[^\s;=\"']{1,200}=(?:\"[^\"\r\n]*\"?|[^;\s\"']*)"
    r"(?:;\s{0,20}[^\s;=\"']{1,200}(?:=(?:\"[^\"\r\n]*\"?|[^;\s\"']*))?){0,50}"
)
_ADDRESS: Final = re.compile(r"(://[^/\s:@\"']{0,200}:)([^\s/\"']{1,1000})(?=@)")
_TOKEN_ADDRESS: Final = re.compile(r"(://)([^/\s:@\"']{20,1000})(?=@)")
_BEARER: Final = re.compile(r"(?i)\b(bearer\s+)(?=[\w.~+/=-]*[\d._])([\w.~+/=-]{8,})")
_FLAG: Final = re.compile(
    r"(?<![\w-])(--?)([A-Za-z][\w-]{0,100})(\s+(?!-)|=|\\{0,8}[\"']\s{0,20},?\s{0,20}\\{0,8}(?=[\"']))"
    r"(\"[^\"\r\n]*\"?|'[^'\r\n]*'?|[^\s\"']+)"
)
"""A flag and its value: in two words, as one, or as two in a list."""
_DOTTED: Final = re.compile(r"(?<![\w-])[\w-]{11,}(?:\.[\w-]+)+")
"""Where a JSON Web Token may be: a search for its beginning could start again at every `eyJ` of a long word."""
_TOKEN: Final = re.compile(r"eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?")
_LOOKS: Final = re.compile(
    r"\bgh[opsur]_\w{20,}|\bglpat-[\w-]{16,}|\bnvapi-[\w-]{20,}|\bhvs\.[\w-]{20,}|\bxox[abp]-[\w-]{10,}"
    r"|\bAKIA[0-9A-Z]{16}\b|\b[a-z0-9]{6}\.[a-z0-9]{16}\b"  # the last is how kubeadm's tokens look
)
_SEALED: Final = re.compile(r"sealed:[\w:+/=-]+")

_KEY: Final = re.compile(r"(?<![\w.-])([A-Za-z_][\w.-]{0,100})(\\{0,8}[\"']?\s{0,20}(=>|[:=])[ \t]*)")
_NAMED: Final = re.compile(
    r"(\bname\\{0,8}[\"']?\s{0,20}[:=]\s{0,20}\\{0,8}[\"']?)([A-Za-z_][\w.-]{0,100})"
    r"(\\{0,8}[\"']?[\s,;]{1,40}\\{0,8}[\"']?value\\{0,8}[\"']?\s{0,20}[:=]\s{0,20})"
    r"(\\{1,8}\"[^\"\r\n]*|\"(?:[^\"\\\r\n]|\\.)*\"?|'[^'\r\n]*'?|[^\s,;\"'}\])]+)"
)
"""A variable of an environment, as Kubernetes writes it."""
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}[ \t]*\r?\n((?:[ \t]+[^\r\n]*\r?(?:\n|\Z))+)")
_QUOTED: Final = re.compile(
    r"(\\{1,8}[\"'])([^\r\n]*?)(?=\\{1,8}[\"']|$)|(\")((?:[^\"\\\r\n]|\\.)*)|(')([^'\r\n]*)", re.MULTILINE
)
_SEVERAL: Final = re.compile(r"([\[{])([^\]}\r\n]*)")
_PLAIN: Final = {":": re.compile(r"[^\r\n,;\"'}\])]+"), "=": re.compile(r"[^\s,;&\"'}\])]+")}
_REFERENCE: Final = re.compile(
    r"[a-z0-9][a-z0-9.~-]{0,252}(?:/[a-z0-9][a-z0-9.~-]{0,252}|~[a-z0-9][a-z0-9.-]{0,252})\Z"
)
"""NAMESPACE/NAME, USER~JOB: what controllers call the key of their queue, or the Secret that they looked for."""
_REFERRING: Final = ("key", "secret")

_DEEPEST: Final = 100
"""Levels of JSON that are looked into, whatever Python's own bound is: no program nests deeper, only an attacker."""


class Cleaner:
    """Takes known secrets out of texts, and what looks like one."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        values = {word for secret in known for word in (secret, secret.strip()) if len(word.strip()) >= LEAST}
        forms = {form for value in values for form in (value, *_forms(value)) if len(form) >= LEAST}
        self._short = frozenset(value for value in values if len(value) < _LONG)
        self._known = sorted(forms, key=len, reverse=True)  # a longer one may hold a shorter one

    def text(self, text: str) -> str:
        """A text of any number of lines, with `MASK` in the place of secrets."""
        if "PRIVATE KEY-----" in text:
            text = _without_end(_without_keys(text))
        text = _BASE64_LINE.sub(MASK, text)
        for value in self._known:
            if value in text:
                whole = re.escape(value)
                text = re.sub(rf"(?<![^\W_]){whole}(?![^\W_])" if value in self._short else whole, MASK, text)
        text = _SEALED.sub("sealed", text)
        text = _COOKIES.sub(rf"\1{MASK}", _DIGEST.sub(rf"\1{MASK}", text))
        text = _HEADER.sub(rf"\1\2{MASK}", text)
        text = _TOKEN_ADDRESS.sub(rf"\1{MASK}", _ADDRESS.sub(rf"\1{MASK}", text))
        text = _DOTTED.sub(lambda match: _TOKEN.sub(MASK, match[0]), _BEARER.sub(rf"\1{MASK}", text))
        text = _NAMED.sub(_variable, _LOOKS.sub(MASK, text))
        return "".join(_without_pairs(_FLAG.sub(_flag, text)))

    def data(self, data: Any, depth: int = 0) -> Any:
        """A value of JSON, with every text in it cleaned, and all texts masked below keys that sound like secrets.

        `MASK` takes the place of what lies deeper than `_DEEPEST` levels.
        """
        if depth > _DEEPEST:
            return MASK
        if isinstance(data, dict):
            done = {key: self._value(str(key), value, depth) for key, value in data.items()}
            named = data.get("name")
            if isinstance(named, str) and sounds_secret(named) and "value" in data:
                done["value"] = _masked(data["value"], depth + 1)
            return done
        if isinstance(data, list):
            flags = zip([None, *data], data, strict=False)
            return [MASK if _is_value(flag, word) else self.data(word, depth + 1) for flag, word in flags]
        return self.text(data) if isinstance(data, str) else data

    def _value(self, key: str, value: Any, depth: int) -> Any:
        refers = key.lower() in _REFERRING and isinstance(value, str) and _REFERENCE.match(value)
        if sounds_secret(key) and not refers:
            return _masked(value, depth + 1)
        return self.data(value, depth + 1)

    def file(self, text: str) -> str:
        """The text of a file; what is JSON, as a whole or line by line, stays JSON."""
        whole = _parsed(text)
        if whole is not None:
            return json.dumps(self.data(whole), indent=2, ensure_ascii=False) + "\n"
        lines = [_parsed(line) for line in text.splitlines()]
        if lines and None not in lines:
            return "".join(json.dumps(self.data(line), ensure_ascii=False) + "\n" for line in lines)
        return self.text(text)


def _parsed(text: str) -> Any:
    """What a text is in JSON, None if it is no object or list."""
    try:
        return json.loads(text) if text.lstrip()[:1] in ("{", "[") else None
    except (ValueError, RecursionError):
        return None


def _forms(value: str) -> Iterator[str]:
    """What programs make of a text before they write it: in JSON, addresses and pages, in base64 and hex."""
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield "".join(
        f"\\u{ord(character):04x}" if character in "<>&" else character
        for character in json.dumps(value, ensure_ascii=False)[1:-1]
    )
    yield from (
        html.escape(value),
        *(make(value, safe=safe, errors="replace") for make in (quote, quote_plus) for safe in ("/", "")),
    )
    data = value.encode(errors="replace")
    yield from (data.hex(), data.hex().upper())
    for before in range(3):  # where it begins among the bytes of something longer, as in "user:password"
        coded = base64.b64encode(b"-" * before + data).decode().rstrip("=")
        last = -1 if (before + len(data)) % 3 else None  # shares its bits with what follows
        for form in (coded, coded.replace("+", "-").replace("/", "_")):
            yield form[(0, 2, 3)[before] : last]
    yield base64.b64encode(data).decode()
    yield base64.urlsafe_b64encode(data).decode()


def _masked(data: Any, depth: int) -> Any:
    """A value of JSON without its texts."""
    if depth > _DEEPEST:
        return MASK
    if isinstance(data, dict):
        return {key: _masked(value, depth + 1) for key, value in data.items()}
    if isinstance(data, list):
        return [_masked(item, depth + 1) for item in data]
    return MASK if isinstance(data, str) and data else data


def _is_value(flag: Any, word: Any) -> bool:
    """Whether a word of a command is the secret that the flag before it announces."""
    if not isinstance(flag, str) or not isinstance(word, str) or word.startswith("-"):
        return False
    return flag.startswith("-") and "=" not in flag and sounds_secret(flag.lstrip("-"))


def _without_keys(text: str) -> str:
    """A text without private keys, and without the beginnings of some."""
    ends = [match.span() for match in _END.finditer(text)]
    kept, done, number = [], 0, 0
    for begin in _BEGIN.finditer(text):
        if begin.start() < done:
            continue
        while number < len(ends) and ends[number][0] < begin.end():
            number += 1
        kept += [text[done : begin.start()], MASK]
        if number < len(ends) and ends[number][0] - begin.end() <= _MOST_PEM:
            done = ends[number][1]
        else:
            body = _BODY.match(text, begin.end())
            done = body.end() if body else begin.end()
    return "".join([*kept, text[done:]])


def _without_end(text: str) -> str:
    """A text without the ends of keys whose beginning is not in it."""
    *pieces, rest = _END.split(text)
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
        if text[key.start() - 1 : key.start()] == "/" and key[2] == ": ":
            continue  # the end of a path, and what is said about it
        start, end = _value_at(text, key.end(), key[3][0])
        if start == end or text[start:end] == MASK:
            continue
        if key[1].lower() in _REFERRING and _REFERENCE.match(text[start:end]):
            continue
        done = end
        yield start, end


def _value_at(text: str, at: int, sign: str) -> tuple[int, int]:
    block = _BLOCK.match(text, at)
    if block is not None:
        start, piece = block.start(1), block[1]
        return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        group = next(number for number in (2, 4, 6) if quoted[number] is not None)
        return quoted.span(group)
    several = _SEVERAL.match(text, at)
    if several is not None:
        return several.span(2)
    plain = _PLAIN[sign].match(text, at)
    return (at, at) if plain is None else (at, at + len(plain[0].rstrip()))


def _variable(match: re.Match[str]) -> str:
    lead, name, between, value = match.groups()
    if not sounds_secret(name):
        return match[0]
    opened = value[: len(value) - len(value.lstrip("\\\"'"))]
    closed = opened if len(opened) == 1 and value.endswith(opened) else ""
    return f"{lead}{name}{between}{opened}{MASK}{closed}"


def _flag(match: re.Match[str]) -> str:
    dashes, name, space, _ = match.groups()
    return f"{dashes}{name}{space}{MASK}" if sounds_secret(name) else match[0]
