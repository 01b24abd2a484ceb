"""Gangs with missing or lost pods, and places that are never taken. Functions on the core, under its lock.

A pod on an unreachable node would exist for minutes, and its Job would not create another one. So it is marked as
failed and deleted, as Kubernetes' garbage collector does with pods of a removed node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from paictl.cluster.pods.labels import Reading
from paictl.doors import pod_events, reclaim
from paictl.doors.core import DoorCore
from paictl.doors.pod_events import PodEvent
from paictl.doors.table import GangKey, PodEntry, PodRef
from paictl.frozen import frozen
from paictl.i18n import counted, text
from paictl.scheduler.groups import Group, GroupState

PATIENCE: Final = 60.0
"""Seconds after the last new pod of a gang for which its other pods may still be created."""


def missing(core: DoorCore, entry: PodEntry) -> str:
    """How many pods of an entry's gang have never been seen; empty if none are missing, or it cannot be known.

    A pod that came and went, or ran before this process started, has existed although it was not seen.
    """
    if entry.reading is None:
        return ""
    request = entry.reading.request
    key = core.table.gang(entry.ref, request.group)
    why = _missing(core, [pod for pod in core.table if pod.reading and _key(core, pod, pod.reading) == key])
    deadline = core.options.gang_deadline
    if not why or not deadline:
        return why
    return text(
        "{why}; its place is given back {seconds:g} s after the last of them arrived", why=why, seconds=deadline
    )


def _missing(core: DoorCore, members: list[PodEntry]) -> str:
    first = members[0].reading if members else None
    if first is None or core.table.gang(members[0].ref, first.request.group) in core.departed:
        return ""
    total = sum(pods for _, pods in first.request.members)
    if len(members) >= total or any(member.runs and not member.was_asked for member in members):
        return ""
    left = total - len(members)
    return counted(
        "waits for {count} more pod of its group: {seen} of {total} were seen (group {group})",
        "waits for {count} more pods of its group: {seen} of {total} were seen (group {group})",
        left,
        seen=len(members),
        total=total,
        group=first.request.group,
    )


def tell_missing(core: DoorCore) -> None:
    """Send the pods of a gang, running or waiting, one event that others have not been created."""
    with core.guarded():
        if not core.is_open:
            return
        gangs = _gangs(core)
        core.departed &= gangs.keys()
        for entry, why in _incomplete(core, gangs, PATIENCE):
            if entry.missing != why:
                entry.missing = why
                core.record(pod_events.incomplete(entry.ref, why))


def late(core: DoorCore) -> list[tuple[PodRef, str]]:
    """Pods that hold a gang's place past the deadline for its other pods, with what is missing."""
    with core.guarded():
        deadline = core.options.gang_deadline
        if not core.is_open or deadline is None:
            return []
        incomplete = _incomplete(core, _gangs(core), deadline)
        return [(entry.ref, why) for entry, why in incomplete if entry.runs and not core.leaves(entry)]


def _key(core: DoorCore, entry: PodEntry, reading: Reading) -> GangKey:
    return core.table.gang(entry.ref, reading.request.group)


def _gangs(core: DoorCore) -> dict[GangKey, list[PodEntry]]:
    """The pods of each gang of more than one, as far as they were seen."""
    gangs: dict[GangKey, list[PodEntry]] = {}
    for entry in core.table:
        if entry.reading is not None and sum(pods for _, pods in entry.reading.request.members) > 1:
            gangs.setdefault(_key(core, entry, entry.reading), []).append(entry)
    return gangs


def _incomplete(
    core: DoorCore, gangs: dict[GangKey, list[PodEntry]], patience: float
) -> Iterator[tuple[PodEntry, str]]:
    """The pods of gangs to which no pod has come for so many seconds while some are missing, and who is missing."""
    before = core.clock() - patience
    for members in gangs.values():
        if max(member.first_seen for member in members) < before and (why := _missing(core, members)):
            for entry in members:
                yield entry, why


def vacant(core: DoorCore) -> set[str]:
    """Preempting groups whose victims are gone, but whose pods have not taken the place yet."""
    with core.guarded():
        groups = core.book.engine.state.groups.by_name.values()
        return {group.name for group in groups if _is_vacant(core, group)}


def _is_vacant(core: DoorCore, group: Group) -> bool:
    return group.state is GroupState.PREEMPTING and not core.book.engine.victims(group.leaves())


def give_back(core: DoorCore, name: str) -> None:
    """Give up the untaken place of a preempting group: kube-scheduler does not offer it, for reasons of its own."""
    with core.guarded():
        group = core.book.engine.state.groups.by_name.get(name)
        if group is None or not _is_vacant(core, group):
            return
        nodes = frozenset(core.book.engine.state.physical.node_name(leaf) for leaf in group.leaves())
        for uid in sorted(group.preempting):
            core.record_outcomes(core.book.gone(uid, core.wall()))
            entry = core.table.by_uid.get(uid)
            if entry is not None:
                reclaim.decline(core, entry, nodes)
                entry.cached, entry.examined = None, (-1, -1)
                core.record(pod_events.released(entry.ref, ", ".join(sorted(nodes)), core.options.deadline))
        core.work.set()


AFTER: Final = 5.0
"""Seconds for which a node has to be away before its members are given up: an API server may just be restarting."""


@frozen
class LostMember:
    """A pod to be replaced while the others of its gang keep running."""

    pod: PodRef
    why: str
    dead: bool
    """Whether its node is away, so that no kubelet would end it."""
    grace: int | None = None
    """Seconds for its end if a kubelet ends it; None: as many as it asks for."""

    def event(self) -> PodEvent:
        """The pod's event."""
        return pod_events.member_lost(self.pod, self.why)


def due(core: DoorCore) -> list[LostMember]:
    """Members on nodes that have been away for long enough.

    Members whose grace period is beyond the limit stay: once the node is back, their containers could run for years,
    and the node would have to wait for them.
    """
    with core.guarded():
        before = core.clock() - AFTER
        away = {name for name, since in core.health.away_since.items() if since <= before}
        members = []
        for uid, pod in core.book.pods.items() if away else ():
            entry = core.table.by_uid.get(uid)
            if not pod.request.repair or pod.info is None or entry is None or entry.grace > core.options.longest_grace:
                continue
            if pod.info.node in away:
                reason = core.health.bad.get(pod.info.node, "")
                why = f"node {pod.info.node} is lost: {reason}"
                members.append(LostMember(entry.ref, why, dead=True))
        return members


def expect_end(core: DoorCore, member: LostMember) -> None:
    """A member is given up although its containers may run: its node gets no other pod before they can have ended."""
    with core.guarded():
        entry, booked = core.table.by_uid.get(member.pod.uid), core.book.pods.get(member.pod.uid)
        if entry is not None and booked is not None and booked.info is not None:
            core.health.give_up(booked.info.node, entry.grace)


def ended(core: DoorCore) -> list[str]:
    """Nodes on which the pods that were given up have ended, so that their annotation has to go."""
    with core.guarded():
        return sorted(core.health.ended)
