"""The DNS cache of the nodes (`deploy.node_dns`): CoreDNS on each of them, in front of the cluster's DNS.

Pods ask an address that every node has for itself, and the cluster's DNS where it does not answer. Both give the same
answers, so a cache that is away costs time and nothing else.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Iterable, Mapping
from typing import Any, Final

from paictl.frozen import frozen
from paictl.i18n import text
from paictl.remote.kube.client import KubeClient
from paictl.remote.kube.objects import find
from paictl.resources import resource_folder

NAME: Final = "node-dns"
"""Of the DaemonSet, its ConfigMap, and the label of its pods."""
ADDRESS: Final = "169.254.20.10"
"""Of the cache on each node; NodeLocal DNSCache uses it, too, so nothing else does."""
METRICS: Final = 9253
"""On all addresses of a node, where the firewall keeps pods of jobs from it."""
UNIT: Final = "paictl-node-dns"
UNKNOWN: Final = "restored"
"""Instead of a mark, after a restore, whose manifest is unknown (playbooks/files/paictl_etcd.py)."""
LEAVING: Final = "leaving"
"""State of a cache that no new pod uses."""
_HEALTH: Final = 9254
_ANNOTATION: Final = "paictl.io/manifest"
_DNS: Final = 10
"""kubeadm gives the cluster's DNS the tenth address of the network of services."""
_SYSTEM: Final = "/apis/apps/v1/namespaces/kube-system"
_PATH: Final = f"{_SYSTEM}/daemonsets/{NAME}"
_OTHERS: Final = f"{_SYSTEM}/daemonsets/node-local-dns"
_PODS: Final = "/api/v1/namespaces/kube-system/pods"

Values = Mapping[str, Any]


@frozen
class DnsCacheState:
    """How far it is on a machine: `state` is the mark of the applied manifest, `leaving` or empty (first master).

    `has_unit` says whether the machine has the address; `users` are pods that use a cache that is leaving, None where
    they cannot be told.
    """

    state: str
    has_unit: bool
    users: tuple[str, ...] | None

    @property
    def is_active(self) -> bool:
        """Whether pods that start now may use it."""
        return self.state not in ("", LEAVING)

    @property
    def stays(self) -> bool:
        """Whether pods still need a cache that no new pod uses."""
        return self.state == LEAVING and self.users != ()


def state_of(facts: Values) -> DnsCacheState:
    """The state from what a machine said of itself."""
    cache = facts.get("node_dns") or {}
    users = cache.get("users", [])
    return DnsCacheState(cache.get("state", ""), bool(cache.get("unit")), None if users is None else tuple(users))


def cluster_dns(services: str) -> str:
    """The address of the cluster's DNS."""
    return str(ipaddress.ip_network(services)[_DNS])


def manifest_of(domain: str, services: str) -> str:
    """All objects, with `@IMAGE@` and `@MARK@` still in them: the image is that of the cluster's own CoreDNS."""
    written = (resource_folder("playbooks") / "files" / "node-dns.yaml").read_text(encoding="utf-8")
    words = {
        "NAME": NAME,
        "ADDRESS": ADDRESS,
        "DOMAIN": domain,
        "CLUSTER_DNS": cluster_dns(services),
        "METRICS": str(METRICS),
        "HEALTH": str(_HEALTH),
        "ANNOTATION": _ANNOTATION,
    }
    for word, value in words.items():
        written = written.replace(f"@{word}@", value)
    return written


def mark_of(manifest: str) -> str:
    """By which a master knows the manifest that it has applied, and a pod the one it was made from."""
    return hashlib.sha256(manifest.encode()).hexdigest()


def completed(manifest: str, image: str) -> str:
    """A manifest with its image and its mark."""
    return manifest.replace("@IMAGE@", image).replace("@MARK@", mark_of(manifest))


def image_of_dns(client: KubeClient) -> str:
    """The image of the cluster's own CoreDNS, which all nodes can get; empty for a cluster without it."""
    return _image(find(client, f"{_SYSTEM}/deployments/coredns"))


def outdated_image(client: KubeClient) -> str:
    """The image that the cache should have after CoreDNS was upgraded; empty where it has it, or there is no cache."""
    own, current = _image(find(client, _PATH)), image_of_dns(client)
    return current if own and own != current else ""


def applied_mark(client: KubeClient) -> str:
    """The mark of the manifest that the cluster's cache was made from; empty where there is none."""
    workload = find(client, _PATH)
    if workload is None:
        return ""
    annotations = workload["spec"]["template"]["metadata"].get("annotations") or {}
    return str(annotations.get(_ANNOTATION) or UNKNOWN)


def set_image(client: KubeClient, image: str) -> None:
    """Give the cache another image; its pods are replaced one after the other, each while the old one still answers."""
    patch = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]
    client.request("PATCH", _PATH, patch, kind="application/json-patch+json")


def _image(workload: Values | None) -> str:
    return str(workload["spec"]["template"]["spec"]["containers"][0]["image"]) if workload else ""


def has_another_cache(client: KubeClient) -> bool:
    """Whether a NodeLocal DNSCache that paictl did not set up exists: it takes the same address."""
    return find(client, _OTHERS) is not None


def missing_caches(client: KubeClient, nodes: Iterable[str], mark: str) -> dict[str, str]:
    """The nodes on which no pod made from the manifest of a mark is ready, each with the reason."""
    pods = [pod for _, page in client.list(_PODS, {"labelSelector": f"k8s-app={NAME}"}) for pod in page]
    newest = {
        pod["spec"].get("nodeName", ""): pod
        for pod in pods
        if (pod["metadata"].get("annotations") or {}).get(_ANNOTATION) == mark
        and "deletionTimestamp" not in pod["metadata"]
    }
    return {name: why for name in nodes if (why := _problem(newest.get(name)))}


def _problem(pod: Values | None) -> str:
    """Why a pod is not ready; empty where it is."""
    if pod is None:
        return text("it has no pod yet")
    states = pod.get("status", {}).get("containerStatuses") or ()
    if states and all(state.get("ready") for state in states):
        return ""
    waiting: Values = next((state["state"]["waiting"] for state in states if "waiting" in state.get("state", {})), {})
    reason = ": ".join(filter(None, (waiting.get("reason", ""), waiting.get("message", ""))))
    return reason or text("its pod is not ready")
