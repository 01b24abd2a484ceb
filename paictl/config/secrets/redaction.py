"""Names that sound like secrets, and their values starred out of reports, which end up in the logs of CI systems.

It goes by the names of keys, in the text: a file that is too broken to be read has secrets too.

Reports, diffs, pushes and stored jobs all ask here, so that none of them shows what another one hides.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from paictl.config.reading.source import Located, Source, place_of

_KEY = re.compile(r"(?<![\w.-])([\w.-]{1,200})[\"']?\s*:")
_QUOTED = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^']|'')*'?|[^\s#]"
_BLOCK_VALUE = re.compile(rf"\s*(?![|>][-+0-9]*\s*(?:#|$))((?:{_QUOTED})(?:[^#]|(?<!\s)#)*)")
_FLOW_VALUE = re.compile(rf"\s*((?:{_QUOTED})[^,}}#]*)")
_SEVERAL_VALUES = re.compile(r"\s*([{\[][^}\]]*)")
_NO_VALUE = re.compile(r"\s*(?:[|>][-+0-9]*)?\s*(?:#.*)?$")
_ITEM = re.compile(r"\s*(?:- +)?(?:[\w.-]+\s*:\s)?\s*(?P<value>.*)")
_FARTHEST = 200
"""Lines that are looked back for the key that a line belongs to."""


def redacted(line: str) -> str:
    """A line with the values of passwords and the like starred out, each as wide as before."""
    pieces: list[str] = []
    done = 0
    for start, end in _values(line):
        pieces += [line[done:start], _stars(line[start:end])]
        done = end
    return ADDRESS_WITH_PASSWORD.sub(_without_password, "".join([*pieces, line[done:]]))


def _values(line: str) -> Iterator[tuple[int, int]]:
    """(start, end) of the values in a line whose keys sound like secrets."""
    done = 0
    value = _FLOW_VALUE if "{" in line else _BLOCK_VALUE
    for key in _KEY.finditer(line):
        if key.start() >= done and sounds_secret(key.group(1)):
            match = _SEVERAL_VALUES.match(line, key.end()) or value.match(line, key.end())
            if match is not None:
                done = match.end()
                yield match.span(1)


@lru_cache(maxsize=16)
def redacted_line(source: Source, number: int) -> str:
    """A 1-based line of a file as a report may quote it: also what stands below a key such as `password: |`.

    Remembered for a few lines, because a report comes back to a long line for each problem in it.
    """
    line = source.line(number)
    return _ITEM.sub(_starred_value, line, count=1) if _below_secret(source, number) else redacted(line)


def is_secret(at: Located) -> bool:
    """Whether a piece of a file is part of what reports star out."""
    place = place_of(at)
    line = slice(place.column - 1, place.end_column - 1 if place.end_line == place.line else None)
    root = at.source.root
    return redacted_line(root, place.line)[line] != root.line(place.line)[line]


def _below_secret(source: Source, number: int) -> bool:
    """Whether one of the keys that a line stands under, by indentation, is that of a secret, or of several."""
    depth = _indent(source.line(number))
    for above in range(number - 1, max(number - _FARTHEST, 0), -1):
        if not depth:
            break
        line = source.line(above)
        if line.strip() and _indent(line) < depth:
            if any(sounds_secret(key.group(1)) and _NO_VALUE.match(line, key.end()) for key in _KEY.finditer(line)):
                return True
            depth = _indent(line)
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _stars(text: str) -> str:
    return re.sub(r"[^\s\"']", "*", text)


def _starred_value(match: re.Match[str]) -> str:
    return match.group()[: match.start("value") - match.start()] + _stars(match.group("value"))


def _without_password(match: re.Match[str]) -> str:
    start, end = (offset - match.start() for offset in match.span("password"))
    return match.group()[:start] + "*" * (end - start) + match.group()[end:]


_SOUNDS = re.compile(
    r"passw|passphrase|pwd|secret|token|credential|bearer|webhook(-url)?$|(?:^|-)auth$|^extra-receivers$"
    r"|(api|access|account|auth|private|encryption|signing)-?key"
    r"|(?:^|(?:ssh|ssl|tls|shared|master|storage|license|subscription)-?)key$|connection-?string|(?:^|-)sas$"
)
"""What is searched for in a key in lower case, with ``-`` for ``_``."""

_ABOUT = re.compile(r"-(name|namespace|file|path|type|ttl|expire-time|expiration|lifetime|length)s?$")
"""Ends of keys that are about a secret, and not one."""

ADDRESS_WITH_PASSWORD = re.compile(r"://[^/\s:@]{0,200}:(?P<password>[^/\s@]{1,1000})@")
"""A user's password inside an address."""


def sounds_secret(name: str) -> bool:
    """Whether a key sounds as if its value was a secret."""
    plain = name.lower().replace("_", "-")
    return _SOUNDS.search(plain) is not None and _ABOUT.search(plain) is None
