"""What is written for others and for the next leader: why a PodGroup waits, promised starts, pods given up on nodes."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Final
from urllib.parse import quote

from paictl.cluster.maintenance import UNIX
from paictl.cluster.pods.nodes import GIVEN_UP
from paictl.cluster.pods.podgroups import CONDITION, PodGroup
from paictl.cluster.pods.times import START_PROMISED
from paictl.doors.core import DoorCore
from paictl.doors.table import PodEntry, PodRef
from paictl.frozen import frozen
from paictl.remote.kube import pods
from paictl.remote.kube.client import MERGE, STRATEGIC, KubeClient, KubeError
from paictl.units import Millis, instant

_LONGEST: Final = 2000
"""Characters of a message."""


def note_start(client: KubeClient, pod: PodRef, at: Millis | None) -> None:
    """Write the promised start of a pod's gang into the pod, so that it outlives this process; None: no promise.

    A refused write is retried later. Raises `NoAnswerError`.
    """
    condition = {
        "type": START_PROMISED,
        "status": str(at is not None),
        "reason": "Backfill",
        "message": "" if at is None else instant(UNIX, at).isoformat(),
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    with suppress(KubeError, OverflowError):
        pods.note_condition(client, (pod.namespace, pod.name, pod.uid), condition)


def note_given_up(client: KubeClient, node: str, seconds: int | None) -> None:
    """Write into a node that was lost how long pods given up there may still run, for the next leader; None: no longer.

    A node may be gone or full of annotations, and older manifests do not grant the right: then only this process
    knows. Raises `PaictlError`.
    """
    body = {"metadata": {"annotations": {GIVEN_UP: None if seconds is None else str(seconds)}}}
    try:
        client.request("PATCH", f"/api/v1/nodes/{quote(node, safe='')}", body, kind=MERGE)
    except KubeError as error:
        if not pods.is_refusal(error):
            raise


@frozen
class GroupStatus:
    """What a group's condition should be."""

    group: PodGroup
    placed: bool
    message: str

    @property
    def condition(self) -> tuple[str, str]:
        """Status and message as written in the condition."""
        return str(self.placed), self.message


def outdated(core: DoorCore) -> list[GroupStatus]:
    """The groups whose condition is out of date, with what it should be."""
    statuses = []
    with core.sharing() as give_way:
        groups = core.table.pod_groups
        for key in list(groups.members) if core.is_open else ():
            group = groups.known.get(key)
            if group is not None:
                statuses.append(_status(core, group, list(groups.members.get(key, ()))))
            give_way()
    return [status for status in statuses if status.condition != status.group.condition]


def _status(core: DoorCore, group: PodGroup, uids: list[str]) -> GroupStatus:
    entries = [entry for uid in uids if (entry := core.table.by_uid.get(uid)) is not None]
    waiting = [entry for entry in entries if not _has_place(core, entry)]
    if waiting:
        reasons = (why for entry in sorted(waiting, key=lambda pod: pod.ref.name) if (why := _why(entry)))
        return GroupStatus(group, False, next(reasons, "its pods have not been checked yet")[:_LONGEST])
    if len(entries) < group.size:
        return GroupStatus(group, False, f"{len(entries)} of {group.size} pods are there")
    return GroupStatus(group, True, f"{len(entries)} pods have their devices")


def _has_place(core: DoorCore, entry: PodEntry) -> bool:
    booked = core.book.pods.get(entry.ref.uid)
    return booked is not None and booked.info is not None


def _why(entry: PodEntry) -> str:
    if entry.problem is not None:
        return entry.problem.message
    return entry.cached.reason if entry.cached is not None else ""


def write_condition(client: KubeClient, path: str, status: GroupStatus) -> None:
    """Write a group's condition; `path` is where PodGroups are served. A refused write is retried later.

    Raises `NoAnswerError`.
    """
    namespace, _, name = status.group.key.partition("/")
    condition = {
        "type": CONDITION,
        "status": str(status.placed),
        "reason": "Placed" if status.placed else "Waiting",
        "message": status.message,
        "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    body = {"metadata": {"uid": status.group.uid}, "status": {"conditions": [condition]}}
    with suppress(KubeError):
        client.request("PATCH", f"{path}/namespaces/{namespace}/podgroups/{name}/status", body, kind=STRATEGIC)
