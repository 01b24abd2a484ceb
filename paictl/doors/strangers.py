"""Running pods that carry the name of a gang of another namespace, or of its virtual cluster, when a door opens.

A pod's request is frozen once it is bound. Between its pin and its binding its owner may change it, and may name a
scheduler that never binds it. A running door keeps such a pod as what it was when it was placed, but a new one reads
what it says now.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from paictl.doors import pod_events
from paictl.doors.grants import Grants
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import PodEntry
from paictl.scheduler.decision import BindInfo, PodPlacement
from paictl.scheduler.errors import RequestError
from paictl.scheduler.events import RunningPod
from paictl.scheduler.occupancy import OPPORTUNISTIC
from paictl.scheduler.request import PodRequest


def told_apart(
    pods: Iterable[tuple[PodEntry, BindInfo]], grants: Grants | None
) -> tuple[list[RunningPod], list[PodEvent]]:
    """The running pods as they are to be recovered, and events for those that lose their guarantee.

    A pod with a name that belongs to another namespace becomes a group of its own without a guarantee: it keeps its
    devices, but neither the name nor a place in that gang. So does one that is not bound yet and names a virtual
    cluster that its namespace may not use; one that is bound was allowed to when it was placed. Where two namespaces
    use one name, nobody knows who had it first: the one with the oldest pod keeps it, and the gang of the other gets
    another name. None for `grants`: namespaces share their names.
    """
    rows = [(entry, entry.reading.request, info) for entry, info in pods if entry.reading is not None]
    if grants is None:
        return [RunningPod(request, info) for _, request, info in rows], []
    running, events, holders = list[RunningPod](), list[PodEvent](), dict[str, str]()
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


def _alone(request: PodRequest, info: BindInfo) -> RunningPod:
    """A pod as a group of its own without a guarantee, as `recovery.adopt_alone` makes one."""
    devices = tuple(dict.fromkeys(info.devices))
    if not devices:  # it holds nothing, and the engine says so
        return RunningPod(replace(request, group=f"{request.group} ({request.uid})"), replace(info, members=()))
    place = PodPlacement(info.node, devices, ("",) * len(devices))
    lone = replace(
        request, group=f"{request.group} ({request.uid})", priority=OPPORTUNISTIC, pinned_id="", repair=False,
        members=((len(devices), 1),), leaf_number=len(devices),
    )  # fmt: skip
    return RunningPod(lone, BindInfo(info.node, devices, info.chain, ((place,),)))
