"""The head of the configuration: one small object that names every version that is kept, and the cluster's id.

A version is there if and only if the head names it; the head's `resourceVersion` is the lock of those who push.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field, replace
from datetime import datetime
from typing import Any, Final

from paictl.cluster.kubernetes.pieces import ROOM, Index
from paictl.cluster.kubernetes.times import read_time
from paictl.cluster.values import ClusterError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import Json
from paictl.units import rfc3339

NAMESPACE: Final = "paictl-system"
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
        for one in reversed(self.entries):
            size += one.size
            if len(kept) >= KEPT or size > KEPT_BYTES:
                break
            kept.append(one)
        head = replace(self, entries=tuple(reversed(kept)))
        while len(head.entries) > 1 and head.size > ROOM:
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


def read_head(found: Json) -> Head:
    """The inverse of `manifest_of`; raises `ClusterError` for an object that somebody else has written."""
    where = f"configmap {NAMESPACE}/{HEAD}"
    data = found.get("data") or {}
    if data.get("schemaVersion") != _SCHEMA:
        raise ClusterError(
            text("was written by another version of paictl (schema {version!r})", version=data.get("schemaVersion")),
            where=where,
            hint="update paictl",
        )
    try:
        entries = tuple(_entry(row) for row in json.loads(data["versions"]))
        return Head(str(data["cluster-id"]), entries, str(found["metadata"]["resourceVersion"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        hint = "it was edited by hand: restore it from an etcd backup, or undo the change"
        raise ClusterError("cannot be read", where=where, hint=hint) from None


def _versions_text(head: Head) -> str:
    return json.dumps([_row(entry) for entry in head.entries], ensure_ascii=False, separators=(",", ":"))


def _row(entry: VersionEntry) -> dict[str, Any]:
    return {
        "number": entry.number, "at": rfc3339(entry.at), "message": entry.message, "token": entry.token,
        "size": entry.size, "digest": entry.digest,
        "files": {name: [list(piece) for piece in pieces] for name, pieces in entry.index.items()},
    }  # fmt: skip


def _entry(row: Mapping[str, Any]) -> VersionEntry:
    at = read_time(row["at"])
    if at is None:
        raise ValueError(row["at"])
    index = {str(name): [(int(part), str(key)) for part, key in pieces] for name, pieces in row["files"].items()}
    return VersionEntry(
        int(row["number"]), at, str(row["message"]), str(row["token"]), int(row["size"]), str(row["digest"]), index
    )
