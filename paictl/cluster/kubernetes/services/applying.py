"""Objects checked and applied by the server, in an order in which they can stand; refusals told object by object."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from paictl.cluster.kubernetes.names import INPUT_HASH, NAMESPACE, OURS, PART_OF, SERVICE
from paictl.cluster.kubernetes.services.drift import removal
from paictl.cluster.kubernetes.services.kinds import (
    NODE,
    WORKLOADS,
    Group,
    Kinds,
    Resource,
    group_of,
    label_of,
    rank_of,
)
from paictl.cluster.kubernetes.services.nodes import taint, tainted, taints_of, untainted
from paictl.cluster.kubernetes.services.record import Item
from paictl.cluster.values import ClusterError, ConflictError
from paictl.i18n import text
from paictl.remote.kube.client import Json, KubeClient, KubeError
from paictl.remote.kube.objects import CONFLICT, MANAGER, NOT_FOUND, apply, delete, find

_CRD: Final = "CustomResourceDefinition"
_ESTABLISHED: Final = 30.0
"""Seconds that a custom resource may take until it can be used."""
_JSON_PATCH: Final = "application/json-patch+json"
_REMEDIES: Final = {
    "MutatingAdmissionPolicy": (
        "Kubernetes 1.36 and newer have it; on 1.35 write `hivedscheduler: {gate-policy: false}`, push, and give pods "
        "the gate paictl.io/cells yourself (docs/placer.md)"
    ),
    "ValidatingAdmissionPolicy": "Kubernetes 1.30 and newer have it (docs/extender.md)",
}
"""What to do about a kind that some versions of Kubernetes lack."""
_SHOWN: Final = 5
"""Refused objects that a message names."""

_RIVALS: Final = {
    "nvidia-device-plugin": ("nvidia-dra-driver", "dra-driver"),
    "nvidia-dra-driver": ("nvidia-device-plugin", "device-plugin"),
}
"""DaemonSets that offer devices, each with the one that offers the same devices, and its service."""


def refuse_rivals(client: KubeClient, objects: Iterable[Json]) -> None:
    """Raise `ClusterError` if objects would offer devices that another service of the cluster still offers."""
    for body in objects:
        if body["kind"] != "DaemonSet" or body["metadata"]["name"] not in _RIVALS:
            continue
        rival, service = _RIVALS[body["metadata"]["name"]]
        if find(client, f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets/{rival}") is not None:
            raise ClusterError(
                text("service {name} still offers the same devices; nothing was applied", name=service),
                hint=text("end it first: paictl service refresh -n {name}", name=service),
                where=label_of(body),
            )


class Applier:
    """Applies the objects of services to one cluster; `take_over` makes fields of other managers ours."""

    def __init__(self, client: KubeClient, kinds: Kinds) -> None:
        self._client = client
        self._kinds = kinds

    def resource(self, body: Json, among: Sequence[Json] = ()) -> Resource | None:
        """Where an object is; None if its kind comes with a definition `among` the same objects.

        Raises `ClusterError` for a kind that the server does not have.
        """
        resource = self._kinds.find(group_of(body))
        if resource is None and not any(_defines(other, group_of(body)) for other in among):
            version, kind = group_of(body)
            raise ClusterError(
                text("the server has no kind {kind} of {version}", kind=kind, version=version),
                where=label_of(body),
                hint=_REMEDIES.get(kind, "install the definition of this kind, or use another version of Kubernetes"),
            )
        return resource

    def check(self, objects: Sequence[Json], alive: Callable[[], None], *, take_over: bool = False) -> None:
        """Let the server check all objects without changing anything; `alive` is called in between.

        Raises `ConflictError` if fields belong to others, `ClusterError` with every object that was refused.
        """
        refused: list[tuple[Json, KubeError]] = []
        spaces = {item["metadata"]["name"] for item in objects if item["kind"] == "Namespace"}
        for body in objects:
            alive()
            resource = self.resource(body, objects)
            if resource is None or (body["kind"] == NODE and find(self._client, resource.path_of(body)) is None):
                continue
            try:
                self._try(resource, body, take_over=take_over)
            except KubeError as error:
                if error.status >= 500:
                    raise
                if error.status != NOT_FOUND or body["metadata"].get("namespace") not in spaces:
                    refused.append((body, error))
        if refused:
            raise _refusal(refused, "nothing was applied")

    def _try(self, resource: Resource, body: Json, *, take_over: bool) -> None:
        body = self._trial(resource, body)
        path = resource.path_of(body)
        live = apply(self._client, path, untainted(body), dry_run=True, force=take_over)
        if body["kind"] == NODE:
            taint(self._client, path, live, taints_of(body), dry_run=True)

    def _trial(self, resource: Resource, body: Json) -> Json:
        """What to send in a dry run: an object that has to be made again under another name, as a new one."""
        if not self._outdated(resource.path_of(body), body):
            return body
        return {**body, "metadata": {**body["metadata"], "name": f"{body['metadata']['name'][:50]}-check"}}

    def _outdated(self, path: str, body: Json) -> bool:
        """Whether an object has to be made again, since Kubernetes never lets it change: the pods of a Job, a priority.

        Pods keep the priority with which they were created.
        """
        live = find(self._client, path) if body["kind"] in ("Job", "PriorityClass") else None
        if live is None:
            return False
        return _hash(live) != _hash(body) if body["kind"] == "Job" else live.get("value") != body.get("value", 0)

    def apply(self, objects: Sequence[Json], alive: Callable[[], None], *, take_over: bool = False) -> None:
        """Apply objects in order, each kind of ours waited for until it can be used; `alive` is called in between."""
        for body in sorted(objects, key=lambda item: rank_of(item["kind"])):
            alive()
            resource = self.resource(body)
            if resource is None:  # never: without others among which a definition could be it would have raised
                continue
            path = resource.path_of(body)
            if body["kind"] == NODE and find(self._client, path) is None:
                continue
            if self._outdated(path, body):
                self.remove(Item.of(body))
            try:
                live = apply(self._client, path, untainted(body), force=take_over)
                if body["kind"] == NODE:
                    taint(self._client, path, live, taints_of(body))
                elif take_over and (patch := removal(live)):
                    self._client.request("PATCH", path, patch, query={"fieldManager": MANAGER}, kind=_JSON_PATCH)
            except KubeError as error:
                if error.status >= 500:
                    raise
                raise _refusal([(body, error)], "some objects were applied: start it again") from None
            if body["kind"] == _CRD:
                self._await_established(path, body, alive)

    def _await_established(self, path: str, body: Json, alive: Callable[[], None]) -> None:
        end = time.monotonic() + _ESTABLISHED
        while True:
            live = find(self._client, path) or {}
            conditions = (live.get("status") or {}).get("conditions") or ()
            if any(condition["type"] == "Established" and condition["status"] == "True" for condition in conditions):
                return
            if time.monotonic() > end:
                why = "; ".join(
                    str(condition.get("message")) for condition in conditions if condition["status"] == "False"
                )
                raise ClusterError(text("cannot be used: {why}", why=why or "nobody says why"), where=label_of(body))
            alive()
            time.sleep(0.05)

    # --- what is there

    def ours(self, service: str, groups: Iterable[Group]) -> list[Json]:
        """The objects of some kinds that carry the label of a service, wherever they are."""
        objects: list[Json] = []
        for group in sorted(groups):
            resource = self._kinds.find(group)
            if resource is None or group[1] == NODE:
                continue
            page = self._labelled(resource, service)
            objects += [{**body, "apiVersion": group[0], "kind": group[1]} for body in page if not _owned(body)]
        return objects

    def _labelled(self, resource: Resource, service: str) -> list[Json]:
        query = {"labelSelector": f"{SERVICE}={service},{PART_OF}={OURS}"}
        try:
            return [body for _, page in self._client.list(resource.path(), query) for body in page]
        except KubeError as error:
            if error.status != NOT_FOUND:
                raise
            return []  # its definition has just been deleted

    def live(self, item: Item) -> Json | None:
        """An object as it is now."""
        resource = self._kinds.find(item.group)
        return None if resource is None else find(self._client, resource.path(item.namespace, item.name))

    def dry(self, body: Json) -> Json | None:
        """An object as applying it would leave it; None if the server has no such kind."""
        resource = self._kinds.find(group_of(body))
        if resource is None:
            return None
        trial = self._trial(resource, body)
        result = apply(self._client, resource.path_of(trial), untainted(trial), dry_run=True, force=True)
        result["metadata"]["name"] = body["metadata"]["name"]
        return tainted(result, taints_of(body)) if body["kind"] == NODE else result

    def remove(self, item: Item) -> bool:
        """Delete an object of ours, its pods in the background; of a node only our labels and taints go."""
        resource = self._kinds.find(item.group)
        if resource is None:
            return False
        path = resource.path(item.namespace, item.name)
        if item.group[1] == NODE:
            empty = {"apiVersion": item.group[0], "kind": NODE, "metadata": {"name": item.name}}
            if find(self._client, path) is not None:
                taint(self._client, path, apply(self._client, path, empty, force=True), [])
            return False
        return delete(self._client, f"{path}?propagationPolicy=Background")


def workloads_first(items: Iterable[Item]) -> list[Item]:
    """The order of deleting: what runs goes before what it stands on."""
    return sorted(items, key=lambda item: (-rank_of(item.group[1]), item.label))


def is_workload(item: Item) -> bool:
    """Whether an object runs something."""
    return item.group[1] in WORKLOADS


def _owned(body: Json) -> bool:
    """Whether a controller made it of another object: that one is deleted, not this."""
    return any(reference.get("controller") for reference in body["metadata"].get("ownerReferences") or ())


def _hash(body: Json) -> str:
    return str((body["metadata"].get("annotations") or {}).get(INPUT_HASH, ""))


def _defines(body: Json, group: Group) -> bool:
    if body["kind"] != _CRD:
        return False
    spec = body.get("spec") or {}
    versions = {f"{spec.get('group')}/{version.get('name')}" for version in spec.get("versions") or ()}
    return group[0] in versions and (spec.get("names") or {}).get("kind") == group[1]


def _refusal(refused: Sequence[tuple[Json, KubeError]], state: str) -> ClusterError:
    """One error for all that the server refused; of a conflict it says who owns which field."""
    conflicts = [(body, error) for body, error in refused if error.status == CONFLICT and _causes(error)]
    if conflicts:
        fields = [
            f"{label_of(body)}: {field} belongs to {owner}"
            for body, error in conflicts
            for field, owner in _causes(error)
        ]
        return ConflictError(
            text("fields are managed by others: {fields}; {state}", fields=_some(fields), state=state),
            where=label_of(conflicts[0][0]),
            hint="undo their changes, or let paictl own the fields: --take-over",
        )
    words = [f"{label_of(body)}: {_plain(error)}" for body, error in refused]
    return ClusterError(
        text("the server refuses {what}; {state}", what=_some(words), state=state),
        where=label_of(refused[0][0]),
        hint=_hint(refused[0][1]),
    )


def _causes(error: KubeError) -> list[tuple[str, str]]:
    """(field, owner) of every field that another manager owns."""
    conflicts = []
    for cause in (error.body.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "FieldManagerConflict":
            words = str(cause.get("message", "")).split('"')
            conflicts.append((str(cause.get("field", "?")), words[1] if len(words) > 1 else "somebody"))
    return conflicts


def _plain(error: KubeError) -> str:
    return str(error.body.get("message") or error.message)


def _hint(error: KubeError) -> str | None:
    if error.status == 403:
        return "ask an administrator for the rights that docs/services.md lists, or for quota"
    return "see what the configuration says about it: paictl config validate" if error.status in (400, 422) else None


def _some(words: Sequence[str]) -> str:
    more = f"; and {len(words) - _SHOWN} more" if len(words) > _SHOWN else ""
    return "; ".join(words[:_SHOWN]) + more
