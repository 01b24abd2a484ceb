"""The data of a service: what of it survives when its objects are deleted, and is counted before it is destroyed."""

from __future__ import annotations

from typing import Final

from paictl.cluster.kubernetes.names import KEEP, NAME, NAMESPACE, SERVICE
from paictl.cluster.kubernetes.services.applying import Applier
from paictl.cluster.kubernetes.services.kinds import Group, Kinds
from paictl.cluster.kubernetes.services.record import Item, ServiceRecord
from paictl.cluster.kubernetes.store import HEAD
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import NOT_FOUND, delete, find, path_of

_CLAIM: Final = "PersistentVolumeClaim"
_CLAIMS: Final[Group] = ("v1", _CLAIM)
_CRD: Final = "CustomResourceDefinition"
_KINDS: Final = (_CLAIM, _CRD, "Namespace", "PersistentVolume")
_FOREVER: Final = "Namespace"
"""Never deleted: what else is in it is not known to be ours."""
_ELSEWHERE: Final = {
    "rest-server": (("secrets",), "users", "accounts and tokens of users"),
    "cluster-configuration": (("configmaps", "secrets"), "configuration", "versions of the configuration"),
}
"""Services whose data paictl keeps itself: kinds, value of the label `app.kubernetes.io/name`, what to call them."""


class DataKeeper:
    """Knows the data of services on one cluster."""

    def __init__(self, client: KubeClient, kinds: Kinds, applier: Applier) -> None:
        self._client = client
        self._kinds = kinds
        self._applier = applier

    def is_data(self, item: Item) -> bool:
        """Whether an object holds data: by its kind, or because its template says so."""
        if item.group[1] in _KINDS:
            return True
        return item.group[1] in ("ConfigMap", "Secret") and _keeps(self._applier.live(item))

    def kept(self, record: ServiceRecord) -> set[Item]:
        """The objects of a service that hold data."""
        there = self._applier.ours(record.service, record.groups | {_CLAIMS})
        return {Item.of(body) for body in there if self.is_data(Item.of(body))}

    def lines(self, record: ServiceRecord) -> list[str]:
        """The data of a service, each in a line: volumes, custom resources with their number, accounts, versions."""
        lines = []
        for item in sorted(self.kept(record), key=lambda item: item.label):
            if item.group[1] == _CLAIM:
                lines.append(f"volume {item.namespace}/{item.name}{self._size(item)}")
            elif item.group[1] == _CRD:
                count = self._instances(item)
                lines += [f"{count} objects of {item.name}"] if count else []
            elif not lasts(item):
                lines.append(item.label)
        return lines + self._elsewhere(record.service)

    def destroy(self, record: ServiceRecord) -> None:
        """Destroy the data of a service that are no objects of its templates, and the volumes of its pods."""
        for item in self.kept(record):
            if not lasts(item):
                self._applier.remove(item)
        kinds, name, _ = _ELSEWHERE.get(record.service, ((), "", ""))
        if name == "configuration":
            delete(self._client, path_of(NAMESPACE, "configmaps", HEAD))  # first: without it no version is there
        for kind in kinds:
            for body in self._named(kind, name):
                delete(self._client, path_of(NAMESPACE, kind, str(body["metadata"]["name"])))

    def _elsewhere(self, service: str) -> list[str]:
        kinds, name, words = _ELSEWHERE.get(service, ((), "", ""))
        objects = [body for kind in kinds for body in self._named(kind, name)]
        if not objects:
            return []
        if name != "configuration":
            return [f"{len(objects)} {words}"]
        head = find(self._client, path_of(NAMESPACE, "configmaps", HEAD)) or {}
        versions = str((head.get("data") or {}).get("versions", "")).count('"number":')
        return [f"{versions} {words if versions != 1 else words.replace('versions', 'version')}"] if versions else []

    def _named(self, kind: str, name: str) -> list[Json]:
        pages = self._client.list(path_of(NAMESPACE, kind), {"labelSelector": f"{NAME}={name},!{SERVICE}"})
        return [body for _, page in pages for body in page]

    def _size(self, item: Item) -> str:
        live = self._applier.live(item) or {}
        size = ((live.get("status") or {}).get("capacity") or {}).get("storage")
        return f" ({size})" if size else ""

    def _instances(self, item: Item) -> int:
        """How many objects there are of the kind that a definition makes."""
        spec = (self._applier.live(item) or {}).get("spec") or {}
        version = next((version["name"] for version in spec.get("versions") or () if version.get("served")), "")
        path = f"/apis/{spec.get('group')}/{version}/{(spec.get('names') or {}).get('plural')}"
        try:
            page = self._client.get(path, query={"limit": 1})
        except KubeError as error:
            if error.status == NOT_FOUND:
                return 0
            raise
        return len(page.get("items") or ()) + int((page.get("metadata") or {}).get("remainingItemCount") or 0)


def lasts(item: Item) -> bool:
    """Whether an object stays whatever is told: with a namespace everything in it would go, of other services too."""
    return item.group[1] == _FOREVER


def _keeps(live: Json | None) -> bool:
    return ((live or {}).get("metadata", {}).get("annotations") or {}).get(KEEP) == "true"
