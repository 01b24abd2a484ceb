"""Versions of the configuration in a cluster, and the head: one small object that names those that are kept.

A version is there if and only if the head names it; the head's `resourceVersion` is the lock of those who push. Files
are the data of ConfigMaps: cut where they do not fit, and put together again.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final

from paictl.cluster.capabilities import OpenPaiLeft
from paictl.cluster.conflicts import no_version
from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.pods.times import read_time
from paictl.cluster.values import ClusterError, ConfigVersion
from paictl.config.pushing.push import seals_of
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.objects import find, path_of
from paictl.units import rfc3339, shown_bytes

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


_TRIES: Final = 4
"""Times that the head is read when what it names was forgotten meanwhile, because others push."""


class VersionStore:
    """Reads the head and the objects that it names; versions never change, so each is read once."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, ConfigVersion] = {}

    def head(self) -> Head | None:
        """The head as it is now, None if nothing was ever pushed."""
        config_map = find(self._client, path_of(NAMESPACE, "configmaps", HEAD))
        return None if config_map is None else read_head(config_map)

    def versions(self) -> Sequence[ConfigVersion]:
        """All versions that are kept, oldest first.

        One whose objects somebody has deleted by hand is left out, unless it is the newest: then `ClusterError`.
        """
        pairs = self._read(None)
        return [version for _, version in pairs if version is not None]

    def version(self, number: int | None = None) -> ConfigVersion:
        """A version, the newest without a number; raises `ClusterError` if there is none, or it is damaged."""
        for entry, version in self._read(number)[-1:]:
            if version is None:
                raise _damaged(entry)
            return version
        head = self.head()
        raise no_version(number, head.newest if head else 0)

    def secrets(self, version: ConfigVersion) -> dict[str, str]:
        """What the seals in the files of a version stand for: seal → ``TAG:VALUE``, without those that are lost."""
        head = self.head()
        entry = next((entry for entry in (head.entries if head else ()) if entry.number == version.number), None)
        seals = seals_of(version.files)
        if entry is None or not seals:
            return {}
        data = (find(self._client, path_of(NAMESPACE, "secrets", entry.name())) or {}).get("data") or {}
        return {seal: _decoded(data[key]) for seal in seals for key in [key_of(seal)] if key in data}

    def _read(self, number: int | None) -> list[tuple[VersionEntry, ConfigVersion | None]]:
        """What the head names, of one version or (None: and the newest comes last) of all."""
        for _ in range(_TRIES):
            head = self.head()
            entries = [entry for entry in (head.entries if head else ()) if number in (None, entry.number)]
            self._load(entries)
            pairs = [(entry, self._known.get(entry.token)) for entry in entries]
            if all(version is not None for _, version in pairs):
                return pairs
        if pairs and pairs[-1][1] is None:
            raise _damaged(pairs[-1][0])
        return pairs

    def _load(self, entries: Iterable[VersionEntry]) -> None:
        """Read what is not known yet: one version by its label, several with one list of all."""
        unknown = [entry for entry in entries if entry.token not in self._known]
        if not unknown:
            return
        objects = self.objects(unknown[0].number if len(unknown) == 1 else None)
        by_name = {str(body["metadata"]["name"]): body.get("data") or {} for body in objects}
        for entry in unknown:
            version = _version(entry, by_name)
            if version is not None:
                self._known[entry.token] = version

    def objects(self, number: int | None = None) -> list[Json]:
        """The ConfigMaps of one version, or of all, those that no head names among them."""
        query = {"labelSelector": NUMBER if number is None else f"{NUMBER}={number}"}
        return [body for _, page in self._client.list(path_of(NAMESPACE, "configmaps"), query) for body in page]

    def knows(self, entry: VersionEntry, version: ConfigVersion) -> None:
        """Remember what was just stored."""
        self._known[entry.token] = version


def key_of(seal: str) -> str:
    """The key of a seal's value in a Secret; a seal has characters that no key may have."""
    return hashlib.sha256(seal.encode()).hexdigest()[:40]


def _decoded(value: str) -> str:
    return base64.b64decode(value).decode("utf-8", errors="surrogatepass")


def _version(entry: VersionEntry, by_name: Mapping[str, Mapping[str, str]]) -> ConfigVersion | None:
    """A version put together; None if a piece of it is missing, or not what was stored."""
    parts = {part for pieces in entry.index.values() for part, _ in pieces}
    try:
        files = unpack({part: by_name[entry.name(part)] for part in parts}, entry.index)
    except KeyError:
        return None
    return (
        ConfigVersion(entry.number, entry.at, entry.message, files, entry.author)
        if digest(files) == entry.digest
        else None
    )


def _damaged(entry: VersionEntry) -> ClusterError:
    return ClusterError(
        text("version {number} is corrupt: its objects differ from what was stored", number=entry.number),
        where=f"configmap {NAMESPACE}/{entry.name(0)}",
        hint="they were deleted or replaced by hand: restore them from an etcd backup (docs/clusters.md)",
    )


HEAD: Final = "paictl-configuration"
LABELS: Final = {
    "app.kubernetes.io/name": "configuration",
    "app.kubernetes.io/part-of": "paictl",
    "app.kubernetes.io/managed-by": "paictl",
}
NUMBER: Final = "paictl.io/configuration-version"
"""Label of an object of a version: the version's number."""

KEPT: Final = 50
"""Versions that are kept at most; older ones are forgotten when a new one comes."""
KEPT_BYTES: Final = 16 * 2**20
"""Bytes that all of them may have together, the newest not counted."""
HEAD_BYTES: Final = ROOM
"""Bytes of the list of versions, which is one object."""
MESSAGE: Final = 1000
"""Characters of a message."""
_SCHEMA: Final = "1"


@frozen
class VersionEntry:
    """A version: its objects are named after number and token, so that no two pushes ever write the same ones."""

    number: int
    at: datetime
    message: str
    token: str
    size: int
    digest: str
    index: Index = field(repr=False)
    author: str = ""

    def name(self, part: int | None = None) -> str:
        """The name of one of its ConfigMaps, or (None) of its Secret."""
        return object_name(self.number, self.token, part)


@frozen
class Head:
    """What the head object holds; `version` is its resourceVersion, empty before it is made."""

    cluster_id: str
    entries: tuple[VersionEntry, ...] = ()
    version: str = ""

    @property
    def newest(self) -> int:
        """Number of the newest version, 0 for none."""
        return self.entries[-1].number if self.entries else 0

    @property
    def size(self) -> int:
        """Bytes of the list of versions."""
        return len(_versions_text(self).encode())

    def with_entry(self, entry: VersionEntry) -> Head:
        """The head once a version is added, and the oldest forgotten."""
        kept, size = [entry], 0
        for older in reversed(self.entries):
            size += older.size
            if len(kept) >= KEPT or size > KEPT_BYTES:
                break
            kept.append(older)
        head = replace(self, entries=tuple(reversed(kept)))
        while len(head.entries) > 1 and head.size > HEAD_BYTES:
            head = replace(head, entries=head.entries[1:])
        return head


def object_name(number: int, token: str, part: int | None = None) -> str:
    """The name of a ConfigMap of a version, or (None) of its Secret."""
    return f"{HEAD}-{number}-{token}" + ("" if part is None else f"-{part}")


def manifest_of(head: Head) -> Json:
    """The object as Kubernetes takes it; a `resourceVersion` makes it a replacement of that version only."""
    about: Json = {"name": HEAD, "namespace": NAMESPACE, "labels": dict(LABELS)}
    if head.version:
        about["resourceVersion"] = head.version
    data = {"schemaVersion": _SCHEMA, "cluster-id": head.cluster_id, "versions": _versions_text(head)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}


def read_head(config_map: Json) -> Head:
    """The inverse of `manifest_of`; raises `ClusterError` for an object that somebody else has written."""
    where = f"configmap {NAMESPACE}/{HEAD}"
    data = config_map.get("data") or {}
    if data.get("schemaVersion") != _SCHEMA:
        raise ClusterError(
            text("was written by another version of paictl (schema {version!r})", version=data.get("schemaVersion")),
            where=where,
            hint="update paictl",
        )
    try:
        entries = tuple(_entry(row) for row in json.loads(data["versions"]))
        return Head(str(data["cluster-id"]), entries, str(config_map["metadata"]["resourceVersion"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "it was edited by hand: restore it from an etcd backup, or undo the change"
        raise ClusterError("cannot be read", where=where, hint=hint) from None


def _versions_text(head: Head) -> str:
    return json.dumps([_row(entry) for entry in head.entries], ensure_ascii=False, separators=(",", ":"))


def _row(entry: VersionEntry) -> dict[str, Any]:
    return {
        "number": entry.number,
        "at": rfc3339(entry.at),
        "message": entry.message,
        "token": entry.token,
        "size": entry.size,
        "digest": entry.digest,
        "files": {name: [list(piece) for piece in pieces] for name, pieces in entry.index.items()},
        **({"author": entry.author} if entry.author else {}),
    }


def _entry(row: Mapping[str, Any]) -> VersionEntry:
    at = read_time(row["at"])
    if at is None:
        raise ValueError(row["at"])
    index = {str(name): [(int(part), str(key)) for part, key in pieces] for name, pieces in row["files"].items()}
    return VersionEntry(
        int(row["number"]),
        at,
        str(row["message"]),
        str(row["token"]),
        int(row["size"]),
        str(row["digest"]),
        index,
        str(row.get("author", "")),
    )


_OPENPAI: Final = "default"
"""The namespace in which OpenPAI keeps what it was told."""
_OPENPAI_ID: Final = "pai-cluster-id"
_OPENPAI_FILES: Final = "pai-configuration"


def openpai_id(client: KubeClient) -> str:
    """The id that OpenPAI gave this cluster, empty if it gave none."""
    config_map = find(client, path_of(_OPENPAI, "configmaps", _OPENPAI_ID)) or {}
    return str((config_map.get("data") or {}).get("cluster-id", "")).strip()


def left_by_openpai(client: KubeClient) -> OpenPaiLeft:
    """What OpenPAI's own `config push` has stored; raises `ClusterError` if it has stored nothing."""
    config_map = find(client, path_of(_OPENPAI, "configmaps", _OPENPAI_FILES))
    data = (config_map or {}).get("data") or {}
    if not data:
        raise ClusterError(
            "this cluster has no OpenPAI configuration",
            where=f"configmap {_OPENPAI}/{_OPENPAI_FILES}",
            hint="for paictl's own configuration, omit --from-openpai",
        )
    return OpenPaiLeft(openpai_id(client), {str(name): str(text) for name, text in data.items()})
