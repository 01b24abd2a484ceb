"""Configuration files as the data of ConfigMaps: cut where they do not fit, and put together again. Pure."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

from paictl.cluster.values import ClusterError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.units import shown_bytes

ROOM: Final = 900 * 1024
"""Bytes of data in one object: Kubernetes takes 1 MiB, keys and metadata not counted."""
MOST: Final = 8 * 2**20
"""Bytes of one version of the configuration."""

_KEY = re.compile(r"(?!\.\.)[-._a-zA-Z0-9]{1,200}")
_OURS = re.compile(r"file-\d+(\.\d+)?")

Index = Mapping[str, Sequence[tuple[int, str]]]
"""File name → its pieces in order: (number of the object, key in it)."""


@frozen
class Packed:
    """The data of each object, and where each file is."""

    objects: tuple[dict[str, str], ...]
    index: Index


def pack(files: Mapping[str, str]) -> Packed:
    """Files in as few objects as they need, by name, each under its own name where that can be a key.

    Raises `ClusterError` for what is too much for a cluster, or no text.
    """
    sizes = {name: _size(name, text) for name, text in files.items()}
    if sum(sizes.values()) > MOST:
        largest = max(sizes, key=lambda name: sizes[name])
        raise ClusterError(
            text(
                "the configuration has {size}; the limit is {most}",
                size=shown_bytes(sum(sizes.values())),
                most=shown_bytes(MOST),
            ),
            hint=text(
                "the largest file is {largest} ({size}); nothing was sent",
                largest=largest,
                size=shown_bytes(sizes[largest]),
            ),
        )
    objects: list[dict[str, str]] = [{}]
    index: dict[str, list[tuple[int, str]]] = {}
    room = ROOM
    for number, name in enumerate(sorted(files)):
        pieces = _cut(files[name])
        own = _KEY.fullmatch(name) and not _OURS.fullmatch(name)
        for part, piece in enumerate(pieces):
            size = len(piece.encode())
            if size > room:
                objects.append({})
                room = ROOM
            key = name if own and len(pieces) == 1 else f"file-{number}" + (f".{part}" if len(pieces) > 1 else "")
            objects[-1][key] = piece
            index.setdefault(name, []).append((len(objects) - 1, key))
            room -= size
    return Packed(tuple(objects), index)


def unpack(objects: Mapping[int, Mapping[str, str]], index: Index) -> dict[str, str]:
    """The files in objects by number; raises `KeyError` for a piece that is not there."""
    return {name: "".join(objects[number][key] for number, key in pieces) for name, pieces in index.items()}


def digest(files: Mapping[str, str]) -> str:
    """What tells whether files are the ones that were stored."""
    return hashlib.sha256(json.dumps(dict(files), sort_keys=True).encode()).hexdigest()


def _size(name: str, text: str) -> int:
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ClusterError("is not UTF-8", where=name, hint="see: paictl config validate") from None


def _cut(text: str) -> list[str]:
    """A text in pieces of at most `ROOM` bytes, none of which ends within a character."""
    data = text.encode()
    pieces, start = [], 0
    while len(data) - start > ROOM:
        end = start + ROOM
        while data[end] & 0xC0 == 0x80:  # a byte within a character
            end -= 1
        pieces.append(data[start:end].decode())
        start = end
    return [*pieces, data[start:].decode()]
