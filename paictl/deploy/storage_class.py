"""The default storage class of a cluster: volumes of local-path are folders on the node where a pod first uses them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from paictl.cluster.kubernetes.names import OURS, PART_OF
from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import KubeClient
from paictl.remote.kube.objects import find
from paictl.resources import resource_folder

NAME: Final = "local-path"
"""Of the StorageClass, as its makers call it."""
NAMESPACE: Final = "local-path-storage"
IMAGE: Final = "docker.io/rancher/local-path-provisioner:v0.0.30"
"""The provisioner, and the pods in which it makes and deletes folders."""
_CLASS: Final = f"/apis/storage.k8s.io/v1/storageclasses/{NAME}"
_PROVISIONER: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/local-path-provisioner"


@frozen
class StorageClass:
    """What `deploy.storage_class` says: the folder on each node, and whether data goes with its claim."""

    path: str = "/opt/local-path-provisioner"
    reclaim_policy: str = "Delete"


def storage_class_of(section: Mapping[str, Any]) -> StorageClass | None:
    """The storage class of the section `deploy:`; None without one."""
    written = section.get("storage_class")
    if not written:
        return None
    own = {name: written[name] for name in ("path", "reclaim_policy") if written.get(name)}
    return StorageClass(**own)


def manifest_of(storage_class: StorageClass | None) -> str:
    """All objects of it; empty without one."""
    if storage_class is None:
        return ""
    written = (resource_folder("playbooks") / "files" / "local-path.yaml").read_text(encoding="utf-8")
    words = {
        "NAME": NAME,
        "NAMESPACE": NAMESPACE,
        "IMAGE": IMAGE,
        "PATH": storage_class.path,
        "RECLAIM": storage_class.reclaim_policy,
    }
    for word, value in words.items():
        written = written.replace(f"@{word}@", value)
    return written


def strangers(client: KubeClient) -> list[str]:
    """Objects with our names that paictl did not create."""
    named = {f"storageclass {NAME}": _CLASS, f"namespace {NAMESPACE}": f"/api/v1/namespaces/{NAMESPACE}"}
    objects = ((name, find(client, path)) for name, path in named.items())
    return [name for name, item in objects if item and (item["metadata"].get("labels") or {}).get(PART_OF) != OURS]


def problem_with(client: KubeClient) -> str:
    """Why the class makes no volumes now; empty where it does."""
    provisioner = find(client, _PROVISIONER)
    if find(client, _CLASS) is None or provisioner is None:
        return text("the objects of storage class {name} are missing", name=NAME)
    status = provisioner.get("status", {})
    current = status.get("observedGeneration", 0) >= provisioner["metadata"]["generation"]
    if not current or min(status.get("updatedReplicas", 0), status.get("availableReplicas", 0)) < 1:
        return text("the provisioner of storage class {name} is not running", name=NAME)
    return ""


def exists(client: KubeClient) -> bool:
    """Whether the cluster has the class or the namespace of its provisioner, and paictl has made them."""
    objects = (find(client, path) for path in (_CLASS, f"/api/v1/namespaces/{NAMESPACE}"))
    return any(item is not None and (item["metadata"].get("labels") or {}).get(PART_OF) == OURS for item in objects)


def volumes_of(client: KubeClient) -> list[str]:
    """The claims that have a volume of the class, as ``namespace/name``; a released volume by its own name."""
    claims = []
    for _, page in client.list("/api/v1/persistentvolumes"):
        for volume in page:
            if volume["spec"].get("storageClassName") == NAME:
                claim = volume["spec"].get("claimRef") or {}
                bound = volume.get("status", {}).get("phase") == "Bound"
                claims.append(f"{claim['namespace']}/{claim['name']}" if bound else volume["metadata"]["name"])
    return sorted(claims)
