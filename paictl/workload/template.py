"""Templates in commands: ``<% $parameters.x %>``, ``<% $data.uri[0] %>`` and their kind.

Differs from OpenPAI, which renders what it does not know as it finds it and says nothing: here leftovers
are named. Source: rest-server's `protocolRender`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.workload.fields import JobError

MASK = "******"
"""Stands for the value of a secret wherever commands are not really run, as in OpenPAI's stored jobs."""

MOST_EXPANDED: Final = 1_000_000
"""Bytes that all commands of a job may have once their templates are filled in. A Kubernetes Secret carries them to the
pods, and holds no more than 1 MiB."""

MOST_DIGITS: Final = 9
"""Digits of an index, so that no text can ask for a number that takes long to read."""

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

    def size(self, text: str, most: int = MOST_EXPANDED) -> int:
        """Bytes of `text` with its templates filled in, without making that text; counting stops beyond `most`."""
        size = _bytes(text)
        for start, end, reference in _templates(text):
            value = self._lookup(reference)
            if value is not None:
                size += _bytes(value) - _bytes(text[start:end])
            if size > most + len(text) * 4:  # what is still to come can only take away what `text` itself has
                break
        return size

    def render(self, text: str, path: str) -> tuple[str, tuple[Leftover, ...]]:
        """`text` with every known template replaced, and the others as they stand and named.

        Raises `JobError` before anything is made if the result would have more than `MOST_EXPANDED` bytes.
        """
        if self.size(text) > MOST_EXPANDED:
            raise too_large(path)
        leftovers: list[Leftover] = []
        parts: list[str] = []
        done = 0
        for start, end, reference in _templates(text):
            value = self._lookup(reference)
            if value is None:
                leftovers.append(Leftover(path, " ".join(text[start:end].split())))
                continue
            parts += text[done:start], value
            done = end
        return "".join((*parts, text[done:])), tuple(leftovers)

    def _lookup(self, reference: str) -> str | None:
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            return None
        value = self.roots.get(match[1])
        for key, index in _STEP.findall(match[2]):
            if index:
                is_list = isinstance(value, Sequence) and not isinstance(value, str)
                inside = is_list and len(index) <= MOST_DIGITS and int(index) < len(value)  # type: ignore[arg-type]
                value = value[int(index)] if inside else None  # type: ignore[index]
            else:
                value = value.get(key) if isinstance(value, Mapping) else None
        return _as_text(value)


def too_large(path: str) -> JobError:
    """The refusal of commands that are too large once their templates are filled in."""
    return JobError(
        path,
        text(
            "with templates filled in, the commands of the job have more than {bytes:,} bytes",
            bytes=MOST_EXPANDED,
        ),
        hint="keep long values in the image or in storage, and use each template once",
    )


def _templates(text: str) -> Iterator[tuple[int, int, str]]:
    """Where each template begins and ends, and the name in it; takes time in proportion to `text`, whatever it is."""
    start = text.find("<%")
    while start >= 0:
        close = text.find("%>", start + 2)
        if close < 0:
            return
        yield start, close + 2, text[start + 2 : close].strip()
        start = text.find("<%", close + 2)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


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
