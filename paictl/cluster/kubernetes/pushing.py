"""One more version of the configuration: written aside, made visible by one request, or not at all.

The objects of the version are made first, under a name that nobody else has; then the head is replaced over the very
version of it that was read. Whoever is killed before that leaves objects that no head names; the next push collects
them. What a push makes carries the number that comes after the newest: once the head has reached that number, no other
push with it can succeed any more, and only then are its leftovers taken for what they are.
"""

from __future__ import annotations

import base64
import secrets as randomness
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from paictl import __version__
from paictl.cluster.conflicts import moved_on
from paictl.cluster.kubernetes.connection import cluster_errors
from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.kubernetes.store import (
    HEAD,
    LABELS,
    MESSAGE,
    NUMBER,
    ROOM,
    Head,
    Packed,
    VersionEntry,
    VersionStore,
    digest,
    key_of,
    manifest_of,
    object_name,
    pack,
)
from paictl.cluster.pods.times import read_time
from paictl.cluster.values import ClusterError, ConfigVersion, ConflictError, UnreachableError
from paictl.config.pushing.push import seals_of
from paictl.errors import PaictlError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, delete, find, path_of, replace, user_of
from paictl.units import shown_bytes

_TRIES: Final = 8
"""Attempts of a push that goes over whatever is there, when others push at the same time."""


class Pusher:
    """Pushes to one cluster."""

    def __init__(self, client: KubeClient, store: VersionStore) -> None:
        self._client = client
        self._store = store

    def push(
        self,
        files: Mapping[str, str],
        message: str,
        cluster_id: str,
        *,
        base: int | None,
        secrets: Mapping[str, str],
    ) -> ConfigVersion:
        """Store a version; as `Configuration.push`. `cluster_id` becomes the cluster's if this is its first.

        Raises `ClusterError` before anything is written for what is too large, or has a seal with a value that neither
        `secrets` nor the cluster knows.
        """
        packed = pack(files)
        if len(message) > MESSAGE:
            raise ClusterError(
                text("the message has {number} characters", number=len(message)),
                hint=text("at most {most}", most=MESSAGE),
            )
        author = user_of(self._client)
        for _ in range(1 if base is not None else _TRIES):
            head = self._store.head() or Head(cluster_id)
            if base not in (None, head.newest):
                raise moved_on(head.newest)
            stored = self._attempt(files, (message, author), packed, head, secrets)
            if stored is not None:
                return stored
        now = self._store.head()
        raise moved_on(now.newest if now else 0)

    def _attempt(
        self, files: Mapping[str, str], note: tuple[str, str], packed: Packed, head: Head, secrets: Mapping[str, str]
    ) -> ConfigVersion | None:
        """Store a version with a message and its author on top of a head; None if that is not the head any more."""
        message, author = note
        values = self._values(files, head, secrets)
        size = sum(len(text.encode()) for data in packed.objects for text in data.values())
        number, token = head.newest + 1, randomness.token_hex(8)
        draft = VersionEntry(number, datetime.now(UTC), message, token, size, digest(files), packed.index, author)
        if Head(head.cluster_id, (draft,)).size > ROOM:
            raise ClusterError(
                text("{number} files are too many for a cluster", number=len(files)), hint="push fewer files"
            )
        try:
            at = self._write(number, token, packed, values)
            entry = VersionEntry(number, at, message, token, size, draft.digest, packed.index, author)
            following = head.with_entry(entry)
            if not self._commit(following, entry):
                self._undo(number, token, len(packed.objects))
                return None
        except KubeError:  # before the decisive request, or in refusal of it
            self._undo(number, token, len(packed.objects))
            raise
        version = ConfigVersion(number, at, message, dict(files), author)
        self._store.knows(entry, version)
        self._collect(following)
        return version

    # --- secrets

    def _values(self, files: Mapping[str, str], head: Head, given: Mapping[str, str]) -> dict[str, str]:
        """The data of the version's Secret: a value for every seal in the files, from the push or an older version."""
        needed = {key_of(seal): seal for seal in seals_of(files)}
        data = {key: encoded(given[seal]) for key, seal in needed.items() if seal in given}
        for entry in reversed(head.entries):
            if len(data) == len(needed):
                break
            known = find(self._client, path_of(NAMESPACE, "secrets", entry.name())) or {}
            older = known.get("data") or {}
            data = {**{key: older[key] for key in needed if key in older}, **data}
        missing = [seal for key, seal in needed.items() if key not in data]
        if missing:
            names = sorted(name for name, text in files.items() if any(seal in text for seal in missing))
            raise ClusterError(
                text("{number} sealed secrets have values that this cluster does not know", number=len(missing)),
                where=", ".join(names),
                hint="write the secrets themselves into the files and push those; of a plan: config apply FILE -p DIR",
            )
        size = sum(map(len, data.values()))
        if size > ROOM:
            raise ClusterError(
                text("the secrets are {size}", size=shown_bytes(size)),
                hint=text("the limit is {most}", most=shown_bytes(ROOM)),
            )
        return data

    # --- objects

    def _write(self, number: int, token: str, packed: Packed, values: Mapping[str, str]) -> datetime:
        """Make the objects of a version, the first ConfigMap before its Secret: whoever finds one finds the other.

        Comes back with the instant of the server's clock.
        """
        first, *others = (
            version_manifest("ConfigMap", number, object_name(number, token, part), data)
            for part, data in enumerate(packed.objects)
        )
        made = self._make("configmaps", first)
        if values:
            self._make("secrets", version_manifest("Secret", number, object_name(number, token), values))
        for body in others:
            self._make("configmaps", body)
        at = read_time(made["metadata"].get("creationTimestamp"))
        if at is None:
            raise ClusterError("the server did not report when it created an object", where=self._client.where)
        return at

    def _make(self, kind: str, body: Json) -> Json:
        try:
            made = create(self._client, path_of(NAMESPACE, kind), body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": _SHARED}}
            create(self._client, "/api/v1/namespaces", namespace)  # the first push of all
            made = create(self._client, path_of(NAMESPACE, kind), body)
        if made is None:
            raise ConflictError("an object of this name already exists", where=str(body["metadata"]["name"]))
        return made

    def _commit(self, head: Head, entry: VersionEntry) -> bool:
        """Make a version visible; False if another was faster.

        Raises `UnreachableError` if nobody can say whether it is.
        """
        body, path = manifest_of(head), path_of(NAMESPACE, "configmaps")
        try:
            if head.version:
                return replace(self._client, f"{path}/{HEAD}", body) is not None
            return create(self._client, path, body) is not None
        except PaictlError as error:
            if isinstance(error, KubeError) and error.status < 500:
                raise
            if self._is_visible(entry):
                return True
            raise UnreachableError(
                text(
                    "it is unknown whether version {number} was stored: {message}",
                    number=entry.number,
                    message=error.message,
                ),
                where=error.where,
                hint="check before you push again: paictl config history",
            ) from None

    def _is_visible(self, entry: VersionEntry) -> bool:
        with suppress(PaictlError), cluster_errors():  # it still does not answer
            head = self._store.head()
            return head is not None and any(listed.token == entry.token for listed in head.entries)
        return False

    def _undo(self, number: int, token: str, parts: int) -> None:
        """Take away what never became visible; if that fails the next push does it."""
        with suppress(PaictlError):
            self._delete(number, token, parts)

    def _delete(self, number: int, token: str, parts: int) -> None:
        """Delete the objects of a version in the reverse order of their making."""
        for part in range(parts - 1, 0, -1):
            delete(self._client, path_of(NAMESPACE, "configmaps", object_name(number, token, part)))
        delete(self._client, path_of(NAMESPACE, "secrets", object_name(number, token)))
        delete(self._client, path_of(NAMESPACE, "configmaps", object_name(number, token, 0)))

    def _collect(self, head: Head) -> None:
        """Delete what no head names any more or ever will; the push is done, so a failure only leaves it for later."""
        named = {(entry.number, entry.token) for entry in head.entries}
        with suppress(PaictlError):
            parts: dict[tuple[int, str], int] = {}
            for name in (str(body["metadata"]["name"]) for body in self._store.objects()):
                words = name.removeprefix(f"{HEAD}-").split("-")
                if len(words) == 3 and words[0].isdecimal() and words[2].isdecimal():  # else it is none of ours
                    key = int(words[0]), words[1]
                    parts[key] = max(parts.get(key, 0), int(words[2]) + 1)
            for key, count in parts.items():
                if key not in named and key[0] <= head.newest:
                    self._delete(*key, count)


_SHARED: Final = {name: value for name, value in LABELS.items() if not name.endswith("/name")}


def version_manifest(kind: str, number: int, name: str, data: Mapping[str, str]) -> Json:
    """An object that holds a part of a version."""
    labels = {**LABELS, NUMBER: str(number), "app.kubernetes.io/version": __version__}
    return {
        "apiVersion": "v1",
        "kind": kind,
        "immutable": True,
        "data": dict(data),
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels},
    }


def encoded(value: str) -> str:
    """A value as the data of a Secret."""
    return base64.b64encode(value.encode("utf-8", errors="surrogatepass")).decode()
