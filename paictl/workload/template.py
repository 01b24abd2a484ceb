"""Templates in commands: ``<% $parameters.x %>``, ``<% $data.uri[0] %>`` and their kind.

Differs from OpenPAI, which renders what it does not know as it finds it and says nothing: here leftovers
are named. Source: rest-server's `protocolRender`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field

from paictl.frozen import frozen

MASK = "******"
"""Stands for the value of a secret wherever commands are not really run, as in OpenPAI's stored jobs."""

_TEMPLATE = re.compile(r"<%\s*(.*?)\s*%>", re.DOTALL)
_REFERENCE = re.compile(r"\$(\w+)((?:\.[\w-]+|\[\d+\])*)")
_STEP = re.compile(r"\.([\w-]+)|\[(\d+)\]")


@frozen
class Leftover:
    """A template that names nothing: where it stands, and its text."""

    path: str
    text: str


@frozen
class Values:
    """What templates of one task role may name, by the word after the dollar sign."""

    roots: Mapping[str, object] = field(repr=False)

    def render(self, text: str, path: str) -> tuple[str, tuple[Leftover, ...]]:
        """`text` with every known template replaced, and the others as they stand and named."""
        leftovers: list[Leftover] = []

        def replace(match: re.Match[str]) -> str:
            found = self._lookup(match[1])
            if found is None:
                leftovers.append(Leftover(path, " ".join(match[0].split())))
                return match[0]
            return found

        return _TEMPLATE.sub(replace, text), tuple(leftovers)

    def _lookup(self, reference: str) -> str | None:
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            return None
        value = self.roots.get(match[1])
        for key, index in _STEP.findall(match[2]):
            if index:
                is_list = isinstance(value, Sequence) and not isinstance(value, str)
                value = value[int(index)] if is_list and int(index) < len(value) else None  # type: ignore[arg-type,index]
            else:
                value = value.get(key) if isinstance(value, Mapping) else None
        return _as_text(value)


def masked(secrets: Mapping[object, object]) -> dict[object, object]:
    """The same names with every value replaced by `MASK`, at any depth."""
    return {
        name: masked(value) if isinstance(value, Mapping) else None if value is None else MASK
        for name, value in secrets.items()
    }


def _as_text(value: object) -> str | None:
    """A scalar as JavaScript would write it (the original's language), None for anything else."""
    match value:
        case bool():
            return str(value).lower()
        case float() if value.is_integer():
            return str(int(value))
        case str() | int() | float():
            return str(value)
    return None
