"""Paths of keys, as people write them: ``rest-server.server-port``, ``cluster."a.b".c``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import TypeAlias

from paictl.errors import PaictlError

KeyPath: TypeAlias = "tuple[str, ...]"

_STEP = re.compile(r'("(?:[^"\\]|\\.)*"|[^".\[\]]+)(\.|\Z)')


def dotted(path: Iterable[str | int]) -> str:
    """The path as text; a key that holds a dot or anything else special stands in double quotes, an index in ``[]``."""
    return "".join(_step(step) for step in path).removeprefix(".")


def _step(step: str | int) -> str:
    if isinstance(step, int):
        return f"[{step}]"
    plain = step.isprintable() and step and not set(step) & set('."[]')
    return f".{step if plain else json.dumps(step)}"


def parse_dotted(text: str) -> KeyPath:
    """The path that a text means, the inverse of `dotted`; raises `PaictlError` for one that means none."""
    steps: list[str] = []
    at = 0
    while match := _STEP.match(text, at):
        word, dot = match.groups()
        steps.append(json.loads(word) if word.startswith('"') else word)
        at = match.end()
        if not dot:
            return tuple(steps)
    raise PaictlError(f"{text!r} is not a key path", hint='write it as key.key.key, with "..." around a key with dots')
