"""The named storages and the template libraries of a Kubernetes cluster, kept in ConfigMaps.

One ConfigMap lists the storages, with a volume and claim for each. Pods only ever name a claim in their own namespace,
so neither the job controller nor a user needs rights on volumes: whoever adds a storage makes them. The list is written
last, when everything that a pod needs is there. A library is a ConfigMap, which only administrators and the server
read.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE, NAME, NAMESPACE, OURS, PART_OF, labels
from paictl.cluster.storages import (
    NFS,
    PVC,
    SMB,
    Credentials,
    Storage,
    added,
    check,
    granted,
    storage_named,
    storages_from,
    storages_text,
    without,
)
from paictl.cluster.templates import TemplateLibrary, already_there, library_from, library_named, with_library
from paictl.cluster.templates import library_text as text_of
from paictl.cluster.values import ClusterError, ConflictError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, create, delete, find, path_of, replace

STORAGES: Final = "paictl-storages"
_STORAGES_KEY: Final = "storages.json"
DRIVER: Final = "smb.csi.k8s.io"
"""The CSI driver that mounts shares of SMB."""
VOLUMES: Final = "/api/v1/persistentvolumes"
CLAIMS: Final = path_of(JOBS_NAMESPACE, "persistentvolumeclaims")
_DRIVERS: Final = "/apis/storage.k8s.io/v1/csidrivers"
_SIZE: Final = "1Ti"
"""What volume and claim say; for a share of a file server it limits nothing."""
_TRIES: Final = 5
_DELETION_WAIT = 15.0
"""Seconds that `add` gives Kubernetes to finish deleting an object of the same name; a volume's takes under one."""
_POLL: Final = 0.2


def read_storages(client: KubeClient) -> tuple[Storage, ...]:
    """All storages by name; raises `ClusterError` for a damaged list."""
    return _listed(client)[0]


class StorageStore:
    """The storages of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def add(self, storage: Storage, credentials: Credentials | None) -> None:
        """Add a storage with what its pods need; what was made is taken away again if something is refused."""
        added(read_storages(self._client), check(storage))  # before anything is made
        made: list[str] = []
        try:
            if storage.kind == PVC:
                self._need_claim(storage)
            else:
                self._make(made, storage, credentials)
            self._changed(lambda storages: added(storages, storage))
        except BaseException:
            for path in reversed(made):
                delete(self._client, path)
            raise

    def grant(self, name: str, add: Sequence[str], revoke: Sequence[str]) -> Storage:
        """Change which virtual clusters may use a storage."""
        return storage_named(self._changed(lambda storages: granted(storages, name, add, revoke)), name)

    def remove(self, name: str) -> None:
        """Remove a storage from the list, then what was made for it; Kubernetes keeps a claim that pods use."""
        storage = storage_named(read_storages(self._client), name)
        self._changed(lambda storages: without(storages, name))
        if storage.kind != PVC:
            delete(self._client, f"{CLAIMS}/{storage.claim}")
            delete(self._client, f"{VOLUMES}/{_volume_name(storage)}")
            delete(self._client, path_of(NAMESPACE, "secrets", storage.claim))

    # --- what pods need

    def _need_claim(self, storage: Storage) -> None:
        if find(self._client, f"{CLAIMS}/{storage.claim}") is None:
            raise ClusterError(
                text(
                    "no PersistentVolumeClaim {claim!r} in namespace {space}", claim=storage.claim, space=JOBS_NAMESPACE
                ),
                hint=text("create it there, or give --nfs or --smb"),
            )

    def _make(self, made: list[str], storage: Storage, credentials: Credentials | None) -> None:
        """Make the objects of a share, noting the path of each; raises `ConflictError` for one that is there."""
        if storage.kind == SMB and find(self._client, f"{_DRIVERS}/{DRIVER}") is None:
            raise ClusterError(
                text("this cluster cannot mount SMB shares: the CSI driver {driver} is missing", driver=DRIVER),
                hint=text("install csi-driver-smb, or give a claim of your own with --pvc"),
            )
        wanted = [(VOLUMES, volume(storage)), (CLAIMS, claim(storage))]
        if credentials is not None:
            wanted.insert(0, (path_of(NAMESPACE, "secrets"), secret(storage, credentials)))
        for kind, body in wanted:
            path = f"{kind}/{body['metadata']['name']}"
            try:
                self._create(kind, path, body)
            except KubeError as error:
                if error.status != NOT_FOUND:
                    raise
                raise ClusterError(
                    text("no namespace {space}", space=body["metadata"]["namespace"]),
                    hint=text("start the services first: paictl service start"),
                ) from None
            made.append(path)

    def _create(self, kind: str, path: str, body: Json) -> None:
        """Make an object, after one of its name that is being deleted; raises `ConflictError` for one that stays."""
        end = time.monotonic() + _DELETION_WAIT
        while create(self._client, kind, body) is None:
            known, name = find(self._client, path), path.removeprefix("/api/v1/")
            if known is not None and "deletionTimestamp" not in known["metadata"]:
                raise ConflictError(
                    text("{object} already exists and belongs to no storage", object=name),
                    hint=text("delete it, or choose another name"),
                )
            if time.monotonic() > end:
                raise ConflictError(
                    text("{object} is still being deleted", object=name),
                    hint=text("jobs that use it keep it; run the same command again when they have ended"),
                )
            time.sleep(_POLL)

    # --- the list

    def _changed(self, change: Callable[[Sequence[Storage]], tuple[Storage, ...]]) -> tuple[Storage, ...]:
        """The list after a change, written over the version that it was made from."""
        for _ in range(_TRIES):
            storages, known = _listed(self._client)
            after = change(storages)
            if self._write(after, known):
                return after
        raise ConflictError(text("others keep changing the storages"), hint=text("run the same command again"))

    def _write(self, storages: Sequence[Storage], known: Json | None) -> bool:
        about: Json = {"name": STORAGES, "namespace": NAMESPACE, "labels": labels("storages")}
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": about,
            "data": {_STORAGES_KEY: storages_text(storages)},
        }
        if known is None:
            return create(self._client, path_of(NAMESPACE, "configmaps"), body) is not None
        about["resourceVersion"] = known["metadata"]["resourceVersion"]
        return replace(self._client, path_of(NAMESPACE, "configmaps", STORAGES), body) is not None


def _listed(client: KubeClient) -> tuple[tuple[Storage, ...], Json | None]:
    known = find(client, path_of(NAMESPACE, "configmaps", STORAGES))
    try:
        return storages_from(str(((known or {}).get("data") or {}).get(_STORAGES_KEY, ""))), known
    except ClusterError as error:
        error.where = f"configmap {NAMESPACE}/{STORAGES}"
        raise


def _volume_name(storage: Storage) -> str:
    return f"paictl-{storage.claim}"


def volume(storage: Storage) -> Json:
    """The PersistentVolume of a share, bound to its claim beforehand; its data are never deleted with it."""
    spec: Json = {
        "capacity": {"storage": _SIZE},
        "accessModes": ["ReadWriteMany"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": "",
        "mountOptions": _options(storage),
        "claimRef": {"namespace": JOBS_NAMESPACE, "name": storage.claim},
    }
    if storage.kind == NFS:
        server, _, path = storage.address.rpartition(":")
        spec["nfs"] = {"server": server.strip("[]"), "path": path, "readOnly": storage.read_only}
    else:
        spec["csi"] = {
            "driver": DRIVER,
            "volumeHandle": f"{_volume_name(storage)}#{storage.address}",
            "readOnly": storage.read_only,
            "volumeAttributes": {"source": storage.address},
            "nodeStageSecretRef": {"name": storage.claim, "namespace": NAMESPACE},
        }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": _about(_volume_name(storage)), "spec": spec}


def _options(storage: Storage) -> list[str]:
    """The options of mount; of SMB with that which the driver's example calls required to prevent corrupt data.

    Server inode numbers of two volumes of one share can be the same, and the client's cache would mix their files.
    """
    given = list(storage.options)
    if storage.kind == SMB and not {"serverino", "noserverino"} & set(given):
        given.append("noserverino")
    return given


def claim(storage: Storage) -> Json:
    """The claim of a share, where the pods of jobs are."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _about(storage.claim, JOBS_NAMESPACE),
        "spec": {
            "accessModes": ["ReadWriteMany"],
            "storageClassName": "",
            "volumeName": _volume_name(storage),
            "resources": {"requests": {"storage": _SIZE}},
        },
    }


def secret(storage: Storage, credentials: Credentials) -> Json:
    """What opens a share of SMB, in the namespace of the services: no job can mount it there."""
    data = {"username": credentials.username, "password": credentials.password}
    if credentials.domain:
        data["domain"] = credentials.domain
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": _about(storage.claim, NAMESPACE),
        "type": "Opaque",
        "stringData": data,
    }


def _about(name: str, namespace: str = "") -> Json:
    about: Json = {"name": name, "labels": labels("storages")}
    return {**about, "namespace": namespace} if namespace else about


# --- template libraries

_LABEL: Final = "job-templates"
_SELECTOR: Final = f"{NAME}={_LABEL},{PART_OF}={OURS}"
_LIBRARY_KEY: Final = "library.json"


class TemplateStore:
    """The libraries of one cluster."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client

    def read(self) -> tuple[TemplateLibrary, ...]:
        """All libraries by name; raises `ClusterError` for a damaged one."""
        libraries: list[TemplateLibrary] = []
        for _, page in self._client.list(path_of(NAMESPACE, "configmaps"), {"labelSelector": _SELECTOR}):
            for config_map in page:
                try:
                    libraries.append(library_from(str((config_map.get("data") or {}).get(_LIBRARY_KEY, ""))))
                except ClusterError as error:
                    error.where = f"configmap {NAMESPACE}/{config_map['metadata']['name']}"
                    raise
        return tuple(sorted(libraries, key=lambda library: library.name))

    def put(self, library: TemplateLibrary, *, new: bool) -> None:
        """Add a library, or replace the one of its name."""
        with_library(self.read(), library, new=new)  # whether it may be there
        name = _object(library.name)
        about: Json = {"name": name, "namespace": NAMESPACE, "labels": labels(_LABEL)}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {_LIBRARY_KEY: text_of(library)}}
        if new:
            if self._create(body) is None:
                raise already_there(library.name)
            return
        known = find(self._client, path_of(NAMESPACE, "configmaps", name))
        about["resourceVersion"] = (known or {}).get("metadata", {}).get("resourceVersion", "0")
        if replace(self._client, path_of(NAMESPACE, "configmaps", name), body) is None:
            raise ConflictError(
                text("another administrator has changed the template library {name}", name=library.name),
                hint=text("run the same command again"),
            )

    def _create(self, body: Json) -> Json | None:
        try:
            return create(self._client, path_of(NAMESPACE, "configmaps"), body)
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            raise ClusterError(
                text("the namespace {space} does not exist", space=NAMESPACE),
                hint=text("start the services first: paictl service start"),
            ) from None

    def remove(self, name: str) -> None:
        """Remove a library."""
        library_named(self.read(), name)
        delete(self._client, path_of(NAMESPACE, "configmaps", _object(name)))


def _object(name: str) -> str:
    return f"paictl-templates-{name}"
