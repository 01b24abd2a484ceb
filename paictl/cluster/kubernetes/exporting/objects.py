"""The objects of services for other tools: without secrets and nodes, with the configuration that they read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from paictl.cluster.kubernetes.head import Head, VersionEntry, manifest_of, object_name
from paictl.cluster.kubernetes.names import NAMESPACE
from paictl.cluster.kubernetes.pieces import digest, pack
from paictl.cluster.kubernetes.pushing import encoded, version_manifest
from paictl.cluster.kubernetes.services.kinds import NODE, rank_of
from paictl.cluster.kubernetes.services.marking import digest_of, marked
from paictl.cluster.kubernetes.store import key_of
from paictl.cluster.manifests.certificates import CertificateSet
from paictl.cluster.manifests.context import Renderer
from paictl.cluster.manifests.exported import Exported
from paictl.remote.kube.client import Json

SECRET: Final = "Secret"  # noqa: S105 - a kind of object
_CLUSTER_WIDE: Final = frozenset({
    "Namespace", NODE, "ClusterRole", "ClusterRoleBinding", "PriorityClass", "CustomResourceDefinition",
    "StorageClass", "PersistentVolume", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
    "MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding",
})  # fmt: skip
"""Kinds that are in no namespace; there is no server that could be asked."""


def service_objects(exported: Exported, renderer: Renderer, name: str) -> list[Json]:
    """The objects of a service in the order of applying; its secrets and the nodes are left out."""
    bodies = [one.body for one in renderer.sealed(name)]
    found = [
        marked(body, name, exported.version, digest_of(bodies, exported.version), namespaced=_namespaced(body))
        for body in bodies
        if body["kind"] not in (SECRET, NODE)
    ]
    return sorted(found, key=lambda body: rank_of(body["kind"]))


def token_of(exported: Exported) -> str:
    """What names the objects of the configuration: the same for the same files."""
    return digest(exported.files)[:16]


def configuration_objects(exported: Exported) -> list[Json]:
    """The configuration as `config push` keeps it in a cluster: one version, sealed, and the head that names it.

    Job controller and REST server read it. Raises `ClusterError` for what is too much for a cluster.
    """
    packed = pack(exported.files)
    size = sum(len(text.encode()) for data in packed.objects for text in data.values())
    at = exported.at or datetime.fromtimestamp(0, UTC)
    entry = VersionEntry(
        exported.number, at, "exported", token_of(exported), size, digest(exported.files), packed.index
    )  # fmt: skip
    pieces = [
        version_manifest("ConfigMap", entry.number, entry.name(part), data) for part, data in enumerate(packed.objects)
    ]
    return [*pieces, manifest_of(Head(exported.cluster_id, (entry,)))]


def secret_objects(exported: Exported, secrets: Mapping[str, str], certificates: CertificateSet | None) -> list[Json]:
    """What no file may hold: the namespace and, in it, every Secret that services and configuration need.

    Raises `PaictlError` for a seal without a value.
    """
    renderer = exported.renderer(secrets, certificates)
    found = [
        marked(one.body, name, exported.version, digest_of([one.body], exported.version), namespaced=True)
        for name in exported.services
        for one in renderer.render(name)
        if one.kind == SECRET
    ]
    values = {key_of(seal): encoded(value) for seal, value in secrets.items()}
    if values:
        about = object_name(exported.number, token_of(exported))
        found.append(version_manifest(SECRET, exported.number, about, values))
    space = [
        marked(one.body, "cluster-configuration", exported.version, "", namespaced=False)
        for one in renderer.sealed("cluster-configuration")
        if (one.kind, one.name) == ("Namespace", NAMESPACE)
    ]
    return [*space, *found]


def node_labels(renderer: Renderer) -> Iterator[tuple[str, Mapping[str, str], Sequence[Mapping[str, str]]]]:
    """(node, labels, taints) of the machines: no tool may own a node, or it would delete it."""
    for one in renderer.sealed("cluster-configuration"):
        if one.kind == NODE:
            yield one.name, one.body["metadata"].get("labels") or {}, (one.body.get("spec") or {}).get("taints") or ()


def _namespaced(body: Json) -> bool:
    return body["kind"] not in _CLUSTER_WIDE
