"""What is remembered in the cluster: how a service was left, what belongs to it, and who is at it right now.

One ConfigMap a service. It is replaced over the version that was read, so that of two administrators one is first; the
other waits until the first has finished, or has not been heard of for a while.

Which images the machines have, where they can get no others, is kept by whoever has deployed them. It is about
machines, not about a configuration, so it is no part of what is pushed: a push from another dev box, which does not
know the machines, must not change it.
"""

from __future__ import annotations

import getpass
import json
import os
import secrets
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, field, replace
from typing import Any, Final

from paictl.cluster.kubernetes.names import MANAGED_BY, NAME, NAMESPACE, OURS, PART_OF, labels
from paictl.cluster.kubernetes.services.kinds import Group
from paictl.cluster.values import ClusterError, ConflictError
from paictl.errors import PaictlError
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.objects import create, delete, find, path_of
from paictl.remote.kube.objects import replace as put

RECORD: Final = "service-record"
"""Value of the label `app.kubernetes.io/name` of a record."""
SILENCE: Final = 15.0
"""Seconds without a sign of life after which whoever holds a service has died."""
_RENEW: Final = 4.0
_WAIT: Final = 120.0
_EVERY: Final = 0.25


@frozen
class Item:
    """An object of a service."""

    group: Group
    namespace: str
    name: str

    @classmethod
    def of(cls, body: Json) -> Item:
        """The item of an object."""
        about = body["metadata"]
        return cls((str(body["apiVersion"]), str(body["kind"])), str(about.get("namespace") or ""), str(about["name"]))

    @property
    def label(self) -> str:
        """For people: ``Deployment paictl-system/grafana``."""
        return f"{self.group[1]} {self.namespace}{'/' if self.namespace else ''}{self.name}"


@frozen
class ServiceRecord:
    """A service as it was left: `state` is ``running``, ``stopped``, or ``applying`` while objects are being written.

    `loaded` is the version of the configuration and `digest` the hash of what it was rendered from, `since` an instant
    as RFC 3339 in UTC.
    """

    service: str
    state: str = "stopped"
    since: str = ""
    loaded: int | None = None
    digest: str = ""
    version: str = ""
    restarted: str = ""
    items: tuple[Item, ...] = ()
    holder: str = ""
    """Who is changing it now, and a token; empty for nobody."""
    resource_version: str = field(default="", compare=False)

    @property
    def groups(self) -> frozenset[Group]:
        """The kinds of its objects."""
        return frozenset(item.group for item in self.items)


class Records:
    """Records of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def all(self) -> dict[str, ServiceRecord]:
        """All records by service."""
        query = {"labelSelector": f"{NAME}={RECORD}"}
        pages = self._client.list(path_of(NAMESPACE, "configmaps"), query)
        return {record.service: record for _, page in pages for record in map(_read, page)}

    def get(self, service: str) -> ServiceRecord | None:
        """The record of a service, None if it is absent."""
        config_map = find(self._client, path_of(NAMESPACE, "configmaps", _name(service)))
        return None if config_map is None else _read(config_map)

    @contextmanager
    def held(self, service: str) -> Iterator[Held]:
        """Be the only one who changes a service; raises `ConflictError` if somebody else does so for too long."""
        mine = f"{_who()} {secrets.token_hex(6)}"
        held = Held(self, self._take(service, mine))
        try:
            yield held
        finally:
            with suppress(PaictlError):  # else it is free after a while of silence
                held.release()

    def _take(self, service: str, mine: str) -> ServiceRecord:
        began = time.monotonic()
        holder, at = "", began
        while True:
            record = self.get(service) or ServiceRecord(service)
            now = time.monotonic()
            if record.resource_version != holder:
                holder, at = record.resource_version, now
            if not record.holder or now - at > SILENCE:
                taken = self.write(replace(record, holder=mine))
                if taken is not None:
                    return taken
            if now - began > _WAIT:
                raise ConflictError(
                    text("{who} is changing it", who=record.holder.rpartition(" ")[0]),
                    where=f"service {service}",
                    hint="try again when they have finished",
                )
            time.sleep(_EVERY)

    def write(self, record: ServiceRecord) -> ServiceRecord | None:
        """Store a record over the version that it was read from; None if that is not the newest any more."""
        data = {**asdict(record), "items": [[*item.group, item.namespace, item.name] for item in record.items]}
        data.pop("resource_version")
        about: Json = {
            "name": _name(record.service),
            "namespace": NAMESPACE,
            "labels": labels(RECORD),
        }
        body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"record": json.dumps(data)}}
        path = path_of(NAMESPACE, "configmaps")
        if record.resource_version:
            about["resourceVersion"] = record.resource_version
            stored = put(self._client, f"{path}/{_name(record.service)}", body)
        else:
            stored = create(self._client, path, body)
        return None if stored is None else replace(record, resource_version=stored["metadata"]["resourceVersion"])

    def forget(self, service: str, *, version: str = "") -> None:
        """The service is absent from now on; with `version` only if that is the newest of its record."""
        delete(self._client, path_of(NAMESPACE, "configmaps", _name(service)), version=version)


class Held:
    """A record while its service is being changed; everybody else waits."""

    def __init__(self, records: Records, record: ServiceRecord) -> None:
        self._records = records
        self.record = record
        self._renewed = time.monotonic()
        self._gone = False

    def note(self, **changes: Any) -> None:
        """Store changes of the record; raises `ConflictError` if another has taken the service over meanwhile."""
        stored = self._records.write(replace(self.record, **changes))
        if stored is None:
            self._gone = True
            raise ConflictError(
                "another administrator has taken it over",
                where=f"service {self.record.service}",
                hint="check with: paictl service status",
            )
        self.record, self._renewed = stored, time.monotonic()

    def alive(self) -> None:
        """Say now and then that somebody is still at it."""
        if time.monotonic() - self._renewed > _RENEW:
            self.note()

    def forget(self) -> None:
        """The service is absent from now on."""
        self._records.forget(self.record.service)
        self._gone = True

    def release(self) -> None:
        """Let others change it. A record that says nothing, as after a first start that was refused, is not kept."""
        if self._gone:
            return
        if replace(self.record, holder="") == ServiceRecord(self.record.service):
            self._records.forget(self.record.service, version=self.record.resource_version)
        else:
            self.note(holder="")


def _name(service: str) -> str:
    return f"paictl-service-{service}"


def _who() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return f"{user}@{socket.gethostname()}"


def _read(config_map: Json) -> ServiceRecord:
    name = str(config_map["metadata"]["name"])
    try:
        data: Mapping[str, Any] = json.loads((config_map.get("data") or {})["record"])
        items = tuple(Item((str(item[0]), str(item[1])), str(item[2]), str(item[3])) for item in data["items"])
        loaded = data["loaded"]
        return ServiceRecord(
            str(data["service"]),
            str(data["state"]),
            str(data["since"]),
            None if loaded is None else int(loaded),
            str(data["digest"]),
            str(data["version"]),
            str(data["restarted"]),
            items,
            str(data["holder"]),
            str(config_map["metadata"]["resourceVersion"]),
        )
    except (ValueError, KeyError, TypeError, IndexError):
        raise ClusterError(
            "cannot be read",
            where=f"configmap {NAMESPACE}/{name}",
            hint="it was edited by hand: delete it, then start the service again",
        ) from None


# --- images that the machines have


IMAGES: Final = "paictl-images"
"""The ConfigMap; there is none while machines reach a registry."""
_IMAGES_KEY: Final = "images"
_NOTE_TRIES: Final = 4


def note_images(client: KubeClient, images: Iterable[str] | None) -> None:
    """Keep the images that the machines have, None where they reach a registry; nothing is written twice.

    Raises:
        ConflictError: others keep on writing it.
    """
    path = path_of(NAMESPACE, "configmaps", IMAGES)
    if images is None:
        delete(client, path)
        return
    data = {_IMAGES_KEY: json.dumps(sorted(set(images)))}
    for _ in range(_NOTE_TRIES):
        config_map = find(client, path)
        if config_map is not None and config_map.get("data") == data:
            return
        if _noted(client, config_map, data):
            return
    raise ConflictError("another process is writing it", where=f"configmap {NAMESPACE}/{IMAGES}", hint="try again")


def _noted(client: KubeClient, config_map: Json | None, data: dict[str, str]) -> bool:
    about: Json = {"name": IMAGES, "namespace": NAMESPACE, "labels": labels("images")}
    body: Json = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data}
    if config_map is not None:
        about["resourceVersion"] = config_map["metadata"]["resourceVersion"]
        return put(client, path_of(NAMESPACE, "configmaps", IMAGES), body) is not None
    if find(client, f"/api/v1/namespaces/{NAMESPACE}") is None:  # before the first push of all
        shared = {"name": NAMESPACE, "labels": {PART_OF: OURS, MANAGED_BY: OURS}}
        create(client, "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": shared})
    return create(client, path_of(NAMESPACE, "configmaps"), body) is not None


def noted_images(client: KubeClient) -> frozenset[str] | None:
    """What was kept; None where machines reach a registry, or nobody has said."""
    config_map = find(client, path_of(NAMESPACE, "configmaps", IMAGES))
    if config_map is None:
        return None
    try:
        read: Any = json.loads((config_map.get("data") or {})[_IMAGES_KEY])
        return frozenset(map(str, read))
    except (ValueError, KeyError, TypeError):
        hint = "it was edited by hand: delete it, then apply the deployment again"
        raise ClusterError("cannot be read", where=f"configmap {NAMESPACE}/{IMAGES}", hint=hint) from None
