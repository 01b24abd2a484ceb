"""Kinds of objects: where their paths are, in which order they are applied, and which of them do the work."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from paictl.frozen import frozen
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND

WORKLOADS: Final = ("Deployment", "DaemonSet", "StatefulSet", "Job", "CronJob", "ReplicaSet", "Pod")
"""What runs; a stop takes it away and nothing else."""
NODE: Final = "Node"
"""Not ours: labels and taints of it may be, the object never."""

_ORDER: Final = (
    ("Namespace",),
    ("CustomResourceDefinition",),
    ("PriorityClass", "StorageClass", "RuntimeClass", NODE),
    ("ServiceAccount", "Role", "ClusterRole"),
    ("RoleBinding", "ClusterRoleBinding"),
    ("ConfigMap", "Secret", "PersistentVolume", "PersistentVolumeClaim", "ResourceQuota", "LimitRange"),
    ("Service", "Endpoints", "EndpointSlice", "NetworkPolicy", "PodDisruptionBudget"),
)
_RANKS: Final[Mapping[str, int]] = {kind: rank for rank, kinds in enumerate(_ORDER) for kind in kinds}
_HOOKS: Final = ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration", "APIService")

Group = tuple[str, str]
"""(apiVersion, kind)"""


def group_of(body: Json) -> Group:
    """The apiVersion and kind of an object."""
    return str(body["apiVersion"]), str(body["kind"])


def rank_of(kind: str) -> int:
    """Place of a kind in the order of applying: what others stand on comes first, what calls others last."""
    if kind in _HOOKS:
        return len(_ORDER) + 2
    return len(_ORDER) + 1 if kind in WORKLOADS else _RANKS.get(kind, len(_ORDER))


def label_of(body: Json) -> str:
    """An object for people: ``Deployment paictl-system/grafana``."""
    about = body["metadata"]
    space = f"{about['namespace']}/" if about.get("namespace") else ""
    return f"{body['kind']} {space}{about['name']}"


@frozen
class Resource:
    """Where the objects of a kind are."""

    prefix: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """The path of an object, or of all of its kind; in all namespaces where none is given."""
        space = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        return f"{self.prefix}{space}/{self.plural}{f'/{quote(name, safe=chr(58))}' if name else ''}"

    def path_of(self, body: Json) -> str:
        """The path of an object."""
        about = body["metadata"]
        return self.path(str(about.get("namespace") or ""), str(about["name"]))


class Kinds:
    """What the server says about its kinds; asked once a group, and again for a kind that was not there."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[str, dict[str, Resource]] = {}
        self._lock = threading.Lock()

    def find(self, group: Group) -> Resource | None:
        """Where a kind is; None if the server does not have it (yet)."""
        version, kind = group
        with self._lock:
            if kind not in self._known.get(version, {}):
                self._known[version] = self._ask(version)
            return self._known[version].get(kind)

    def _ask(self, version: str) -> dict[str, Resource]:
        prefix = f"/apis/{version}" if "/" in version else f"/api/{version}"
        try:
            listed = self._client.get(prefix).get("resources") or ()
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            return {}
        whole = [one for one in listed if "/" not in one["name"]]
        return {str(one["kind"]): Resource(prefix, one["name"], bool(one["namespaced"])) for one in whole}
