"""Images that the machines have, where they can get no others.

Which these are is kept with the cluster by whoever has deployed them. It
is about machines, not about a configuration, so it is no part of what is pushed: a push from another dev box, which
does not know the machines, must not change it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, Final

from paictl.cluster.kubernetes.names import MANAGED_BY, NAMESPACE, OURS, PART_OF, labels
from paictl.cluster.values import ClusterError, ConflictError
from paictl.remote.kube.client import Json, KubeClient
from paictl.remote.kube.objects import create, delete, find, path_of
from paictl.remote.kube.objects import replace as put

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
