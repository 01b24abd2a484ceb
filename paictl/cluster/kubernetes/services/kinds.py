"""Kinds of objects: their paths, their order, which of them do the work; and what paictl adds to each."""

from __future__ import annotations

import copy
import hashlib
import json
import threading
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

from paictl.cluster.kubernetes.names import INPUT_HASH, NAMESPACE, SERVICE, labels
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
        whole = [entry for entry in listed if "/" not in entry["name"]]
        return {str(entry["kind"]): Resource(prefix, entry["name"], bool(entry["namespaced"])) for entry in whole}


RESTARTED: Final = "paictl.io/restarted-at"
"""Annotation of pods: when somebody asked for a restart, so that there is one."""


def digest_of(bodies: Iterable[Json], version: str) -> str:
    """The hash of rendered objects (with seals in the place of secrets) and of the version of paictl."""
    text = json.dumps([version, list(bodies)], sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def marked(body: Json, service: str, version: str, digest: str, *, namespaced: bool, restarted: str = "") -> Json:
    """An object as it is applied; a node stays as it is, because it is not ours and must never be pruned."""
    result: Json = copy.deepcopy(body)
    about = result["metadata"]
    if namespaced:
        about.setdefault("namespace", NAMESPACE)
    else:
        about.pop("namespace", None)
    if result["kind"] == NODE:
        return result
    about["labels"] = {**labels(service, version), **_mapping(about, "labels"), SERVICE: service}
    about["annotations"] = {**_mapping(about, "annotations"), INPUT_HASH: digest}
    for claim in _spec(result).get("volumeClaimTemplates") or ():
        _add(claim, {SERVICE: service}, {})
    template = _template(result)
    if template is not None:
        _add(template, {SERVICE: service}, {INPUT_HASH: digest, **({RESTARTED: restarted} if restarted else {})})
    return result


def _template(body: Json) -> Json | None:
    """The template of the pods of a workload."""
    if body["kind"] not in WORKLOADS or body["kind"] == "Pod":
        return None
    spec = _spec(body)
    if body["kind"] == "CronJob":
        spec = _spec(spec.get("jobTemplate") or {})
    template = spec.get("template")
    return template if isinstance(template, dict) else None


def _add(body: Json, names: dict[str, str], notes: dict[str, str]) -> None:
    about = body.setdefault("metadata", {})
    about["labels"] = {**_mapping(about, "labels"), **names}
    if notes:
        about["annotations"] = {**_mapping(about, "annotations"), **notes}


def _spec(body: Json) -> Json:
    spec = body.get("spec")
    return spec if isinstance(spec, dict) else {}


def _mapping(about: Json, key: str) -> dict[str, Any]:
    return dict(about.get(key) or {})
