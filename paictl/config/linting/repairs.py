"""Repairs that rules may offer: only where one answer is obvious, and written so that YAML reads it back."""

from __future__ import annotations

import json
import re

from paictl.config.reading.nodes import ScalarNode
from paictl.config.reading.problem import Edit
from paictl.config.reading.source import Located
from paictl.config.reading.values import resolve

_BARE = re.compile(r"[A-Za-z_][\w./-]*")
_NUMBERED = re.compile(r"([a-z]*)([0-9]+)")
_MODEL = 3
"""Letters before a number that belong to a model (V100, T4, RTX3090) and not to a word that may be mistyped."""


def written(value: object) -> str:
    """How a value is written in a file: quoted where it would be read as something else."""
    if not isinstance(value, str):
        return json.dumps(value)
    bare = resolve(value)[0] == "str" and _BARE.fullmatch(value)
    return value if bare else json.dumps(value, ensure_ascii=False)


def renamed(at: ScalarNode, name: str) -> tuple[Edit, ...]:
    """The repair that writes a name in the place of a mistyped one; none where that would be a guess."""
    return (Edit(at, written(name)),) if at.plain and same_numbers(at.text, name) else ()


def renamed_part(at: Located, word: str, name: str) -> tuple[Edit, ...]:
    """The same for a component of a cell path; one that only lacks those above it is no guess."""
    completed = name.rpartition(".")[2] == word
    return (Edit(at, name),) if completed or same_numbers(word, name) else ()


def same_numbers(one: str, other: str) -> bool:
    """Whether two names differ in letters alone: `worker-1` is no typo of `worker-2`, nor `P100` of `V100`."""
    return _numbers(one) == _numbers(other)


def _numbers(name: str) -> list[str]:
    found = _NUMBERED.findall(name.lower())
    return [(letters if len(letters) <= _MODEL else "") + (digits.lstrip("0") or "0") for letters, digits in found]
