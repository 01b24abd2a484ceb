"""Which virtual clusters the pods of a namespace may use, by an annotation that only cluster administrators can set.

A pod's own annotation is only a request: anyone who may create pods can write any virtual cluster into it. They cannot
change namespaces (Kubernetes' roles admin, edit and view do not allow it), so the right is written there.

`told_apart` finds running pods that carry the name of a gang of another namespace, or of its virtual cluster, when a
door opens. A pod's request is frozen once it is bound. Between its pin and its binding its owner may change it, and may
name a scheduler that never binds it. A running door keeps such a pod as what it was when it was placed, but a new one
reads what it says now.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from paictl.cluster.kubernetes.names import JOBS_NAMESPACE
from paictl.cluster.pods.labels import EVERY_VC
from paictl.doors import pod_events
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import PodEntry
from paictl.i18n import text
from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import PodRequest
from paictl.scheduler.wire import GRANTED


class Grants:
    """The virtual clusters granted to each namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, tuple[str, ...]] = {}

    def change(self, namespace: Mapping[str, Any]) -> bool:
        """A Namespace was added or changed; whether its grants have changed."""
        metadata = namespace["metadata"]
        annotation = (metadata.get("annotations") or {}).get(GRANTED, "")
        names = tuple(dict.fromkeys(part.strip() for part in str(annotation).split(",") if part.strip()))
        return self._set(str(metadata["name"]), names)

    def remove(self, namespace: str) -> bool:
        """A Namespace was deleted; whether it had grants."""
        return self._set(namespace, ())

    def _set(self, namespace: str, names: tuple[str, ...]) -> bool:
        before = self._by_namespace.pop(namespace, ())
        if names:
            self._by_namespace[namespace] = names
        return before != names

    def foreign_group(self, pod: str, namespace: str, group: str, holder: str = "") -> RequestError | None:
        """Why a pod may not name its group so: it would take the name of another namespace's group, or join it.

        `holder` is the namespace whose pods have a place as that group, empty if none have.
        """
        owner, slash, _ = group.partition("/")
        if "~" in owner:  # `ann~train/default`: a gang of a job of ours, where there are any
            owner = JOBS_NAMESPACE
        if holder not in ("", namespace) and slash and owner == namespace:
            return RequestError(
                pod,
                "affinityGroup.name",
                text("the name {group} is in use in another namespace until the pods there have ended", group=group),
            )
        if holder not in ("", namespace):
            return RequestError(
                pod,
                "affinityGroup.name",
                text(
                    "the name {group} is in use in another namespace: begin it with {namespace}/",
                    group=group,
                    namespace=namespace,
                ),
            )
        if not slash or owner == namespace or owner not in self._by_namespace:
            return None
        return RequestError(
            pod,
            "affinityGroup.name",
            text(
                "the name {group} belongs to groups of namespace {owner}: begin it with {namespace}/",
                group=group,
                owner=owner,
                namespace=namespace,
            ),
        )

    def allow(self, namespace: str, vc: str) -> bool:
        """Whether the pods of a namespace may use a virtual cluster."""
        names = self._by_namespace.get(namespace, ())
        return vc in names or EVERY_VC in names

    def refusal(self, pod: str, namespace: str, vc: str) -> RequestError | None:
        """Why a pod (``namespace/name``) may not use a virtual cluster; None if it may."""
        if self.allow(namespace, vc):
            return None
        names = self._by_namespace.get(namespace, ())
        value = ",".join((*names, vc))
        return RequestError(
            pod,
            GRANTED,
            text(
                "namespace {namespace} was not granted virtual cluster {vc} (granted: {names}). "
                "A cluster administrator can grant it: {command}",
                namespace=namespace,
                vc=vc,
                names=", ".join(names) or text("none"),
                command=f"kubectl annotate namespace {namespace} --overwrite '{GRANTED}={value}'",
            ),
        )


# --- running pods under a name of others


def told_apart(
    pods: Iterable[tuple[PodEntry, BindInfo]], grants: Grants | None
) -> tuple[list[RunningPod], list[PodEvent]]:
    """The running pods as they are to be recovered, and events for those that lose their guarantee.

    A pod with a name that belongs to another namespace becomes a group of its own without a guarantee: it keeps its
    devices, but neither the name nor a place in that gang. So does one that is not bound yet and names a virtual
    cluster that its namespace may not use; one that is bound was allowed to when it was placed. Where two namespaces
    use one name, nobody knows who had it first: the one with the oldest pod keeps it, and the gang of the other gets
    another name. None for `grants`: namespaces share their names.

    A pod whose request can no longer be read becomes a group of its own, too: its labels were changed after it had its
    place, and its devices must not be given away.
    """
    pods = list(pods)
    rows = [(entry, entry.reading.request, info) for entry, info in pods if entry.reading is not None]
    unreadable = [(entry, entry.problem, info) for entry, info in pods if entry.problem is not None]
    running = [_alone(_nameless(entry), info) for entry, _, info in unreadable]
    events = [pod_events.set_apart(entry.ref, problem) for entry, problem, _ in unreadable]
    if grants is None:
        return [*running, *(RunningPod(request, info) for _, request, info in rows)], events
    holders: dict[str, str] = {}
    foreign = {
        entry.ref.uid: refusal
        for entry, request, _ in rows
        if (refusal := _refusal(entry, request, grants)) is not None
    }
    for entry, request, _ in sorted(rows, key=lambda row: (row[0].created, row[0].ref.key)):
        if entry.ref.uid not in foreign:
            holders.setdefault(request.group, entry.ref.namespace)
    for entry, request, info in rows:
        namespace = entry.ref.namespace
        if entry.ref.uid in foreign:
            running.append(_alone(request, info))
            if request.guaranteed:
                events.append(pod_events.set_apart(entry.ref, foreign[entry.ref.uid]))
        elif holders[request.group] != namespace:
            running.append(RunningPod(replace(request, group=f"{request.group} ({namespace})"), info))
        else:
            running.append(RunningPod(request, info))
    return running, events


def _refusal(entry: PodEntry, request: PodRequest, grants: Grants) -> RequestError | None:
    about = entry.ref.key, entry.ref.namespace
    refusal = grants.foreign_group(*about, request.group)
    return refusal if refusal is not None or entry.bound else grants.refusal(*about, request.vc)


def _nameless(entry: PodEntry) -> PodRequest:
    """The request of a pod of which only its place is known."""
    return PodRequest(entry.ref.uid, entry.ref.key, "", OPPORTUNISTIC, 1, entry.ref.key, ((1, 1),))


def _alone(request: PodRequest, info: BindInfo) -> RunningPod:
    """A pod as a group of its own without a guarantee, as `recovery.adopt_alone` makes one."""
    devices = tuple(dict.fromkeys(info.devices))
    if not devices:  # it holds nothing, and the engine says so
        return RunningPod(replace(request, group=f"{request.group} ({request.uid})"), replace(info, members=()))
    place = PodPlacement(info.node, devices, ("",) * len(devices))
    lone = replace(
        request,
        group=f"{request.group} ({request.uid})",
        priority=OPPORTUNISTIC,
        pinned_id="",
        repair=False,
        members=((len(devices), 1),),
        leaf_number=len(devices),
    )
    return RunningPod(lone, BindInfo(info.node, devices, info.chain, ((place,),)))
