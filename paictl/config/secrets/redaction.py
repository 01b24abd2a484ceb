"""Passwords and the like, starred out where a report would quote them: reports end up in the logs of CI systems.

It goes by the names of keys, in the text: a file that is too broken to be read has secrets too.
"""

from __future__ import annotations

import re
from functools import lru_cache

from paictl.config.reading.source import Located, Source, place_of

_NAME = r"(?:password|passwd|pwd|secret|htpasswd|token|account[_-]?key)"
_COLON = r"[\"']?\s*:\s*(?![|>][-+0-9]*\s*(?:#|$))"
_VALUE = r"\"(?:[^\"\\]|\\.)*\"?|'(?:[^']|'')*'?|[^\s#]"
_BLOCK = re.compile(rf"{_NAME}{_COLON}(?P<value>{_VALUE}(?:[^#]|(?<!\s)#)*)", re.IGNORECASE)
_FLOW = re.compile(rf"{_NAME}{_COLON}(?P<value>{_VALUE}[^,}}#]*)", re.IGNORECASE)
_SEVERAL = re.compile(rf"{_NAME}s?[\"']?\s*:\s*(?P<value>[{{\[][^}}\]]*)", re.IGNORECASE)
_HEAD = re.compile(rf"{_NAME}s?[\"']?\s*:\s*(?:[|>][-+0-9]*)?\s*(?:#.*)?$", re.IGNORECASE)
_ITEM = re.compile(r"\s*(?:- +)?(?:[\w.-]+\s*:\s)?\s*(?P<value>.*)")
_FARTHEST = 200
"""Lines that are looked back for the key that a line belongs to."""


def redacted(line: str) -> str:
    """A line with the values of passwords and the like starred out, each as wide as before."""
    return (_FLOW if "{" in line else _BLOCK).sub(_starred, _SEVERAL.sub(_starred, line))


@lru_cache(maxsize=16)
def redacted_line(source: Source, number: int) -> str:
    """A 1-based line of a file as a report may quote it: also what stands below a key such as `password: |`.

    Remembered for a few lines, because a report comes back to a long line for each problem in it.
    """
    line = source.line(number)
    return _ITEM.sub(_starred, line, count=1) if _below_secret(source, number) else redacted(line)


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
        line = source.line(above)
        if line.strip() and _indent(line) < depth:
            if _HEAD.search(line):
                return True
            depth = _indent(line)
        if not depth:
            break
    return False


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _starred(match: re.Match[str]) -> str:
    head = match.group()[: match.start("value") - match.start()]
    return head + re.sub(r"[^\s\"']", "*", match.group("value"))
